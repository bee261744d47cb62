package netloop

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// memcacheProtocol is the memcache protocol of Kestrel.
type memcacheProtocol struct{}

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

// memcacheNeeds is what a user needs to run a command, by its Op. See memcacheNeed for those that depend on more.
var memcacheNeeds = [len(memcacheCommands)]need{
	memcache.OpGet:             {access.Get, onQueue},
	memcache.OpSet:             {access.Put, onQueue},
	memcache.OpMonitor:         {access.Get, onQueue},
	memcache.OpConfirm:         {access.Get, onQueue},
	memcache.OpDelete:          {access.Manage, onQueue},
	memcache.OpFlush:           {access.Manage, onQueue},
	memcache.OpFlushAll:        {access.Manage, everywhere},
	memcache.OpFlushExpired:    {access.Manage, onQueue},
	memcache.OpFlushAllExpired: {access.Manage, everywhere},
	memcache.OpStats:           {access.Stats, somewhere},
	memcache.OpDumpStats:       {access.Stats, somewhere},
	memcache.OpDumpConfig:      {access.Stats, somewhere},
	memcache.OpStatus:          {access.Operate, onNothing},
	memcache.OpVersion:         {0, onNothing},
	memcache.OpReload:          {access.Operate, everywhere},
	memcache.OpShutdown:        {access.Operate, everywhere},
	memcache.OpQuit:            {0, onNothing},
	memcache.OpTouch:           {access.Get, onQueue},
}

// memcacheNeed is what a user needs to run req.
func memcacheNeed(req *memcache.Request) need {
	switch n := memcacheNeeds[req.Op]; {
	case req.Op == memcache.OpGet && (req.Peek || req.Browses()):
		return need{access.Peek, onQueue}
	case req.Op == memcache.OpDelete && (req.Receipt != 0 || req.ID != 0 || len(req.ItemKey) > 0): // it is about one item
		return need{access.Get, onQueue}
	case req.Op == memcache.OpStatus && len(req.Args) > 0:
		return need{access.Operate, everywhere}
	default:
		return n
	}
}

// memcacheDenied refuses req, of size bytes, if the user may not run it, and reports whether it did.
func (s *session) memcacheDenied(req *memcache.Request, size int) bool {
	n := memcacheNeed(req)
	if s.id.usage == nil && n.scope == onQueue && s.id.user.Everywhere(n.right) {
		return false
	}
	err := s.admit(n, s.latin1Name(req.Queue), size)
	if err == nil {
		return false
	}
	if s.putGathered(); s.state != idle {
		return true
	}
	s.finish(req.NoReply, err, "")
	if req.BadEnd { // what comes next may be part of the item
		s.out = append(s.out, memcache.ReplyClientError...)
		s.quit()
	}
	return true
}

// maxCredentials is how many bytes a user, a space and a password have at most.
const maxCredentials = 2 * access.MaxPassword

// memcacheIdentify is next for a client that has not said yet who it is. It does so as memcached wants it: by a SET
// of any key, whose data are the user, a space and the password. Until then it may only quit.
func (s *session) memcacheIdentify(in []byte) int {
	req := &s.loop.request
	n, err := memcache.Decoder{MaxLine: s.loop.server.opts.MaxLine, MaxItem: maxCredentials}.Decode(in, req)
	refusal, _ := err.(*memcache.ProtocolError)
	switch {
	case err == memcache.ErrIncomplete:
		s.need = req.Need
		return 0
	case refusal != nil && refusal.Fatal:
		s.out = append(s.out, refusal.Reply...)
		s.quitMisled()
		return 0
	case err == nil && req.Op == memcache.OpQuit:
		s.quit()
		return n
	case err == nil && req.Op == memcache.OpSet && !req.BadEnd:
		name, password, _ := bytes.Cut(req.Data, []byte{' '})
		s.identify(name, password, func(s *session, err error) { s.finish(false, err, memcache.ReplyStored) })
		return n
	}
	s.out = memcache.AppendClientError(s.out, errUnidentified.Error())
	if s.strike(); err == memcache.ErrTooLarge || req.BadEnd {
		s.quit()
	}
	return n
}

// name implements protocol.
func (memcacheProtocol) name() string { return "memcache" }

func (memcacheProtocol) next(s *session, in []byte) int {
	if s.id.unknown {
		return s.memcacheIdentify(in)
	}
	opts := &s.loop.server.opts
	req := &s.loop.request
	n, err := memcache.Decoder{MaxLine: opts.MaxLine, MaxItem: opts.MaxItemSize}.Decode(in, req)
	if s.id.user != nil && err == nil && s.memcacheDenied(req, n) {
		return n
	}
	if err == nil && req.Op == memcache.OpSet && !req.BadEnd {
		s.gather(req)
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

func (memcacheProtocol) tooMany() []byte {
	return memcache.AppendServerError(nil, "too many open connections")
}

// repeats returns how often the request in[:n] stands behind itself, as often as is of use.
func repeats(in []byte, n int) (times int) {
	for first := in[:n]; times < maxFetched; times++ {
		in = in[n:]
		if len(in) < n || string(in[:n]) != string(first) {
			break
		}
	}
	return times
}

// memcacheGet runs a GET that stands so many times in a row, or some of them at once, and returns
// how many it ran.
func memcacheGet(s *session, req *memcache.Request, times int) (done int) {
	name := s.latin1Name(req.Queue)
	if req.Abort || req.Release || req.Reject || req.Receipt != 0 {
		s.memcacheEnd(name, req)
		return 1
	}
	s.terms = terms{lease: memcacheLease(req), meta: req.Meta}
	if req.Browses() {
		if req.List {
			s.memcacheList(name, req)
		} else {
			s.lookAt(name, req.Queue, memcacheWhich(req))
		}
		return 1
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
		s.proto.refuse(s, errReadOpen)
		return 1
	}
	reply := req.Queue
	if s.loop.server.opts.ReplyWithKey {
		reply = req.Key
	}
	if len(req.Several) > 0 {
		s.memcacheGetSeveral(req, how)
		return 1
	}
	return s.fetch(name, reply, how, req.WaitMillis, times)
}

// memcacheGetSeveral runs a GET that names several queues.
func (s *session) memcacheGetSeveral(req *memcache.Request, how engine.Access) {
	var queues [memcache.MaxQueues]memcache.Source
	s.beginSeveral()
	for _, q := range req.Queues(queues[:0]) {
		reply := q.Queue
		if s.loop.server.opts.ReplyWithKey {
			reply = req.Key
		}
		s.addSource(s.latin1Name(q.Queue), reply, q.Weight)
	}
	s.fetchSeveral(how, req.WaitMillis)
}

func memcacheMonitor(s *session, req *memcache.Request) {
	limit := -1
	if req.HasMaxItems {
		limit = int(req.MaxItems)
	}
	deadline := s.loop.clock + moment(req.Seconds)*1000
	s.monitor(s.latin1Name(req.Queue), req.Queue, deadline, limit)
}

func memcacheConfirm(s *session, req *memcache.Request) {
	s.confirmMany(s.latin1Name(req.Queue), int(req.Count), func(s *session, err error) {
		if err != nil {
			s.proto.refuse(s, err)
			return
		}
		s.proto.none(s)
	})
}

func memcacheDelete(s *session, req *memcache.Request) {
	if req.Receipt != 0 {
		err := s.confirmLease(s.latin1Name(req.Queue), req.Receipt)
		s.finishFound(req.NoReply, err, memcache.ReplyDeleted)
		return
	}
	if req.ID != 0 || len(req.ItemKey) > 0 {
		err := s.remove(s.latin1Name(req.Queue), memcacheWhich(req))
		s.finishFound(req.NoReply, err, memcache.ReplyDeleted)
		return
	}
	s.delete(s.latin1Name(req.Queue), finishing(req, memcache.ReplyDeleted))
}

func memcacheFlush(s *session, req *memcache.Request) {
	s.flush(s.latin1Name(req.Queue), finishing(req, memcache.ReplyEnd))
}

func memcacheFlushAll(s *session, req *memcache.Request) {
	s.flushAll(finishing(req, memcache.ReplyFlushedAll))
}

func memcacheFlushExpired(s *session, req *memcache.Request) {
	s.flushExpired(s.latin1Name(req.Queue), memcacheCount)
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
			s.proto.refuse(s, err)
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
		s.proto.refuse(s, err)
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
		s.proto.refuse(s, err)
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
	if req.ID != 0 || len(req.ItemKey) > 0 {
		noReply := req.NoReply
		expiry := engine.Time(memcache.ExpiryTime(int64(req.Seconds), int64(s.loop.now)))
		s.alter(s.latin1Name(req.Queue), memcacheWhich(req), expiry, func(s *session, err error) {
			s.finishFound(noReply, err, memcache.ReplyTouched)
		})
		return
	}
	_, err := s.extendLease(s.latin1Name(req.Queue), req.Receipt, time.Duration(req.Seconds)*time.Second)
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
