// Package aside holds the items of one queue that are not in line. They are delayed or leased, or have become due again
// and are handed out before their turn. It finds them by id and by token, knows which is due next and which of those
// due again comes first, and keeps their images. It is a data structure alone: it locks nothing, reads no clock and
// does no I/O.
package aside
