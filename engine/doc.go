// Package engine keeps named queues of items: durable, ordered, and far larger than memory if they must be. It is the
// server's storage and a library of its own; [Open] begins, [Engine.Queue] is the simple face.
//
// # Words
//
//	item          a stored value with its flags, expiry and id; ids of a queue rise by one per put
//	image         the bytes of an item, the same in memory, in the journal and in runs
//	queue         a named FIFO of items
//	fanout child  a queue whose name begins with its parent's and a +; it gets each put to the parent
//	alias         a name that hands on what is put to it, to its destinations: queues, or other aliases. Nobody
//	              fetches from it. A Destination in the journal is a queue, with the id that an item has there
//	shard         some of the queues, under one lock
//	chunk         a piece of memory with the images of consecutive items of one queue
//	window        the items of a queue that are in memory, oldest first, in chunks
//	open read     a fetch that a confirm ends for good, and an abort takes back
//	aside         of an item: delayed, leased, or due again before its turn
//	ready         of an item aside: it is due again, and fetches hand it out in the place that its id gives it
//	in line       of an item: fetches hand it out in its turn; what is aside is out of line. Nothing else is a line
//	held          of an item: a client has it, in an open read or by a lease; of a lock: somebody has locked it
//	change        give an item another expiry or delay; a change record says what an item has become
//	coming        of an item: it is on its way into the window, so a fetch waits for it
//	waiter        a fetch that waits at a queue, until an item or an end comes
//	watcher       a waiter that takes no item: it hears that one may have come
//	receipt       the random number that names a lease; a token in the journal
//	move          of an item: its queue gives it to another one, because it has expired or is dead. The items in
//	              question are moving until finishMoves has carried them
//	journal       the one log of all queues: puts and removes, in the order in which they happened
//	record        one operation in the journal, about one queue or several
//	LSN           a place in the journal's records; it rises with each
//	ticket        how far the journal must be written, and synced, before a caller may be answered; when the
//	              journal has come that far, the ticket is good
//	puts record   consecutive puts to one queue, with their images behind each other
//	keep record   the rewritten image of an item that lives, so that its older place can go; a function called
//	              keep writes one. A backup keeps nothing: it retains segments
//	pin           of a read: its item lies in a segment of the journal, which therefore cannot go
//	checkpoint    rewrite the state of every queue, so that old segments can go
//	backlog       the part of a queue that is on disk, or on its way there
//	run           a file with a part of one queue's backlog, in frames; the journal says what is in it.
//	hidden run    such a file with delayed items, in the order in which they are due; see package hidden.
//	              Nothing else in engine and segment is called a run
//	marks         a file with the ids that are gone in the middle of a backlog, if these are many. What package
//	              segment calls a mark is a frame of the log
//	read-behind   the state of a queue that has outgrown its memory
//	behind        later in an order: of items, frames or bytes. As a state it is part of read-behind alone
//	leaving       of a chunk: it waits to be written to a run, or is being written
//	spill, fill   write chunks of a queue to its runs; read frames back into its window
//	thin          of a run: so much of it is gone that the spool writes it again, without that
//	forgo         record what the journal must say of a run before the file goes
//	ahead         of a queue: it takes puts faster than the disk does. Reading ahead is something else:
//	              frames are read before a consumer needs them
//	settle        drop or expire what a queue owes: an earlier put or sweep had to leave it at the head, because
//	              it was on disk alone. Until then, and while reads come back in pieces, the head is busy
//	win           of a queue: have an item first for a wait for several queues, and so end the wait
//	stray         of a run: no record names it, or no queue has it
//	withheld      of a queue: the start could not restore it whole, so the engine does not serve it
//
// # The life of a put
//
// [Engine.Put] and [Engine.PutAll] lock the queue's shard and check the limits of the engine and the queue. They append
// the item to the window and its record to the journal's buffer, serve the first waiter, and return a ticket.
// [Engine.Commit] writes the buffer, and syncs it if the ticket asks for that. It does so once for all callers whose
// records have gathered in the buffer.
//
// # The life of a spill
//
// A queue that exceeds its memory enters read-behind. The newest items go to a window of their own, recent; the oldest
// chunks of it leave. The spool writes leaving chunks to a run, syncs the run, and journals a spilled record. From then
// on the journal may drop those items. Before consumers have used up the window, the spool reads the next frames back.
// When nothing is left between the window and recent, they are joined. When all items of a run have been handed out,
// forgo writes to the journal what must stand there, and the run is removed.
//
// # The life of a restart
//
// [Open] reads the journal from its oldest segment. Removes name ids, so it does not matter which older segments are
// gone. Open compares the spilled records with the removes. It opens each run that has live items, and reads only its
// header unless a part of it is gone. A queue whose runs are not what the journal says is withheld. An item of an
// open read is back in its place, because no record says that it left.
//
// # Locks
//
// The order, outer first; nobody needs to take them all:
//
//	Engine.reloadMu, Journal.prepareMu       one Reload, or one Prepare; taken with no other lock held
//	Engine.backing                           while segments are dropped; taken with no shard or log locked
//	spool.hideMu, writeMu, recordMu, readMu  one goroutine hides, writes, records, or reads runs; held during I/O
//	Journal.syncMu, writeMu                  one goroutine syncs, or writes, the journal; held during I/O, and
//	                                         never taken with a shard locked
//	shard.mu                                 the queues of a shard; memory work only
//	Journal.mu, spool.mu, those of packages  the journal's buffer, the spool's lists, the alarm; memory work only
//	Engine.metersMu                          last
//
// Nobody holds two shards at once: work that crosses shards is done one shard after the other, behind the operation
// that caused it. A waiter is notified under the shard's mutex, so its Notifier may only post.
package engine
