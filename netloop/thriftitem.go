package netloop

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// What calls do to single items, by their ids or keys, and fetches from any of several queues.

const (
	maxBrowse = 10_000    // items of a list
	maxWeight = 1_000_000 // of a queue
)

// thriftWhich is the item that a call names.
func thriftWhich(req *thrift.Request) (engine.Which, error) {
	w := req.Which
	switch {
	case w.IsZero():
		return engine.Which{}, errNoItem
	case req.ID != 0:
		return engine.Which{}, errReadAndItem
	case w.ID != 0 && len(w.Key) > 0:
		return engine.Which{}, errTwoItems
	case w.ID < 0:
		return engine.Which{}, errItemID
	case len(w.Key) > 0:
		return engine.Which{Key: w.Key}, checkThriftKey(w.Key)
	}
	return engine.Which{ID: uint64(w.ID)}, nil
}

// checkThriftKey returns why no item has that key, or nil. Keys of other protocols cannot have blanks, so none may.
func checkThriftKey(key []byte) error {
	if bytes.IndexByte(key, ' ') >= 0 {
		return errKeyBlank
	}
	return engine.ValidateKey(key)
}

func thriftRemove(s *session, req *thrift.Request) {
	which, err := thriftWhich(req)
	if err == nil {
		err = s.remove(req.Queue, which)
	}
	count := int32(1)
	switch {
	case errors.Is(err, engine.ErrNoSuchItem), errors.Is(err, engine.ErrHeld):
		count = 0
	case err != nil:
		s.refuse(err)
		return
	}
	s.out = thrift.AppendCount(s.out, req.Call, count)
}

// thriftTouchItem gives one item another expiry.
func thriftTouchItem(s *session, req *thrift.Request) {
	which, err := thriftWhich(req)
	if err == nil && req.ExpiryMillis < 0 {
		err = errExpiry
	}
	if err != nil {
		s.refuse(err)
		return
	}
	expiry := engine.Time(thrift.ExpiryTime(req.ExpiryMillis, int64(s.loop.now)))
	s.changeExpiry(req.Queue, which, expiry, func(s *session, err error) {
		when := int64(expiry)
		switch {
		case errors.Is(err, engine.ErrNoSuchItem):
			when = 0
		case err != nil:
			s.refuse(err)
			return
		case expiry == 0:
			when = math.MaxInt64
		}
		s.out = thrift.AppendDeadline(s.out, s.thrift.call, when)
	})
}

func thriftBrowse(s *session, req *thrift.Request) {
	var err error
	switch which := (engine.Which{}); {
	case !req.Which.IsZero():
		if which, err = thriftWhich(req); err == nil {
			s.terms = terms{}
			s.lookAt(req.Queue, req.Queue, which)
		}
	case req.From < 0:
		err = errFromID
	case req.Limit < 0 || req.Limit > maxBrowse:
		err = errBrowseLimit
	default:
		s.thriftList(req.Queue, engine.Match{From: uint64(req.From), Limit: int(req.Limit), Hidden: req.Hidden})
	}
	if err != nil {
		s.refuse(err)
	}
}

// listedOf is what browse says of an item, as far as user may know it.
func listedOf(user *access.User, it engine.Item, d *engine.Delivery) thrift.Listed {
	listed := thrift.Listed{
		ID: int64(it.ID), Data: it.Data, Key: it.Key(), Deliveries: int32(d.Deliveries), Added: int64(it.Added),
		Expires: int64(it.Expiry), Due: int64(d.Due),
	}
	if from := it.Origin(); len(from) > 0 && user.Sees(string(from)) {
		listed.From, listed.Why = from, []byte("deliveries")
		if it.Why() == engine.Rejected {
			listed.Why = []byte("rejected")
		}
	}
	return listed
}

// thriftOneListed words the one item that a browse is about.
func (s *session) thriftOneListed(it engine.Item) bool {
	listed, call := listedOf(s.id.user, it, &s.delivery), s.thrift.call
	if it.HasOwnMemory() {
		front, behind := thrift.AppendListedAround(s.out, call, &listed, len(it.Data))
		return s.thriftAround(it, front, behind)
	}
	if !s.room(len(it.Data)) {
		return false
	}
	start := len(s.out)
	s.out = thrift.EndItems(thrift.AppendListed(thrift.BeginItems(s.out, call), &listed), start, 1)
	return true
}

// thriftAround sends a large item from where it lies, behind front and before behind.
func (s *session) thriftAround(it engine.Item, front []byte, behind string) bool {
	if !s.startBody(it, behind) {
		return false
	}
	s.out = front
	return true
}

// thriftListing is a list of items that a job makes. Its reply is one frame, whose length comes first.
type thriftListing struct {
	user    *access.User // who asks; it does not see every queue
	e       *engine.Engine
	scan    *engine.Scan
	reply   *bytebufferpool.ByteBuffer
	count   int
	counted int64 // bytes of the reply that the engine knows of
	full    bool  // the next item has no room
}

// thriftList answers with items of the queue called name, in the order of their ids, in a job.
func (s *session) thriftList(name []byte, m engine.Match) {
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	if m.Limit == 0 {
		m.Limit = defaultLimit
	}
	l := s.loop
	l.counters.CmdPeek++
	list := &thriftListing{user: s.id.user, e: l.engine, scan: l.engine.List(name, m), reply: l.buffers.gets.take()}
	list.reply.B = thrift.BeginItems(list.reply.B[:0], s.thrift.call)
	name = bytes.Clone(name)
	s.startJob(list.run, func(s *session, err error) {
		if err == nil {
			err = s.denied(need{access.Peek, onQueue}, name) // a reload may have come
		}
		if err != nil {
			l.buffers.gets.give(list.reply)
			s.refuse(err)
			return
		}
		if !s.appendReply(list.reply.B) {
			l.buffers.gets.give(list.reply)
		}
		s.countOutput()
	})
}

// run makes the reply, of items that are committed when it returns.
func (l *thriftListing) run() error {
	defer func() { l.e.Account(-l.counted) }()
	for more := true; more && !l.full; {
		l.reply.B = slices.Grow(l.reply.B, pieceSize) // with no lock held
		held := int64(cap(l.reply.B))
		l.e.Account(held - l.counted)
		l.counted = held
		if more = l.scan.Do(engine.Now(), l, pieceSize); more && !l.full {
			l.scan.Wait()
		}
	}
	_, t, err := l.scan.Result()
	switch {
	case err != nil:
		return err
	case l.full && l.count == 0:
		return engine.ErrOutOfMemory
	}
	if err := l.e.Commit(t); err != nil {
		return err
	}
	l.reply.B = thrift.EndItems(l.reply.B, 0, l.count)
	return nil
}

// Receive implements engine.Receiver. It takes the first item however large it is, as get does, if there is memory.
func (l *thriftListing) Receive(it engine.Item) bool {
	listed := listedOf(l.user, it, l.scan.Delivery())
	need := len(it.Data) + len(listed.Key) + len(listed.From) + thrift.ListedOverhead
	if l.count > 0 && len(l.reply.B)+need > maxThriftReply || need > smallReply && l.e.MemoryLeft() < int64(need) {
		l.full = true
		return false
	}
	l.reply.B = thrift.AppendListed(l.reply.B, &listed)
	l.count++
	return true
}

// thriftGetAny fetches one item from the first of several queues that has one, or waits for one.
func thriftGetAny(s *session, req *thrift.Request) {
	n, weights := req.Queues.Len(), req.Weights.Len()
	var err error
	switch {
	case n == 0 || n > engine.MaxAny:
		err = errQueueCount
	case weights != 0 && weights != n:
		err = errWeightCount
	}
	for i := range weights {
		if w := req.Weights.At(i); err == nil && (w < 1 || w > maxWeight) {
			err = errWeightBounds
		}
	}
	switch {
	case err != nil:
		s.refuse(err)
		return
	case req.WaitMillis < 0:
		s.proto.none(s)
		return
	}
	s.beginSeveral()
	i := 0
	for name := range req.Queues.All() {
		weight := 0
		if weights > 0 {
			weight = int(req.Weights.At(i))
		}
		s.addSource(withoutAccount(name), name, weight)
		i++
	}
	how := engine.Take
	s.terms = terms{}
	if req.AutoAbortMillis > 0 {
		how = engine.Lease
		s.terms.lease = time.Duration(req.AutoAbortMillis) * time.Millisecond
	}
	s.fetchSeveral(how, req.WaitMillis)
}

// thriftOneItem words the item that a get_any has fetched.
func (s *session) thriftOneItem(it engine.Item) bool {
	one, call := thrift.Item{Data: it.Data, Key: it.Key(), Queue: s.name}, s.thrift.call
	if s.terms.lease > 0 {
		one.ID, one.Deliveries = int64(s.delivery.Receipt), int32(s.delivery.Deliveries)
	}
	if it.HasOwnMemory() {
		front, behind := thrift.AppendItemAround(s.out, call, &one, len(it.Data))
		return s.thriftAround(it, front, behind)
	}
	if !s.room(len(it.Data)) {
		return false
	}
	start := len(s.out)
	s.out = thrift.EndItems(thrift.AppendItem(thrift.BeginItems(s.out, call), &one), start, 1)
	return true
}
