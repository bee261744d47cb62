package netloop

import (
	"errors"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// Calls of Thrift that put items.

// maxPutItems is how many items a loop puts itself at most, for one request.
const maxPutItems = 1024

// isLargePut reports whether a job does a put: it has so many items, or bytes, or queues to go to.
func (l *loop) isLargePut(req *thrift.Request, size int) bool {
	n := req.Items.Len()
	work := n
	if req.DelayMillis != 0 || req.Keys.Len() > 0 {
		work *= extraWork
	}
	return n > maxPutItems || size > largePut || n > 1 && work*l.engine.Takers(req.Queue) > maxWork
}

// checkThriftPut returns why none of the items of a put can be put, or nil.
func checkThriftPut(req *thrift.Request) error {
	switch {
	case req.OnDuplicate < thrift.OnDuplicateOverwrite || req.OnDuplicate > thrift.OnDuplicateOnlyReplace:
		return errDuplicate
	case req.Keys.Len() == 0 && req.OnDuplicate != thrift.OnDuplicateOverwrite && req.Items.Len() > 0:
		return errNeedsKeys
	case req.Keys.Len() != 0 && req.Keys.Len() != req.Items.Len():
		return errKeyCount
	}
	for key := range req.Keys.All() {
		if err := checkThriftKey(key); err != nil {
			return err
		}
	}
	return nil
}

// thriftExtra is what few puts ask for of the item with the next key. It lies in extra, and is nil if this put asks
// for nothing.
func thriftExtra(req *thrift.Request, keys *thrift.Items, extra *engine.PutExtra) *engine.PutExtra {
	key, keyed := keys.Next()
	if req.DelayMillis == 0 && !keyed {
		return nil
	}
	// The values of Duplicate are those of on_duplicate.
	*extra = engine.PutExtra{Delay: thriftDelay(req.DelayMillis), Key: key, OnDuplicate: engine.Duplicate(req.OnDuplicate)}
	return extra
}

func thriftPut(s *session, req *thrift.Request) {
	if err := checkThriftPut(req); err != nil {
		s.refuse(err)
		return
	}
	expiry := engine.Time(thrift.ExpiryTime(req.ExpiryMillis, int64(s.loop.now)))
	g := &s.loop.gathered
	defer g.drop()
	g.takers = s.loop.engine.Takers(req.Queue)
	count, left, keys := 0, req.Items.Len(), req.Keys
	for item := range req.Items.All() {
		s.puts(len(item))
		g.puts = append(g.puts, engine.PutRequest{
			Data: item, Expiry: expiry, ClientID: s.clientID, Extra: thriftExtra(req, &keys, &g.extras[len(g.puts)]),
		})
		left--
		if !g.full() && left > 0 {
			continue
		}
		s.work += g.work
		n, err := s.putAll(req.Queue, g.puts)
		count += n
		if err != nil {
			s.endThriftPut(count, engine.Ticket{}, err)
			return
		}
		g.drop()
	}
	s.endThriftPut(count, engine.Ticket{}, nil)
}

// itemsOfPut yields what a call puts. It is asked for at the time now.
func itemsOfPut(req *thrift.Request, now engine.Time) func(yield func(engine.PutRequest) bool) {
	expiry := engine.Time(thrift.ExpiryTime(req.ExpiryMillis, int64(now)))
	return func(yield func(engine.PutRequest) bool) {
		keys := req.Keys
		var extra engine.PutExtra // each is put before the next is made
		for item := range req.Items.All() {
			if !yield(engine.PutRequest{Data: item, Expiry: expiry, Extra: thriftExtra(req, &keys, &extra)}) {
				return
			}
		}
	}
}

// endThriftPut answers a put that has ended after count items, once t is good. A full queue ends it
// without an error.
func (s *session) endThriftPut(count int, t engine.Ticket, err error) {
	s.after(t)
	switch {
	case err == nil:
	case errors.Is(err, engine.ErrQueueFull), errors.Is(err, engine.ErrItemTooLarge),
		errors.Is(err, engine.ErrKeyExists), errors.Is(err, engine.ErrNoSuchItem):
		s.noteRefused(err)
	default:
		s.refuse(err)
		return
	}
	s.claim(t)
	s.out = thrift.AppendCount(s.out, s.thrift.call, int32(count))
}
