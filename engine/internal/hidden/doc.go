// Package hidden is the delayed items of a queue that are on disk: hidden runs. A run is a file of frames (see
// package segment) with items in the order in which they are due, and an index behind them. It is written once.
//
//   - [Batch] gathers items and writes a run of them.
//   - [Run] is what memory keeps of a run: a few bytes for each frame and two bits for each item.
//   - [Set] is the runs of one queue.
//   - [Reader] reads the items of runs back, and opens runs that the journal names.
//
// An item lives in a run if its place is there: a start takes it from the run. It is on disk as long as it has
// not been read back. What has been read back lives in the run until it is gone, or has its place elsewhere.
package hidden
