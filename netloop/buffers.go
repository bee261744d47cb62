package netloop

import (
	"slices"
	"sync"

	"github.com/valyala/bytebufferpool"
)

// buffers are what the sessions of one loop take and give back, by use.
type buffers struct {
	inputs  bytebufferpool.Pool // learns how large they become: a session may keep its input for long
	outputs replyPool
	gets    replyPool // replies to Thrift gets
}

// replyPool hands out buffers for replies, whatever their size. One that learnt sizes would throw the buffers of large
// replies away when clients have put for a while and now get. It would do so for tens of thousands of turns, each of
// which would let a new one grow.
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

// shrinkOutput gives a large buffer with small replies back if memory is short: they may stay for as long as
// a sync takes.
func (s *session) shrinkOutput() {
	if cap(s.out) <= smallReply || cap(s.out) < 4*len(s.out) || s.loop.ledger.left() > 0 {
		return
	}
	small := &bytebufferpool.ByteBuffer{B: append([]byte(nil), s.out...)}
	s.outPool.B = s.out
	s.loop.buffers.outputs.give(s.outPool)
	s.out, s.outPool = small.B, small
}

// bufferInput appends buf to the input kept, unless all sessions together keep too much.
func (s *session) bufferInput(buf []byte) bool {
	size := len(s.in) + len(buf)
	if s.space != nil || s.wantsSpace(size) {
		return s.bufferInSpace(buf)
	}
	if s.inPool == nil {
		s.inPool = s.loop.buffers.inputs.Get()
		s.in = s.inPool.B[:0]
		if cap(s.in) > smallInput && !s.mayBuffer(cap(s.in)) || s.id.unknown && cap(s.in) > maxUnknown {
			s.in = nil // what others have left is too large
		}
	}
	if size > cap(s.in) {
		room := s.inputRoom(size)
		if size > smallInput && !s.mayBuffer(room-s.kept) {
			return false
		}
		s.in = append(slices.Grow([]byte(nil), room), s.in...) // all that the allocator takes for it
	}
	s.in = append(s.in, buf...)
	s.countInput(cap(s.in))
	return true
}

// inputRoom is the capacity of a buffer for size bytes of input. It is about twice that, but no more than the request
// is known to have. So a client takes memory as it sends, and not as it announces. A peer that nobody knows gets no
// more than it may keep.
func (s *session) inputRoom(size int) int {
	room := min(2*size, maxPooledBuffer)
	if s.id.unknown {
		room = max(min(room, maxUnknown), size)
	}
	if whole := s.inStart + s.need; whole >= size {
		room = min(room, whole)
	}
	if room > largeClasses {
		room = (room + allocatorPage - 1) &^ (allocatorPage - 1)
	}
	return room
}

// The allocator rounds sizes above largeClasses up to its pages, and smaller ones a little: bytes.
const (
	largeClasses  = 32 << 10
	allocatorPage = 8 << 10
)

// dropInput gives the buffer for input back, with whatever it holds.
func (s *session) dropInput() {
	if s.pinned {
		return // see unpin
	}
	if s.space != nil {
		s.dropSpace()
	}
	s.countInput(0)
	s.inStart, s.need, s.begun = 0, 0, begun{}
	s.giveInput()
}
