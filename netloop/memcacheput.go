package netloop

import (
	"bytes"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// memcacheSet runs a put whose item does not end where it should; others are gathered.
func memcacheSet(s *session, req *memcache.Request) {
	t, err := s.put(s.latin1Name(req.Queue), s.singlePut(req))
	s.claim(t)
	s.finish(req.NoReply, err, memcache.ReplyStored)
	// What comes next may be part of the item: it is not run as a command.
	s.out = append(s.out, memcache.ReplyClientError...)
	s.quit()
}

const (
	// maxGathered and maxGatheredBytes bound what one lock of a queue's shard is held for.
	maxGathered      = 64
	maxGatheredBytes = 64 << 10
)

// gathered are pipelined puts of one session to one queue that have been decoded and not been run
// yet: the engine takes them at once. They are run before anything else is, so that nobody can
// tell.
type gathered struct {
	queue   []byte              // as the client spells it; aliases the input, as the items do
	puts    []engine.PutRequest // at most maxGathered
	bytes   int
	most    int                          // puts that are gathered at most: fewer if each goes to many queues
	takers  int                          // queues that take each of them
	noReply [maxGathered]bool            // by index in puts
	extras  [maxGathered]engine.PutExtra // likewise, of those that have any
}

// gather adds the put in req, whose slices stay valid until the session's run ends.
func (s *session) gather(req *memcache.Request) {
	g := &s.loop.gathered
	if len(g.puts) > 0 && !bytes.Equal(g.queue, req.Queue) {
		s.putGathered()
		if s.state == closing {
			return // this one is not run any more
		}
	}
	if len(req.Data) > largePut {
		s.putGathered()
		if s.state != closing {
			s.setLarge(req)
		}
		return
	}
	if len(g.puts) == 0 {
		takers := 1
		if e := s.loop.engine; e.FansOut() {
			takers = e.Takers(s.latin1Name(req.Queue))
		}
		s.loop.limitGathered(takers)
	}
	g.queue = req.Queue
	g.noReply[len(g.puts)] = req.NoReply
	g.puts = append(g.puts, s.putRequest(req))
	if asksExtra(req) {
		g.puts[len(g.puts)-1].Extra = putExtra(&g.extras[len(g.puts)-1], req)
	}
	if g.bytes += len(req.Data); len(g.puts) >= g.most || g.bytes >= maxGatheredBytes {
		s.putGathered()
	}
}

// maxTaken is about how many items queues take from the puts that are gathered.
const maxTaken = 1024

// limitGathered sets how many puts are gathered at most that so many queues take.
func (l *loop) limitGathered(takers int) {
	g := &l.gathered
	g.takers, g.most = takers, maxGathered
	if takers > maxTaken/maxGathered {
		g.most = max(maxTaken/takers, 1)
	}
}

// putRequest is what a SET puts, without what few ask for; its data aliases req's.
func (s *session) putRequest(req *memcache.Request) engine.PutRequest {
	return engine.PutRequest{
		Data: req.Data, Flags: req.Flags, ClientID: s.clientID,
		Expiry: engine.Time(memcache.ExpiryTime(req.Expiry, int64(s.loop.now))),
	}
}

// asksExtra reports whether a SET asks for what few do.
func asksExtra(req *memcache.Request) bool { return req.DelayMillis > 0 || len(req.ItemKey) > 0 }

// putExtra sets extra to what a SET that asksExtra asks for, and returns it.
func putExtra(extra *engine.PutExtra, req *memcache.Request) *engine.PutExtra {
	*extra = engine.PutExtra{Delay: time.Duration(req.DelayMillis) * time.Millisecond, Key: req.ItemKey}
	switch {
	case req.New:
		extra.OnDuplicate = engine.OnlyNew
	case req.Replace:
		extra.OnDuplicate = engine.OnlyReplace
	}
	return extra
}

// singlePut is what a SET that is not gathered puts.
func (s *session) singlePut(req *memcache.Request) engine.PutRequest {
	p := s.putRequest(req)
	if asksExtra(req) {
		p.Extra = putExtra(new(engine.PutExtra), req)
	}
	return p
}

// setLarge runs a SET of a large item.
func (s *session) setLarge(req *memcache.Request) {
	s.asks("set", req.Queue)
	noReply := req.NoReply
	s.putOneLater(s.latin1Name(req.Queue), s.singlePut(req), func(s *session, t engine.Ticket, err error) {
		s.claim(t)
		s.finish(noReply, err, memcache.ReplyStored)
	})
}

// putGathered puts what has been gathered, and words the replies. Afterwards nothing is gathered, and
// the session may have been closed.
func (s *session) putGathered() {
	g := &s.loop.gathered
	if len(g.puts) == 0 {
		return
	}
	s.asks("set", g.queue)
	if s.loop.sniff != nil {
		s.asksAgain(len(g.puts) - 1)
		for i := range g.puts {
			s.puts(len(g.puts[i].Data))
		}
	}
	name := s.latin1Name(g.queue)
	for done := 0; done < len(g.puts) && s.state != closing; {
		n, err := s.putAll(name, g.puts[done:])
		s.work += n * (g.takers - 1)
		for end := done + n; done < end; done++ {
			if start := len(s.out); !g.noReply[done] {
				s.out = append(s.out, memcache.ReplyStored...)
				s.claims = append(s.claims, claim{start, len(s.out)})
			}
		}
		if err != nil {
			start := len(s.out)
			s.claiming = true
			s.finish(g.noReply[done], err, "")
			s.endReply(start)
			done++
		}
	}
	s.loop.dropGathered()
	s.replyStart = len(s.out)
}

// dropGathered forgets what is gathered, and the input that it aliases.
func (l *loop) dropGathered() {
	g := &l.gathered
	clear(g.puts)
	g.puts, g.queue, g.bytes = g.puts[:0], nil, 0
}
