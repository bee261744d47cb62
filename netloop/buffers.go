package netloop

import (
	"sync"

	"github.com/valyala/bytebufferpool"
)

// buffers are what the sessions of one loop take and give back, by use.
type buffers struct {
	inputs  bytebufferpool.Pool // learns how large they become: a session may keep its input for long
	outputs replyPool
	gets    replyPool // replies to Thrift gets
}

// replyPool hands out buffers for replies, whatever their size. One that learnt sizes would throw the
// buffers of large replies away when clients have put for a while and now get: for tens of
// thousands of turns, each of which would let a new one grow.
type replyPool struct{ pool sync.Pool }

func (p *replyPool) take() *bytebufferpool.ByteBuffer {
	if b, ok := p.pool.Get().(*bytebufferpool.ByteBuffer); ok {
		return b
	}
	return &bytebufferpool.ByteBuffer{}
}

func (p *replyPool) give(b *bytebufferpool.ByteBuffer) {
	if cap(b.B) <= maxPooledBuffer {
		p.pool.Put(b)
	}
}

// maxPooledBuffer is the capacity, in bytes, up to which a buffer is used again.
const maxPooledBuffer = 1 << 20

// smallInput is how many bytes of incomplete requests a session may keep whatever the others do.
const smallInput = 4 << 10

// takeOutput makes sure that s has a buffer for replies.
func (s *session) takeOutput() {
	if s.outPool == nil {
		s.outPool = s.loop.buffers.outputs.take()
		s.out = s.outPool.B[:0]
	}
}

// dropOutput gives the buffer for replies back, with whatever it holds.
func (s *session) dropOutput() {
	if s.outPool == nil {
		return
	}
	s.outPool.B = s.out
	s.loop.buffers.outputs.give(s.outPool)
	s.out, s.outPool, s.heldSize = nil, nil, 0
}

// keepInput appends buf to the input kept, unless all sessions together keep too much.
func (s *session) keepInput(buf []byte) bool {
	buffered := &s.loop.server.buffered
	size := len(s.in) + len(buf)
	if s.inPool == nil {
		s.inPool = s.loop.buffers.inputs.Get()
		s.in = s.inPool.B[:0]
	}
	if size > cap(s.in) {
		room := s.inputRoom(size)
		more := int64(room - s.kept)
		if size > smallInput && (s.loop.ledger.left()-more < s.reserve() ||
			buffered.Load()+more > s.loop.server.opts.BufferLimit) {
			return false
		}
		s.in = append(make([]byte, 0, room), s.in...)
	}
	s.in = append(s.in, buf...)
	if grown := cap(s.in) - s.kept; grown != 0 {
		buffered.Add(int64(grown))
		s.loop.ledger.held += int64(grown)
		s.kept += grown
	}
	return true
}

// inputRoom is the capacity of a buffer for size bytes of input. It is about twice that, so that a client
// takes memory as it sends, and not as it announces; but no more than the request is known to have.
func (s *session) inputRoom(size int) int {
	room := 2 * size
	if whole := s.inStart + s.need; whole >= size {
		room = min(room, whole)
	}
	return room
}

// reserve is how many bytes of the memory limit are not for the input of s. It is negative for a client
// that has read replies before: it may go beyond the limit by a sixteenth, so that others cannot take
// its place.
func (s *session) reserve() int64 {
	if s.taken > 0 {
		return -s.loop.engine.MemoryLimit() / 16
	}
	return 0
}

// dropInput gives the buffer for input back, with whatever it holds.
func (s *session) dropInput() {
	if s.pinned {
		return // see unpin
	}
	if s.kept != 0 {
		s.loop.server.buffered.Add(int64(-s.kept))
		s.loop.ledger.held -= int64(s.kept)
	}
	s.kept, s.inStart, s.need = 0, 0, 0
	if s.inPool == nil {
		return
	}
	if cap(s.in) <= maxPooledBuffer {
		s.inPool.B = s.in
		s.loop.buffers.inputs.Put(s.inPool)
	}
	s.in, s.inPool = nil, nil
}
