package netloop

import (
	"bytes"
	"slices"

	"github.com/valyala/bytebufferpool"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// maxThriftReply is how large a reply to get may become, in bytes, unless a single item is larger:
// the common client libraries refuse a frame of more than 16,384,000 bytes.
const maxThriftReply = 16_384_000

// thriftGet is a get under way. What it has collected are reads of the session; a client that goes
// away meanwhile brings them back.
type thriftGet struct {
	reply     *bytebufferpool.ByteBuffer // as far as it is known; nil between gets
	count     int                        // items in it
	autoAbort moment                     // ms from the reply on; 0: the items are gone for good
}

// thriftGetItems begins a get: it ends when it has all it may return, or at its deadline.
func thriftGetItems(s *session, req *thrift.Request) {
	if req.AutoAbortMillis > 0 && !s.readsBlocked() && !s.loop.server.reliable.room() {
		s.loop.counters.RepliesRefused++
		s.proto.refuse(s, engine.ErrOutOfMemory)
		return
	}
	g, l := &s.thrift.get, s.loop
	g.reply, g.count, g.autoAbort = l.buffers.gets.take(), 0, max(moment(req.AutoAbortMillis), 0)
	g.reply.B = thrift.BeginItems(g.reply.B[:0], req.Call)
	limit := int(req.MaxItems)
	room := l.server.opts.MaxOpenReads - l.server.reliable.count(s.thrift.reader, req.Queue)
	if g.autoAbort > 0 {
		if limit < 0 || limit > room {
			limit = room
		}
	}
	if room <= 0 || req.WaitMillis < 0 {
		limit = 0 // of plain reads too
	}
	deadline := noDeadline
	if req.WaitMillis > 0 {
		deadline = l.clock + moment(req.WaitMillis)
	}
	s.deliverMany(req.Queue, req.Queue, engine.Hold, deadline, limit)
}

// item adds an item to the reply of the get under way; without one it is that of a peek.
func (thriftProtocol) item(s *session, it engine.Item) bool {
	g := &s.thrift.get
	if g.reply == nil {
		if it.HasOwnMemory() {
			return s.startBody(it, "") // see thriftPeeked
		}
		if !s.room(len(it.Data)) {
			return false
		}
		s.loop.headItem = append(s.loop.headItem, it.Data...)
		return true
	}
	if g.count > 0 && len(g.reply.B)+thrift.ItemOverhead+len(it.Data) > maxThriftReply {
		return false
	}
	if !s.room(len(it.Data)) {
		s.noRoom = g.count == 0 // else the reply is what there is
		return false
	}
	g.reply.B = thrift.AppendItem(g.reply.B, it.Data, 0)
	g.count++
	s.work += len(it.Data) / replyWork
	s.countOutput()
	return true
}

// none ends the get under way.
func (thriftProtocol) none(s *session) {
	g, l := &s.thrift.get, s.loop
	if g.count > confirmPiece {
		s.endGetLater()
		return
	}
	l.refs, l.ids = s.reads.takeQueue(s.wait.name, l.refs[:0]), l.ids[:0]
	var t engine.Ticket
	switch {
	case g.autoAbort == 0:
		t, _ = l.engine.ConfirmAll(l.now, l.refs)
		s.after(t)
	case g.count > 0:
		l.engine.Keep(l.now, l.refs)
		if s.thrift.reader == nil {
			s.thrift.reader = newReader()
		}
		deadline := l.clock + g.autoAbort
		l.ids = l.server.reliable.add(
			s.thrift.reader, s.wait.name, l.refs, len(g.reply.B), deadline, l.ids)
	}
	g.reply.B = thrift.EndItems(g.reply.B, 0, g.count)
	thrift.SetItemIDs(g.reply.B, 0, l.ids)
	if s.appendReply(g.reply.B) {
		g.reply.B = nil
	}
	l.latencies.count(CommandHit, s.wait.meter, t, int64(s.wait.holds))
	s.dropGet()
}

// endGetLater ends a get of many items: a job confirms their reads, or hands them to the table, piece by
// piece. It has the reply meanwhile.
func (s *session) endGetLater() {
	g, l := &s.thrift.get, s.loop
	name := bytes.Clone(s.wait.name)
	refs := s.reads.takeOldest(name, s.reads.count(name))
	reply, count, autoAbort := g.reply, g.count, g.autoAbort
	if s.thrift.reader == nil && autoAbort > 0 {
		s.thrift.reader = newReader()
	}
	reader, e := s.thrift.reader, l.engine
	size := int64(cap(reply.B) + 8*len(refs))
	e.Account(size)
	g.reply = nil
	s.countOutput()
	var t engine.Ticket
	s.startJob(func() error {
		defer e.Account(-size)
		var ids []int64
		each := len(reply.B) / count // bytes
		for piece := range slices.Chunk(refs, confirmPiece) {
			if autoAbort == 0 {
				u, _ := e.ConfirmAll(engine.Now(), piece)
				t = t.Merge(u)
				continue
			}
			e.Keep(engine.Now(), piece)
			ids = l.server.reliable.add(reader, name, piece, len(piece)*each, l.server.clock.now()+autoAbort, ids)
		}
		reply.B = thrift.EndItems(reply.B, 0, count)
		thrift.SetItemIDs(reply.B, 0, ids)
		return nil
	}, func(s *session, _ error) {
		s.after(t)
		if !s.appendReply(reply.B) {
			l.buffers.gets.give(reply)
		}
		s.countOutput()
		l.latencies.count(CommandHit, s.wait.meter, t, int64(s.wait.holds))
	})
}

// abandonGet ends the get under way, if there is one, without a reply to it, and brings back what
// it has collected.
func (s *session) abandonGet() {
	if s.thrift.get.reply == nil {
		return
	}
	l := s.loop
	if n := s.reads.count(s.wait.name); n > 0 {
		refs := s.reads.takeOldest(s.wait.name, n)
		if _, others := l.engine.AbortFirst(l.now, refs); others != nil {
			l.background(func() { others() })
		}
	}
	s.dropGet()
}

// dropGet forgets the get under way.
func (s *session) dropGet() {
	g := &s.thrift.get
	if g.reply == nil {
		return
	}
	s.loop.buffers.gets.give(g.reply)
	g.reply = nil
	s.countOutput()
}

func thriftConfirm(s *session, req *thrift.Request) {
	l := s.loop
	if req.IDs.Len() > confirmPiece {
		s.thriftConfirmLater(req)
		return
	}
	var found int
	l.refs, found = l.server.reliable.take(req.Queue, req.IDs, l.refs[:0])
	t, _ := l.engine.ConfirmAll(l.now, l.refs)
	s.claim(t)
	l.latencies.count(CommandConfirm, nil, t, 1)
	s.out = thrift.AppendCount(s.out, req.Call, int32(found))
}

func thriftAbort(s *session, req *thrift.Request) {
	l := s.loop
	if req.IDs.Len() > abortPiece {
		s.thriftAbortLater(req)
		return
	}
	var found int
	l.refs, found = l.server.reliable.take(req.Queue, req.IDs, l.refs[:0])
	l.engine.AbortAll(l.now, l.refs)
	s.out = thrift.AppendCount(s.out, req.Call, int32(found))
}
