// Package journal gathers the records of all queues in one log, and commits them in groups. It knows queue
// numbers, and no queue.
//
// # Group commit
//
// [Journal.Put] and its like append a record to a buffer in memory and return its [LSN]. The caller holds the lock of
// the queue meanwhile, so the order in the journal is the order in the queue. They never wait. A [Ticket] says how far
// the journal must come before an operation may be acknowledged, and [Journal.Commit] waits for that. The first caller
// writes, or syncs, everything that has gathered; the others find it done.
//
// # The seam
//
// Batches go to a [Committer], which says when a batch is committed. Today that is the local disk, a
// [segment.Log]. [Options.Committer] puts something else in its place, such as a group of servers. The
// journal calls it once for each batch, never for each operation.
//
// # Failures
//
// A write that fails is tried again. A failed sync poisons the log. The journal acknowledges nothing until
// [Journal.Move] has filled another log in a directory of its own, and put it in the place of the first. See [Dirs].
//
// # Locks
//
// The mutex of the buffer may be taken inside the lock of a queue. The functions that a caller passes to
// [Journal.Record], [Journal.Move], [Move.End] and [Journal.Inspect] run with locks of the journal held, and
// call nothing of it.
package journal
