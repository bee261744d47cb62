// Package item is items in memory: their images, windows of them in chunks, and the pools and the
// arena that chunks come from.
//
// A [Window] is a FIFO of items. It keeps them as images, one behind the other, in a list of chunks; the
// collector sees no pointer in them. Small chunks are Go's and come from a [Pool]; the largest lie
// outside Go's heap, in an [Arena] that all pools share. The lists of [NewFreeLists] account for what
// is left for later.
//
// Nothing here locks: the owner of a Window or a Pool guards it. An Arena may be used from any goroutine.
//
// The invariants W1 to W5 stand at [Window].
package item
