package netloop

import (
	"bytes"
	"strconv"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// Requests of the memcache protocol about reads, leases and single items.

func memcacheConfirm(s *session, req *memcache.Request) {
	s.confirmMany(s.requestName(req), int(req.Count), func(s *session, err error) {
		if err != nil {
			s.refuse(err)
			return
		}
		s.proto.none(s)
	})
}

func memcacheDelete(s *session, req *memcache.Request) {
	if req.Receipt != 0 {
		err := s.confirmLease(s.requestName(req), req.Receipt)
		s.finishFound(req.NoReply, err, memcache.ReplyDeleted)
		return
	}
	if req.ID != 0 || len(req.ItemKey) > 0 {
		err := s.remove(s.requestName(req), memcacheWhich(req))
		s.finishFound(req.NoReply, err, memcache.ReplyDeleted)
		return
	}
	s.delete(s.requestName(req), finishing(req, memcache.ReplyDeleted))
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
		s.refuse(err)
		return
	}
	s.proto.none(s)
}

func memcacheTouch(s *session, req *memcache.Request) {
	if req.ID != 0 || len(req.ItemKey) > 0 {
		noReply := req.NoReply
		expiry := engine.Time(memcache.ExpiryTime(int64(req.Seconds), int64(s.loop.now)))
		s.changeExpiry(s.requestName(req), memcacheWhich(req), expiry, func(s *session, err error) {
			s.finishFound(noReply, err, memcache.ReplyTouched)
		})
		return
	}
	_, err := s.extendLease(s.requestName(req), req.Receipt, time.Duration(req.Seconds)*time.Second)
	s.finishFound(req.NoReply, err, memcache.ReplyTouched)
}

// memcacheWhich is the item that a request names.
func memcacheWhich(req *memcache.Request) engine.Which {
	return engine.Which{ID: req.ID, Key: req.ItemKey}
}

// memcacheList answers with a list of items.
func (s *session) memcacheList(name []byte, req *memcache.Request) {
	queue, meta, user := bytes.Clone(req.Queue), req.Meta, s.id.user
	var own []byte // name of a value
	s.list(name, engine.Match{From: req.From, Limit: req.Limit, Hidden: req.Hidden}, listing{
		word: func(dst []byte, it engine.Item, d *engine.Delivery) []byte {
			if meta {
				own = strconv.AppendUint(append(append(own[:0], queue...), '/'), it.ID, 10)
				m := metaOf(user, it, d)
				dst = memcache.AppendMeta(dst, own, &m)
			}
			return memcache.AppendListed(dst, queue, it.ID, it.Flags, it.Data)
		},
		end: func(dst []byte, err error) []byte {
			if err != nil {
				dst, _ = memcacheRefusal(dst, err)
				return dst
			}
			return append(dst, memcache.ReplyEnd...)
		},
	})
}
