// Package marks writes and reads files of what is gone in the middle of a backlog. A file has the ids of items that were
// removed out of their order, a bit each where they lie close together. It is written once, and read at a start. It is a
// run (see package segment), so that its frames are checked one by one.
package marks
