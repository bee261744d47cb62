// Package marks is what is gone in the middle of a backlog, as a file. It has the ids of items that were removed out of
// their order, a bit each where they lie close together. A file is written once and read at a start. It is a run (see
// package segment), so that its frames are checked one by one.
package marks
