// Package replay makes of the records of a journal what its queues were. These are plain values: items, ids that are
// gone, runs, and what is known of items that are not in line. It knows no engine.
//
// A [Replay] takes the frames of the journal, oldest first, and then hands out the queues. Each [Queue] belongs to the
// caller from then on. Only [Queue.Restore] reads runs: it finds what of the queue is in line. Records of a queue may
// come before its name does. A checkpoint may have rewritten the name in a later segment, before the segment that had
// it was dropped.
package replay
