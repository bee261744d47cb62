// Package netloop speaks the protocols of Kestrel's clients on event loops.
//
// # Vocabulary
//
// A session is one client's conversation, without its socket: bytes in, bytes out, and the ticket
// that must be committed before the bytes may leave. A loop is an event loop with its sessions; a
// turn is what happens between two waits for events, and a tick is its end. A session is held while
// a commit that it waits for is under way.
//
// # The life of a request
//
// Bytes that arrive are decoded where they lie and run at once, on the loop's goroutine, under the
// lock of the queue's shard. The reply is appended to the session's output. At the tick the loop
// writes the journal once for everything that the turn did, and sends each session's replies with
// one system call, after the write, or the sync, that covers them.
//
// A fetch that finds no item parks its session: an intrusive node in the queue's line, and in the
// loop's heap of deadlines. Whoever ends the wait posts the session to the mailbox of its loop, and
// wakes the loop unless it is awake.
//
// # Who owns what
//
// A session and its connection belong to the goroutine of their loop, from open to close. Other
// goroutines touch a loop through its mailbox, its awake flag and its failure pointer only. Shards
// of the engine may be locked when a session is posted; nothing else is called then.
//
// # Invariants
//
//	N1  A reply leaves only when the session's ticket is good, in the order of the requests.
//	N2  A session runs requests in state idle only.
//	N3  A session is in the mailbox at most once: it waits for one thing at a time.
//	N4  An item delivered to a session that is gone goes back to the head of its queue.
//	N5  Nothing is sent on a connection that is closed, or about to be.
//	N6  After a turn has begun, a tick follows.
//	N7  A connection that may have something unread has an event to come, is unread, in line or late of its
//	    driver, or is muted.
package netloop
