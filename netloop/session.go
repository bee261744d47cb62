package netloop

import (
	"sync/atomic"

	"github.com/valyala/bytebufferpool"

	"github.com/kestrelmq/kestrel/engine"
)

// sessionState is where a session is in its life. Its loop owns it; (*session).to changes it.
//
//	idle    -> waiting  a fetch, monitor or job has begun
//	idle    -> stalled  the client does not read its replies, or has had its share of the turn
//	idle    -> closing  QUIT, fatal error, shutdown
//	waiting -> idle     it has ended
//	waiting -> closing  shutdown, its user is gone, or its client sends too far ahead
//	stalled -> idle     the client reads again, or a later turn goes on
//	stalled -> closing  as from waiting
//	any     -> closed   the connection is gone; terminal
//
// A session runs requests in state idle only. In the other states it buffers what arrives, so no reply can overtake an
// earlier one. In closing, replies still leave, but no request runs.
type sessionState uint8

const (
	idle sessionState = iota
	waiting
	stalled
	closing
	closed
)

// session is one client's conversation: bytes in, bytes out, and the ticket that must be good before they may
// leave. It does no I/O. The goroutine of loop owns all of it but the engine's Waiter in wait.
type session struct {
	// What each request touches stands together: of many sessions, the processor's cache keeps few lines of each.
	loop     *loop
	proto    protocol
	sink     sink
	state    sessionState
	leaving  bool // the client sends nothing more: the session ends after the reply that is being made
	yielded  bool // it is stalled because it has run much: the driver does not read from it meanwhile
	resuming bool // in loop.resuming
	catchUp  bool // it has fetched from a queue with many items, and not put since; see catchUpSize
	claiming bool // the reply being made says that something was stored or removed
	noRoom   bool // an item was not taken because its reply had no room
	unheard  bool // its client is gone: items that it has asked for would be lost
	dirty    bool // in loop.dirty
	served   bool // … with an item
	held     bool // in loop.held; see heldTicket

	refuseReads  bool // by the connection limits, for life
	refuseWrites bool
	posted       news // guarded by the mailbox's mutex
	news         news // taken from the mailbox

	in      []byte // bytes of requests that have not run, from inStart on; nil without any
	inStart int
	need    int   // bytes that the request at the start of in is known to have
	skip    int64 // bytes of a refused item that are still to come, and are dropped
	work    int   // done for it in turn ranIn of the loop; see maxWork
	look    int   // the work after which it looks at the clock
	ranIn   int64

	out     []byte                     // replies that have not left; nil if there are none
	outPool *bytebufferpool.ByteBuffer // which out came from
	ticket  engine.Ticket              // must be good before the replies, or the next one, may leave
	claims  []claim                    // the replies that say that something was stored or removed
	// replyStart is where in out the reply to the request being run begins.
	replyStart int
	owed       int // bytes of replies that have not left, as counted in the loop's ledger
	spare      int // what their buffers have beyond that, likewise
	taken      int // bytes of replies that the client has read, as far as the server knows

	tally                tally
	lastRequest          moment
	olderIdle, newerIdle *session // in loop.sessions

	clientID string        // who the client says it is; "" if it does not
	burrow   *burrowState  // nil in other protocols
	waits    *atomic.Int64 // of the account whose request waits; nil if none does, or it has no quota
	name     []byte        // queue of the fetch being run, as the client spells it
	terms    terms         // of that fetch
	reads    openReads
	body     body // a large item that follows out
	wait     wait
	id       identity

	// What few requests touch.
	local    bool                       // the peer is on this machine
	pinned   bool                       // a job uses in: until it ends, nobody moves in or gives it back
	inPool   *bytebufferpool.ByteBuffer // which in came from; nil if it lies in space
	space    []byte                     // see bufferInSpace; nil: none
	kept     int                        // capacity of in, as counted in Server.buffered
	bySize   sizePlace                  // in the loop's
	begun    begun                      // see isTooFarAhead
	items    textItems                  // of the text protocol
	thrift   thriftState
	delivery engine.Delivery // describes the item being received, if terms asks for that

	// A session is held while a shared commit is under way. The first heldSize bytes of out then wait for
	// heldTicket only: otherwise a busy client would delay its own replies for ever.
	heldSize   int
	heldTicket engine.Ticket

	ahead []byte // the queue that the last put found ahead of the disk; empty: none
	// overQuotas is how many requests quotas have refused since the driver read from it, or since its last rest ended.
	overQuotas int
}

// claim is a reply, out[start:end], that is true only once the session's ticket is good.
type claim struct{ start, end int }

func (s *session) to(state sessionState) {
	if s.state == closed || s.state == closing && state != closed {
		return
	}
	if s.waits != nil && state != waiting {
		s.endAccountWait()
	}
	s.state = state
}

// endAccountWait subtracts a wait that has ended from the count of its account.
func (s *session) endAccountWait() {
	s.waits.Add(-1)
	s.waits = nil
}

// answering reports whether another goroutine works on a reply. That is a job, a piece of a report, or a read of an
// item from the disk. A wait for that has no deadline.
func (s *session) answering() bool {
	return s.wait.report != nil || s.state == waiting && (s.wait.kind == waitJob || s.wait.heapIndex < 0)
}

// waitsForClient reports whether the session runs nothing because of its client: that has asked to wait, or does not
// read.
func (s *session) waitsForClient() bool {
	return s.state == stalled && !s.yielded && !s.held || s.state == waiting && !s.answering()
}

// A turn does maxWork units of work for one session, which take about a millisecond. Then the session yields: a later
// turn runs the rest, behind other sessions. One unit is a request, an item beyond the first that it touches,
// workSize bytes of the request, or replyWork bytes of its reply. An item that is put with a delay or a key is more; see
// putWork. Every lookWork units the session looks at the clock, and yields if it has used maxShare.
const (
	maxWork   = 4096
	lookWork  = 64
	workSize  = 512 // bytes
	replyWork = 64  // bytes: few, because a reply may be the first to touch its memory
)

// spent reports whether the session has had its share of the turn.
func (s *session) spent() bool {
	l := s.loop
	if s.ranIn != l.turns {
		s.ranIn, s.work, s.look = l.turns, 0, lookWork
	}
	if s.work >= s.look && s.work < maxWork {
		s.look = s.work + lookWork
		if l.watchdog.inPart() >= maxShare {
			s.work = maxWork
		}
	}
	return s.work >= maxWork
}

// lookSoon has the session look at the clock before its next request. The one that it runs may take longer than the work
// that it counts as.
func (s *session) lookSoon() { s.look = s.work }

// owesTooMuch reports whether so many replies wait for the client that the session must not run more requests.
func (s *session) owesTooMuch() bool { return s.body.pending() || s.readsTooLittle() }

// readsTooLittle reports whether more replies wait for the client than it may leave unread.
func (s *session) readsTooLittle() bool {
	if s.owed >= smallReply && s.repliesShort() {
		return true
	}
	return len(s.out)+s.sink.unsentBytes()+len(s.body.rest) > s.loop.server.opts.MaxPending
}

// store appends bytes to the input, unless there is no memory for them. It closes the session if they exceed its limits.
func (s *session) store(buf []byte) bool {
	if s.state == closing || s.state == closed {
		return true
	}
	l := s.loop
	if s.inStart > len(s.in)/2 && !s.pinned {
		s.in = s.in[:copy(s.in, s.in[s.inStart:])]
		s.begun.at -= s.inStart
		s.inStart = 0
	}
	limit := l.server.opts.MaxPending + s.proto.largest(&l.server.opts)
	if s.id.unknown && !s.answering() { // what has come with the request that says who it is may be more
		limit = maxUnknown
	}
	if size := len(s.in) - s.inStart + len(buf); size > limit || s.waitsForClient() && s.isTooFarAhead() {
		if _, ok := l.server.logPaces.ahead.due(l.clock); ok {
			l.log.Warn("connection closed: the client sends too far ahead of its replies",
				"peer", s.sink.peer(), "bytes", size)
		}
		s.cutOff(errTooMuchInput)
		return true
	}
	return s.bufferInput(buf)
}

// cutOff sends the client the reason, and closes the session.
func (s *session) cutOff(err error) {
	s.takeOutput()
	s.refuse(err)
	s.quit()
}

// quit closes the session once its replies have left.
func (s *session) quit() {
	if s.state == waiting {
		s.loop.cancel(s)
	}
	s.to(closing)
	s.dropInput()
	s.loop.makeDirty(s)
}

// quitMisled is quit for a client whose input cannot be a request of its port's protocol. The session does not run
// what follows.
func (s *session) quitMisled() {
	s.loop.counters.NotProtocol++
	s.quit()
}

// Receive implements engine.Receiver for the fetch being run.
func (s *session) Receive(it engine.Item) bool {
	if s.body.pending() {
		return false // until that has left
	}
	s.served = true
	taken := s.proto.item(s, it)
	if taken {
		s.gets(len(it.Data))
		s.chargeReply(len(it.Data))
	}
	return taken
}

// after makes the replies of the session so far wait for t.
func (s *session) after(t engine.Ticket) {
	s.ticket = s.ticket.Merge(t)
	s.loop.ticket = s.loop.ticket.Merge(t)
}

// claim is after, for a request whose reply says that something was stored or removed.
func (s *session) claim(t engine.Ticket) {
	s.after(t)
	s.claiming = true
}

// endReply ends the reply to one request, which begins at offset start of out.
func (s *session) endReply(start int) {
	if s.claiming && start < len(s.out) {
		s.claims = append(s.claims, claim{start, len(s.out)})
	}
	s.claiming = false
}

// sent forgets the first n bytes of out, which have left.
func (s *session) sent(n int) {
	s.out = s.out[:copy(s.out, s.out[n:])]
	kept := s.claims[:0]
	for _, c := range s.claims {
		if c.start >= n {
			kept = append(kept, claim{c.start - n, c.end - n})
		}
	}
	s.claims = kept
}

// retract replaces the claims among the first n bytes of the replies, because their commit has failed. It returns
// how many bytes these replies have now. What was to follow of a long reply goes too.
func (s *session) retract(n int, err error) int {
	var out []byte
	at, done := 0, 0
	for ; done < len(s.claims) && s.claims[done].end <= n; done++ {
		c := s.claims[done]
		if c.end == len(s.out) { // the body on its way, if there is one, is of this reply
			s.dropBody()
		}
		s.noteRefused(err)
		out = append(out, s.out[at:c.start]...)
		out = s.proto.retract(out, s.out[c.start:c.end], err)
		at = c.end
	}
	out = append(out, s.out[at:n]...)
	size := len(out)
	s.out = append(out, s.out[n:]...)
	kept := s.claims[:0]
	for _, c := range s.claims[done:] {
		kept = append(kept, claim{c.start + size - n, c.end + size - n})
	}
	s.claims = kept
	return size
}
