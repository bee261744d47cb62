// Package runs is what a run, a file with a part of a queue's backlog, says of itself: the tag of each
// frame, which of the queue's items it holds, and its name. A [Cursor] is a place in a chain of runs.
// Package segment has the bytes of the files.
package runs
