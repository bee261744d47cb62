package netloop

import "github.com/valyala/bytebufferpool"

// buffers are what the sessions of one loop take and give back, by use: the pools learn how large
// buffers become, and a mix would teach them to throw the larger ones away.
type buffers struct {
	inputs  bytebufferpool.Pool
	outputs bytebufferpool.Pool
	gets    bytebufferpool.Pool // replies to Thrift gets
}

// maxPooledBuffer is the capacity, in bytes, up to which a buffer is used again.
const maxPooledBuffer = 1 << 20

// smallInput is how many bytes of incomplete requests a session may keep whatever the others do.
const smallInput = 4 << 10

// takeOutput makes sure that s has a buffer for replies.
func (s *session) takeOutput() {
	if s.outPool == nil {
		s.outPool = s.loop.buffers.outputs.Get()
		s.out = s.outPool.B[:0]
	}
}

// dropOutput gives the buffer for replies back, with whatever it holds.
func (s *session) dropOutput() {
	if s.outPool == nil {
		return
	}
	if cap(s.out) <= maxPooledBuffer {
		s.outPool.B = s.out
		s.loop.buffers.outputs.Put(s.outPool)
	}
	s.out, s.outPool, s.heldSize = nil, nil, 0
}

// keepInput appends buf to the input kept, unless all sessions together keep too much.
func (s *session) keepInput(buf []byte) bool {
	buffered := &s.loop.server.buffered
	size := len(s.in) + len(buf)
	if size > smallInput && size > cap(s.in) &&
		buffered.Load()+int64(size) > s.loop.server.opts.BufferLimit {
		return false
	}
	if s.inPool == nil {
		s.inPool = s.loop.buffers.inputs.Get()
		s.in = s.inPool.B[:0]
	}
	s.in = append(s.in, buf...)
	if grown := cap(s.in) - s.kept; grown != 0 {
		buffered.Add(int64(grown))
		s.loop.ledger.held += int64(grown)
		s.kept += grown
	}
	return true
}

// dropInput gives the buffer for input back, with whatever it holds.
func (s *session) dropInput() {
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
