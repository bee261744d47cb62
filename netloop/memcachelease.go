package netloop

import (
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// memcacheLease is the lease that a GET asks for; zero for none.
func memcacheLease(req *memcache.Request) time.Duration {
	if !req.HasLease {
		return 0
	}
	return leaseOf(req.LeaseMillis)
}

// describeItem words an item that was fetched on terms.
func (s *session) describeItem(it engine.Item) bool {
	own := it.HasOwnMemory()
	switch {
	case own:
		if !s.startBody(it, memcache.ValueTrailer) {
			return false
		}
	case !s.room(len(it.Data) + memcache.MaxMeta):
		return false
	}
	d := &s.delivery
	if s.terms.meta {
		s.out = memcache.AppendMeta(s.out, s.name, &memcache.Meta{
			ID: it.ID, Deliveries: d.Deliveries, Added: int64(it.Added), Expires: int64(it.Expiry),
			Due: int64(d.Due), Receipt: d.Receipt,
		})
	}
	switch {
	case own && d.Receipt != 0:
		s.out = memcache.AppendLeasedHeader(s.out, s.name, it.Flags, len(it.Data), d.Receipt)
	case own:
		s.out = memcache.AppendValueHeader(s.out, s.name, it.Flags, len(it.Data))
	case d.Receipt != 0:
		s.out = memcache.AppendLeased(s.out, s.name, it.Flags, it.Data, d.Receipt)
	default:
		s.out = memcache.AppendValue(s.out, s.name, it.Flags, it.Data)
	}
	return true
}

// memcacheEnd ends a lease by its receipt, or gives the connection's oldest open read back.
func (s *session) memcacheEnd(name []byte, req *memcache.Request) {
	how := engine.Return{
		How: engine.Abort, Delay: time.Duration(req.DelayMillis) * time.Millisecond, Delayed: req.HasDelay,
	}
	switch {
	case req.Release:
		how.How = engine.Release
	case req.Reject:
		how.How = engine.Reject
	}
	var err error
	switch {
	case req.Close:
		err = s.confirmLease(name, req.Receipt)
	case req.Receipt != 0:
		err = s.returnLease(name, req.Receipt, how)
	default:
		err = s.returnOldest(name, how)
	}
	if err != nil {
		s.proto.refuse(s, err)
		return
	}
	s.proto.none(s)
}

func memcacheTouch(s *session, req *memcache.Request) {
	_, err := s.extendLease(s.latin1Name(req.Queue), req.Receipt, time.Duration(req.Seconds)*time.Second)
	s.finishFound(req.NoReply, err, memcache.ReplyTouched)
}

// finishFound is finish for a command that names a lease, which there may not be.
func (s *session) finishFound(noReply bool, err error, reply string) {
	if errors.Is(err, engine.ErrNotHeld) {
		err, reply = nil, memcache.ReplyNotFound
	}
	s.finish(noReply, err, reply)
}
