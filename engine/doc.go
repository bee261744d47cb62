// Package engine keeps named queues of items: durable, ordered, and far larger than memory if they
// must be. It is the server's storage and a library of its own; [Open] begins, [Engine.Queue] is the
// simple face.
//
// # Words
//
//	item          a stored value with its flags, expiry and id; ids of a queue rise by one per put
//	queue         a named FIFO of items
//	open read     a fetch that a confirm ends for good, and an abort takes back
//	ticket        how far the journal must be written, and synced, before a caller may be answered
//	journal       the one log of all queues: puts and removes, in the order in which they happened
//	run           a file with a part of one queue's backlog
//	window        the items of a queue that are in memory, oldest first, in chunks
//	read-behind   the state of a queue that has outgrown its memory
//	spill, fill   write chunks of a queue to its runs; read them back into its window
//	checkpoint    write the state of every queue again, so that old segments can go
//	shard         some of the queues, under one lock
//
// # The life of a put
//
// [Engine.Put] locks the queue's shard, appends the item to the window and its record to the
// journal's buffer, and returns a ticket. [Engine.Commit] writes the buffer, and syncs it if the
// ticket asks for that, once for everybody whose records have gathered in it.
//
// # The life of a spill
//
// A queue that exceeds its memory enters read-behind. The spool writes its oldest chunks to a run,
// syncs the run, and journals a record that says so. From then on the journal may drop those items.
// Before the window is used up, the spool reads the next frames back.
//
// # The life of a restart
//
// [Open] reads the journal from its oldest segment. Removes name ids, so it does not matter which
// older segments are gone. Runs are opened when the journal names them; their items are not read.
//
// # Locks
//
// A shard's mutex guards its queues and is held for work in memory only. The journal's buffer mutex
// is taken inside it. Nobody holds two shards at once: what crosses shards is done one after the
// other, behind the operation that caused it. A waiter is notified under the shard's mutex, so it
// may only post.
package engine
