// Package replay makes of the records of a journal what its queues were, as plain values: items, ids that are gone,
// runs, and what is known of items that are not in line. It knows no engine, and reads no run.
//
// A [Replay] takes the frames of the journal, oldest first, and then hands out the queues. Each [Queue] belongs to
// the caller from then on. Records of a queue may come before its name does: the segment that had the name may have
// been dropped, after a checkpoint rewrote it in a later one.
package replay
