package netloop

import (
	"bytes"
	"slices"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// Calls of Thrift that get items, up to as many as the client wants.

// maxThriftReply is how large a reply to get may become, in bytes, unless a single item is larger. The common client
// libraries refuse a frame of more than 16,384,000 bytes.
const maxThriftReply = 16_384_000

// thriftGet is a get under way. What it has collected are reads of the session; a client that goes
// away meanwhile brings them back.
type thriftGet struct {
	reply     *bytebufferpool.ByteBuffer // as far as it is known; nil between gets
	count     int                        // items in it
	autoAbort time.Duration              // from the reply on; 0: the items are gone for good
	many      bool                       // several items are being fetched, with a shard locked
	short     int                        // capacity that the reply lacks for the next item; see growGet
}

// thriftGetItems begins a get: it ends when it has all it may return, or at its deadline.
func thriftGetItems(s *session, req *thrift.Request) {
	if req.AutoAbortMillis > 0 && !s.readsBlocked() && !s.loop.engine.LeaseRoom() {
		s.loop.counters.RepliesRefused++
		s.refuse(engine.ErrOutOfMemory)
		return
	}
	room := s.loop.server.opts.MaxOpenReads - s.openedHere(req.Queue)
	g, l := &s.thrift.get, s.loop
	g.reply, g.count, g.short = l.buffers.gets.take(), 0, 0
	g.autoAbort = time.Duration(max(req.AutoAbortMillis, 0)) * time.Millisecond
	g.reply.B = thrift.BeginItems(g.reply.B[:0], req.Call)
	limit := int(req.MaxItems)
	if g.autoAbort > 0 {
		if limit < 0 || limit > room {
			limit = room
		}
	}
	if room <= 0 || req.WaitMillis < 0 {
		limit = 0 // of plain reads too
	}
	deadline := atOnce
	if req.WaitMillis > 0 {
		deadline = l.clock + moment(req.WaitMillis)
	}
	s.deliverMany(req.Queue, req.Queue, engine.Hold, terms{meta: g.autoAbort > 0}, deadline, limit)
}

// item adds an item to the reply of the get under way; without one it is that of a peek.
func (thriftProtocol) item(s *session, it engine.Item) bool {
	g := &s.thrift.get
	if g.reply == nil {
		switch s.thrift.call.Method {
		case thrift.MethodGetAny:
			return s.thriftOneItem(it)
		case thrift.MethodBrowse:
			return s.thriftOneListed(it)
		}
		if it.HasOwnMemory() {
			return s.startBody(it, "") // see thriftPeeked
		}
		if !s.room(len(it.Data)) {
			return false
		}
		s.loop.headItem = append(s.loop.headItem, it.Data...)
		return true
	}
	one := thrift.Item{Data: it.Data, Key: it.Key()}
	need := len(g.reply.B) + thrift.ItemOverhead + len(one.Data) + len(one.Key)
	if g.count > 0 && need > maxThriftReply {
		return false
	}
	if !s.room(len(it.Data)) {
		s.noRoom = g.count == 0 // else the reply is what there is
		return false
	}
	if g.many && need > cap(g.reply.B) && len(g.reply.B) >= movedLocked {
		g.short = need
		return false
	}
	if g.autoAbort > 0 {
		one.Deliveries = int32(s.delivery.Deliveries) // those of plain reads are of no use any more
	}
	g.reply.B = thrift.AppendItem(g.reply.B, &one)
	g.count++
	s.work += len(it.Data) / replyWork
	s.countOutput()
	return true
}

// movedLocked is how many bytes of a reply are moved at most, because it grows, with a shard locked.
const movedLocked = 128 << 10

// growGet makes room for the item that the reply of the get under way had no room for, with no lock held. It
// reports whether there was one: the fetch then goes on.
func (s *session) growGet() bool {
	g := &s.thrift.get
	if g.short == 0 {
		return false
	}
	larger := slices.Grow([]byte(nil), max(g.short, min(2*cap(g.reply.B), maxThriftReply+thrift.ItemOverhead)))
	s.work += len(g.reply.B) / workSize
	s.loop.counters.CmdMonitorGet-- // the fetch that found no room goes on
	g.reply.B, g.short = append(larger, g.reply.B...), 0
	s.countOutput()
	return true
}

// none ends the get under way; without one it ends a get_any, or a browse of one item.
func (thriftProtocol) none(s *session) {
	g, l := &s.thrift.get, s.loop
	if s.unheard {
		s.abandonGet()
	}
	if g.reply == nil {
		start := len(s.out)
		s.out = thrift.EndItems(thrift.BeginItems(s.out, s.thrift.call), start, 0)
		return
	}
	if g.count > confirmPiece {
		s.endGetLater()
		return
	}
	n := s.reads.count(s.wait.name)
	s.reads.charge(n) // until they count as leases
	l.refs, l.receipts = s.reads.takeQueue(s.wait.name, l.refs[:0]), l.receipts[:0]
	var t engine.Ticket
	switch {
	case g.autoAbort == 0:
		t, _ = l.engine.ConfirmAll(l.now, l.refs)
	case g.count > 0:
		t, l.receipts = l.engine.LeaseReads(l.now, l.refs, g.autoAbort, s.holder(s.wait.name), l.receipts)
	}
	s.reads.charge(-n)
	s.after(t)
	g.reply.B = thrift.EndItems(g.reply.B, 0, g.count)
	thrift.SetItemIDs(g.reply.B, 0, l.receipts)
	if s.appendReply(g.reply.B) {
		g.reply.B = nil
	}
	l.latencies.count(CommandHit, s.wait.meter, t, int64(s.wait.holds))
	s.dropGet()
}

// endGetLater ends a get of many items: a job confirms their reads, or leases them, piece by piece. It has the
// reply meanwhile.
func (s *session) endGetLater() {
	g, l := &s.thrift.get, s.loop
	name := bytes.Clone(s.wait.name)
	usage, charged := s.reads.usage, 0
	if g.autoAbort > 0 && usage != nil {
		charged = s.reads.count(name)
		s.reads.charge(charged) // until they count as leases
	}
	refs := s.reads.takeOldest(name, s.reads.count(name))
	reply, count, autoAbort := g.reply, g.count, g.autoAbort
	var holder *engine.Holder
	if autoAbort > 0 {
		holder = s.holder(name)
	}
	e := l.engine
	size := int64(cap(reply.B) + (refSize+8)*len(refs))
	e.Account(size)
	g.reply = nil
	s.countOutput()
	var t engine.Ticket
	s.startJob(func() error {
		defer e.Account(-size)
		if usage != nil {
			defer func() { usage.reads.Add(-int64(charged)) }()
		}
		var receipts []uint64
		for piece := range slices.Chunk(refs, confirmPiece) {
			var u engine.Ticket
			if autoAbort == 0 {
				u, _ = e.ConfirmAll(engine.Now(), piece)
			} else {
				u, receipts = e.LeaseReads(engine.Now(), piece, autoAbort, holder, receipts)
			}
			t = t.Merge(u)
		}
		reply.B = thrift.EndItems(reply.B, 0, count)
		thrift.SetItemIDs(reply.B, 0, receipts)
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
