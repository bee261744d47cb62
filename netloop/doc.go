// Package netloop speaks the protocols of Kestrel's clients on event loops.
//
// # Words
//
//	session    one client's conversation, without its socket: bytes in, bytes out, and the ticket that
//	           must be good before the bytes may leave
//	loop       an event loop with its sessions, on one goroutine; its driver reads from their sockets
//	driver     what a loop reads and sends with: sockets, or connections in memory
//	poller     what a driver of sockets waits with: gnet's reactor, or epoll
//	turn       what a loop does between two waits for events
//	share      the millisecond that a turn has for one kind of work; what does not fit waits for the next turn
//	tick       the end of a turn: it goes on with stalled sessions, and then wraps up
//	dirty      of a session: it has replies or a ticket for the next commit of its loop
//	held       of a session: its replies wait for a commit that is under way
//	buffered   of input: it cannot run yet, so it is copied and counted. A line is one of text, in a protocol or the log
//	wrap up    of a loop: hear the news, commit what the turn did, and send the replies; the main part of a tick.
//	           A turn that serves the bulk may do it for the other connections first
//	resuming   of a session: it was stalled, and a later turn goes on with it
//	claim      a reply that says that something was stored or removed; it waits for the session's ticket
//	waiting    of a session: a fetch, a monitor or a job has begun and has not ended
//	stalled    of a session: it has replies that its client does not read, or has had its share of a turn
//	wait       what a waiting session waits for; its engine.Waiter waits at a queue
//	monitor    a request for many items until a deadline; a Thrift get is one
//	job        a request, or a part of one, that a goroutine of its own runs
//	gathered   of puts: decoded, and not run yet, so that one call of the engine takes them together
//	bulk       the connections that move much; each turn serves 32 KiB of them, if there are others
//	late       of a connection: a turn had no time to read from it
//	paced      of a connection: the driver does not read from it, because its queue is ahead of the disk, or a
//	           quota has refused its requests
//	unread     of a connection: a turn has read from it, and it may have more for the next turn. Of replies: their
//	           client has not read them
//	muted      of a connection: its poller reports failures alone, until the driver reads from it again
//	mailbox    news of sessions for a loop, from other goroutines
//	alarm      of a loop: what wakes it for its next deadline. The engine has an alarm of its own, for its queues
//	unsent     of replies: made, and not taken by the socket yet
//	drainer    the goroutine that sends what is unsent when sockets take it
//	draining   of a loop: the server stops, so it ends waits, and closes sessions that have nothing left to do
//	pinned     of input: a job uses it, so nobody moves it or gives it back
//	spelt      the name of a queue as the client spells it, or its whole key: replies repeat it
//
// # The life of a request
//
// The session decodes bytes where they lie and runs their requests at once, on the loop's goroutine,
// under the lock of the queue's shard. It appends the reply to its output. At the tick the loop writes
// the journal once for everything that the turn did. It sends each session's replies with one system
// call, after the write, or the sync, that covers them.
//
// A fetch that finds no item makes its session wait: the session's Waiter joins the queue's waiters, and the session
// the loop's heap of deadlines. The goroutine that ends the wait posts the session to the mailbox of its loop, and
// wakes the loop unless it is awake.
//
// # Who owns what
//
// A session and its connection belong to the goroutine of their loop, from open to close. Other
// goroutines touch a loop through its mailbox, its awake flag and its failure pointer only. They may
// post a session with a shard of the engine locked, and must call nothing else of the loop then.
//
// # Invariants
//
//	N1  A reply leaves only when the session's ticket is good, in the order of the requests.
//	N2  A session runs requests in state idle only.
//	N3  A session is in the mailbox at most once: it waits for one thing at a time.
//	N4  An item delivered to a session that is gone goes back to the head of its queue.
//	N5  Nothing is sent on a connection that is closed, or about to be.
//	N6  After a turn has begun, a tick follows.
//	N7  A connection that may have something unread has an event to come, is unread, in the bulk or late of its
//	    driver, or is muted.
package netloop
