package netloop

import (
	"bytes"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// memcacheProtocol is the memcache protocol of Kestrel.
type memcacheProtocol struct{ _ *byte }

// memcacheCommands runs a decoded request, by its Op, unless it is a GET.
var memcacheCommands = [...]func(*session, *memcache.Request){
	memcache.OpSet:             memcacheSet,
	memcache.OpMonitor:         memcacheMonitor,
	memcache.OpConfirm:         memcacheConfirm,
	memcache.OpDelete:          memcacheDelete,
	memcache.OpFlush:           memcacheFlush,
	memcache.OpFlushAll:        memcacheFlushAll,
	memcache.OpFlushExpired:    memcacheFlushExpired,
	memcache.OpFlushAllExpired: memcacheFlushAllExpired,
	memcache.OpStats:           memcacheStats,
	memcache.OpDumpStats:       memcacheDumpStats,
	memcache.OpDumpConfig:      memcacheDumpConfig,
	memcache.OpStatus:          memcacheStatus,
	memcache.OpVersion:         memcacheVersion,
	memcache.OpReload:          memcacheReload,
	memcache.OpShutdown:        memcacheShutdown,
	memcache.OpQuit:            memcacheQuit,
	memcache.OpTouch:           memcacheTouch,
}

// name implements protocol.
func (memcacheProtocol) name() string { return "memcache" }

// next implements protocol. It gathers a SET, and runs any other request behind what it has gathered.
func (memcacheProtocol) next(s *session, in []byte) int {
	if s.id.unknown {
		return s.memcacheIdentify(in)
	}
	opts := &s.loop.server.opts
	req := &s.loop.request
	n, err := memcache.Decoder{MaxLine: opts.MaxLine, MaxItem: opts.MaxItemSize}.Decode(in, req)
	if err == nil && req.Op == memcache.OpSet && !req.BadEnd {
		s.gather(req, n)
		return n
	}
	if s.id.user != nil && err == nil && s.memcacheDenied(req, n) {
		return n
	}
	s.putGathered() // before anything else
	if s.state != idle {
		return 0
	}
	if err == nil {
		s.asks(req.Op.String(), req.Queue)
	}
	if err == nil && req.Op == memcache.OpGet {
		times := 1
		if req.IsPlain() && s.id.usage == nil {
			times += repeats(in, n)
		}
		done := memcacheGet(s, req, times)
		if done == 1 {
			return n
		}
		s.tally.requests += int64(done) - 1
		s.asksAgain(done - 1)
		return n * done
	}
	if err == nil {
		memcacheCommands[req.Op](s, req)
		return n
	}
	if err == memcache.ErrIncomplete {
		s.need = req.Need
		return 0
	}
	s.noteRefused(err)
	if err == memcache.ErrTooLarge {
		s.skip = req.Skip
		s.reply(req, memcache.ReplyNotStored)
		return n
	}
	refusal := err.(*memcache.ProtocolError)
	if refusal.Fatal {
		s.out = append(s.out, refusal.Reply...)
		s.quitMisled()
		return 0
	}
	s.reply(req, refusal.Reply)
	return n
}

func (memcacheProtocol) largest(o *Options) int { return o.MaxLine + o.MaxItemSize }

func (memcacheProtocol) extent(s *session, in []byte) int {
	opts := &s.loop.server.opts
	req := &s.loop.request
	n, err := memcache.Decoder{MaxLine: opts.MaxLine, MaxItem: opts.MaxItemSize}.Decode(in, req)
	switch {
	case err == memcache.ErrTooLarge:
		return 0
	case err != memcache.ErrIncomplete:
		return n
	case req.Need > 0:
		return req.Need
	}
	return opts.MaxLine
}

func (memcacheProtocol) tooMany() []byte {
	return memcache.AppendServerError(nil, "too many open connections")
}

// memcacheSet runs a SET whose item does not end with a line end. gather takes all others.
func memcacheSet(s *session, req *memcache.Request) {
	noReply := req.NoReply
	stored := func(s *session, t engine.Ticket, err error) {
		s.claim(t)
		s.finish(noReply, err, memcache.ReplyStored)
		// What comes next may be part of the item, so the session does not run it.
		s.out = append(s.out, memcache.ReplyClientError...)
		s.quit()
	}
	if len(req.Data) > largePut {
		s.putOneLater(s.requestName(req), s.singlePut(req), stored)
		return
	}
	t, err := s.put(s.requestName(req), s.singlePut(req))
	stored(s, t, err)
}

// gather adds the put in req, of size bytes, whose slices stay valid until handle returns. A user who was allowed the
// first put of a gathering is allowed all, but a quota counts each.
func (s *session) gather(req *memcache.Request, size int) {
	g := &s.loop.gathered
	joins := len(g.puts) > 0 && bytes.Equal(g.queue, req.Queue)
	if s.id.user != nil && (!joins || s.id.usage != nil) && s.memcacheDenied(req, size) {
		return
	}
	if !joins {
		s.putGathered()
		if s.state == closing {
			return // without this put: the client gets no reply to it
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
		g.takers = 1
		if e := s.loop.engine; e.FansOut() {
			g.takers = e.Takers(s.requestName(req))
		}
	}
	if !joins {
		g.queue, g.plain = req.Queue, req.HasPlainName()
	}
	n := len(g.puts)
	g.puts = g.puts[:n+1]
	s.fillPut(&g.puts[n], req)
	g.noReply[n] = req.NoReply
	if asksExtra(req) {
		g.puts[n].Extra = putExtra(&g.extras[n], req)
	}
	if g.full() {
		s.putGathered()
	}
}

// fillPut makes p, which is zero, the put of a SET without its PutExtra, which few ask for. Its data aliases req's.
func (s *session) fillPut(p *engine.PutRequest, req *memcache.Request) {
	p.Data, p.Flags, p.ClientID = req.Data, req.Flags, s.clientID
	p.Expiry = engine.Time(memcache.ExpiryTime(req.Expiry, int64(s.loop.now)))
}

// asksExtra reports whether a SET has options that need a PutExtra.
func asksExtra(req *memcache.Request) bool { return req.DelayMillis > 0 || len(req.ItemKey) > 0 }

// putExtra fills extra in with the options of a SET that asksExtra, and returns it.
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

// singlePut returns the put of a SET that is not gathered.
func (s *session) singlePut(req *memcache.Request) (p engine.PutRequest) {
	s.fillPut(&p, req)
	if asksExtra(req) {
		p.Extra = putExtra(new(engine.PutExtra), req)
	}
	return p
}

// setLarge runs a SET of a large item.
func (s *session) setLarge(req *memcache.Request) {
	s.asks("set", req.Queue)
	noReply := req.NoReply
	s.putOneLater(s.requestName(req), s.singlePut(req), func(s *session, t engine.Ticket, err error) {
		s.claim(t)
		s.finish(noReply, err, memcache.ReplyStored)
	})
}

// putGathered puts what the loop has gathered, and words the replies. Afterwards nothing is gathered, and the
// session may be closing.
func (s *session) putGathered() {
	g := &s.loop.gathered
	if len(g.puts) == 0 {
		return
	}
	s.asks("set", g.queue)
	s.work += g.work - len(g.puts)
	if s.loop.sniff != nil {
		s.asksAgain(len(g.puts) - 1)
		for i := range g.puts {
			s.puts(len(g.puts[i].Data))
		}
	}
	name := g.queue
	if !g.plain {
		name = s.latin1Name(g.queue)
	}
	for done := 0; done < len(g.puts) && s.state != closing; {
		n, err := s.putAll(name, g.puts[done:])
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
	s.loop.gathered.drop()
	s.replyStart = len(s.out)
}

// repeats returns how many more times the request in[:n] follows in the input, up to maxFetched.
func repeats(in []byte, n int) (times int) {
	for first := in[:n]; times < maxFetched; times++ {
		in = in[n:]
		if len(in) < n || in[0] != first[0] || string(in[:n]) != string(first) {
			break
		}
	}
	return times
}

// memcacheGet runs a GET. times is how often the client has sent it in a row. memcacheGet may run only the first few,
// and returns how many it ran.
func memcacheGet(s *session, req *memcache.Request, times int) (done int) {
	name := s.requestName(req)
	s.terms = terms{}
	if req.HasRareOptions() {
		s.terms = terms{lease: memcacheLease(req), meta: req.Meta}
		switch {
		case req.Abort, req.Release, req.Reject, req.Receipt != 0:
			s.memcacheEnd(name, req)
			return 1
		case req.List:
			s.memcacheList(name, req)
			return 1
		case req.Browses():
			s.lookAt(name, req.Queue, memcacheWhich(req))
			return 1
		}
	}
	if req.Close {
		s.confirmOldest(name, 1) // nothing to confirm is no error here
		if !req.Open && !req.HasLease {
			s.proto.none(s)
			return 1
		}
		s.claiming = false // the reply is the next item
	}
	how := engine.Take
	switch {
	case req.HasLease && req.CAS:
		how = engine.Lease
	case req.Open, req.HasLease:
		how = engine.OpenRead
	case req.Peek:
		how = engine.Peek
	case len(req.Several) > 0:
	case s.countReads(name) > 0:
		s.refuse(errReadOpen)
		return 1
	}
	spelt := req.Queue
	if s.repliesWithKey() {
		spelt = req.Key
	}
	if len(req.Several) > 0 {
		s.memcacheGetSeveral(req, how)
		return 1
	}
	return s.fetch(name, spelt, how, req.WaitMillis, times)
}

// repliesWithKey reports whether the replies to GETs repeat the whole key.
func (s *session) repliesWithKey() bool {
	if port := s.id.port; port != nil {
		return port.withKey
	}
	return s.loop.server.opts.ReplyWithKey
}

// memcacheGetSeveral runs a GET that names several queues.
func (s *session) memcacheGetSeveral(req *memcache.Request, how engine.Access) {
	var queues [memcache.MaxQueues]memcache.Source
	s.beginSeveral()
	for _, q := range req.Queues(queues[:0]) {
		spelt := q.Queue
		if s.repliesWithKey() {
			spelt = req.Key
		}
		s.addSource(s.latin1Name(q.Queue), spelt, q.Weight)
	}
	s.fetchSeveral(how, req.WaitMillis)
}

func memcacheMonitor(s *session, req *memcache.Request) {
	limit := -1
	if req.HasMaxItems {
		limit = int(req.MaxItems)
	}
	deadline := s.loop.clock + moment(req.Seconds)*1000
	s.monitor(s.requestName(req), req.Queue, deadline, limit)
}

func memcacheFlush(s *session, req *memcache.Request) {
	s.flush(s.requestName(req), finishing(req, memcache.ReplyEnd))
}

func memcacheFlushAll(s *session, req *memcache.Request) {
	s.flushAll(finishing(req, memcache.ReplyFlushedAll))
}

func memcacheFlushExpired(s *session, req *memcache.Request) {
	s.flushExpired(s.requestName(req), memcacheCount)
}

func memcacheFlushAllExpired(s *session, _ *memcache.Request) { s.flushAllExpired(memcacheCount) }

func memcacheStatus(s *session, req *memcache.Request) {
	server := s.loop.server
	if len(req.Args) == 0 {
		s.out = memcache.AppendStatus(s.out, server.status.Requested().String())
		return
	}
	s.setNamedStatus(string(req.Args), func(s *session, err error) {
		switch {
		case err == nil:
			s.proto.none(s)
		case errors.Is(err, errNotLocal), isIdentityRefusal(err):
			s.refuse(err)
		default:
			s.out = append(s.out, memcache.ReplyClientError...)
			s.quit()
		}
	})
}

func memcacheVersion(s *session, _ *memcache.Request) {
	s.out = memcache.AppendVersion(s.out, Version)
}

func memcacheReload(s *session, _ *memcache.Request) {
	if err := s.mayOperate(); err != nil {
		s.refuse(err)
		return
	}
	reload := s.loop.server.opts.Reload
	s.startJob(func() error {
		if reload == nil {
			return nil
		}
		return reload()
	}, func(s *session, err error) {
		if err != nil && !s.id.user.Everywhere(access.Stats) {
			err = errSeeLog
		}
		if err != nil {
			s.out = memcache.AppendServerError(s.out, "configuration not reloaded: "+err.Error())
			return
		}
		s.out = append(s.out, memcache.ReplyReloaded...)
	})
}

func memcacheShutdown(s *session, _ *memcache.Request) {
	if err := s.shutdown(); err != nil {
		s.refuse(err)
		return
	}
	s.quit()
}

func memcacheQuit(s *session, _ *memcache.Request) { s.quit() }

// memcacheLease is the lease that a GET asks for; zero for none.
func memcacheLease(req *memcache.Request) time.Duration {
	if !req.HasLease {
		return 0
	}
	return leaseOf(req.LeaseMillis)
}
