package netloop

import "github.com/kestrelmq/kestrel/engine"

// This file says what a session needs of its protocol and of its connection.

// sink is where a session's replies go.
type sink interface {
	// send passes p to the peer, which may take it later; it copies what it keeps. When the peer
	// takes bytes again after it had not, the session's loop gets writable as news.
	send(p []byte)
	// listen says whether the peer is to be heard. It is not while a job of the session runs, so that what it sends
	// stays with it, and its end comes behind the reply.
	listen(on bool)
	// unsentBytes is how many bytes the peer has not taken yet, and memory how many bytes of memory they take.
	unsentBytes() int
	memory() int
	// sendUnsent tries to send what is unsent.
	sendUnsent()
	// close ends the connection; the loop hears of it through (*loop).endSession. The peer still gets
	// what is unsent, if it reads it in time.
	close()
	// peer describes the other side, for logs.
	peer() string
}

// protocol decodes requests and words replies. It has no state of its own, but the size of a pointer: an interface then
// holds the protocol itself. So a call copies no arguments on the way: 37 instructions less for a SET and a GET.
type protocol interface {
	// next decodes and runs the request at the start of in, and returns how many bytes it took. It returns 0 if the
	// request is not complete, or the session is not to be read any more.
	next(s *session, in []byte) int
	// item words an item that was fetched, and reports whether there is room for it: if not, it
	// stays in its queue. It is called with a shard of the engine locked.
	item(s *session, it engine.Item) bool
	// none words the end of a fetch without an item, or of a monitor.
	none(s *session)
	// refuse words why an operation was refused, and closes the session if the protocol says so.
	refuse(s *session, err error)
	// name is what operators call it.
	name() string
	// largest is how many bytes of a request are kept until it can be run.
	largest(o *Options) int
	// extent is how many bytes the request at the start of in says that it has. If its head is not whole, that is what
	// a head may have. It is 0 for a request that does not say so, or that would be refused.
	extent(s *session, in []byte) int
	// tooMany is the error for a connection over the limit; empty if the protocol has none.
	tooMany() []byte
	// retract appends to dst what is sent in place of reply, which turned out not to be true.
	retract(dst, reply []byte, err error) []byte
}
