package netloop

import (
	"sync"

	"github.com/kestrelmq/kestrel/engine"
)

// Replies that clients have not read take memory. It is bounded in three ways. An item that has memory of its own is
// sent from where it lies, in pieces, the next when the socket has taken the last. What is copied is counted as it is
// made. When all replies together take their share of the memory limit, no reply of a session grows. The item stays
// in its queue, and the client gets an error.

const (
	// bodyPiece is how many bytes of a large item are sent at a time.
	bodyPiece = 64 << 10
	// wholeReply is how many bytes a reply has at most that is copied to those before it.
	wholeReply = 256 << 10
	// bodyTurn is how many bytes of it are sent in one turn.
	bodyTurn = 512 << 10
	// smallReply is how many bytes of replies a session may owe whatever the others do.
	smallReply = 4 << 10
	// provenSize is how many bytes of replies a client must have read to be trusted with more.
	provenSize = 64 << 10
	// The replies of all sessions may take one part in replyShare of the memory limit. Clients that have read some
	// before have a share of their own, one part in provenShare.
	replyShare, provenShare = 4, 2
)

// body is a large item, or the rest of a large reply, on its way to a client. It has what is still to leave, and what
// comes behind it. Both come behind what is in the session's out. The session runs nothing meanwhile.
type body struct {
	item  []byte // all of it, as the engine has it: nobody changes it
	reply []byte // or the buffer of the reply, which is the session's own
	rest  []byte
	tail  string
}

func (b *body) pending() bool { return b.item != nil || b.reply != nil }

// bodies counts the items that sessions send from where they lie, each once, however many clients it
// goes to. Any goroutine may use it; a shard of the engine may be locked.
type bodies struct {
	account func(int64) // takes bytes held, or given back, for the memory limit

	mu    sync.Mutex
	users map[*byte]int // by the item's first byte; guarded by mu
	bytes int64         // guarded by mu
}

// use counts a user of item, unless all items together would then take more than limit bytes. One
// item is always let through. It reports whether it has counted it.
func (b *bodies) use(item []byte, limit int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users[&item[0]] == 0 {
		if b.bytes > 0 && b.bytes+int64(len(item)) > limit {
			return false
		}
		b.bytes += int64(len(item))
		b.account(int64(len(item)))
	}
	b.users[&item[0]]++
	return true
}

// drop ends what use began.
func (b *bodies) drop(item []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users[&item[0]]--; b.users[&item[0]] > 0 {
		return
	}
	delete(b.users, &item[0])
	b.bytes -= int64(len(item))
	b.account(-int64(len(item)))
}

// countOutput counts the replies of s that have not left, and what their buffers have beyond that.
func (s *session) countOutput() {
	n, room := len(s.out)+len(s.body.reply), cap(s.out)+cap(s.body.reply)
	if unsent := s.sink.unsentBytes(); unsent > 0 {
		n += unsent
		room += s.sink.memory()
	}
	if get := s.thrift.get.reply; get != nil {
		n += len(get.B)
		room += cap(get.B)
	}
	if s.burrow != nil {
		n += s.burrow.gathering
		room += s.burrow.gathering
	}
	if n == s.owed && room-n == s.spare {
		return
	}
	l := &s.loop.ledger
	l.add(room - n - s.spare)
	l.owe(n - s.owed)
	s.owed, s.spare = n, room-n
}

// uncountOutput forgets what countOutput has counted: the session has ended.
func (s *session) uncountOutput() {
	s.loop.ledger.owe(-s.owed)
	s.loop.ledger.add(-s.spare)
	s.owed, s.spare = 0, 0
}

// share is how many bytes all replies may take before s gets none of more than a few.
func (s *session) share() int64 {
	limit := s.loop.engine.MemoryLimit()
	if s.taken >= provenSize {
		return limit / provenShare
	}
	return limit / replyShare
}

// repliesShort reports whether the replies of all sessions take so much that s is to owe little.
func (s *session) repliesShort() bool { return s.loop.server.owed.Load() > s.share() }

// room reports whether n bytes may be added to the replies of s. If not, the item that they are for
// stays in its queue, and noRoom says why.
func (s *session) room(n int) bool {
	if n <= smallReply || s.loop.server.owed.Load()+int64(n) <= s.share() {
		return true
	}
	s.noRoom = true
	return false
}

// startBody has an item of its own memory sent behind what is in out, and tail behind it. It reports
// whether there is room for it. A shard of the engine is locked.
func (s *session) startBody(it engine.Item, tail string) bool {
	if !s.loop.server.bodies.use(it.Data, s.share()) {
		s.noRoom = true
		return false
	}
	s.body = body{item: it.Data, rest: it.Data, tail: tail}
	return true
}

// appendReply appends a reply that was made in a buffer of its own. What is left of a large one is sent from
// there, in pieces; b then belongs to the session. It reports whether it does.
func (s *session) appendReply(b []byte) (kept bool) {
	if len(b) <= wholeReply {
		s.out = append(s.out, b...)
		return false
	}
	s.out = append(s.out, b[:bodyPiece]...)
	s.body = body{reply: b, rest: b[bodyPiece:]}
	return true
}

// sendBody sends more of the large item on its way, if there is one, as long as the socket takes it. It
// reports whether there is none any more.
func (s *session) sendBody() bool {
	b, l := &s.body, s.loop
	if !b.pending() {
		return true
	}
	if len(s.out) > 0 {
		return false // what comes first may have to wait for a sync
	}
	for sent := 0; len(b.rest) > 0 && s.sink.unsentBytes() == 0 && s.state == stalled; sent += bodyPiece {
		if sent >= bodyTurn {
			l.later(s) // others have their turn first
			return false
		}
		piece := b.rest[:min(bodyPiece, len(b.rest))]
		b.rest = b.rest[len(piece):]
		l.send(s, piece)
	}
	if len(b.rest) > 0 || s.state != stalled {
		return false
	}
	tail := b.tail
	s.taken += len(b.item)
	s.dropBody()
	if tail != "" {
		l.send(s, []byte(tail))
	}
	return true
}

// dropBody forgets the large item on its way.
func (s *session) dropBody() {
	if s.body.item != nil {
		s.loop.server.bodies.drop(s.body.item)
	}
	s.body = body{}
}

// notTaken words why no item came that was there: there is no room for its reply, or the fetch has
// found none after all.
func (s *session) notTaken() {
	if !s.noRoom {
		s.proto.none(s)
		return
	}
	s.noRoom = false
	s.loop.counters.RepliesRefused++
	s.refuse(engine.ErrOutOfMemory)
}

func (l *loop) send(s *session, p []byte) {
	l.counters.BytesWritten += int64(len(p))
	s.tally.sent += int64(len(p))
	s.sink.send(p)
}
