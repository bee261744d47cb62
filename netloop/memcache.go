package netloop

import (
	"errors"
	"time"

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

// name implements protocol.
func (memcacheProtocol) name() string { return "memcache" }

func (memcacheProtocol) next(s *session, in []byte) int {
	opts := &s.loop.server.opts
	req := &s.loop.request
	n, err := memcache.Decoder{MaxLine: opts.MaxLine, MaxItem: opts.MaxItemSize}.Decode(in, req)
	if err == nil && req.Op == memcache.OpSet && !req.BadEnd {
		s.gather(req)
		return n
	}
	s.runPuts() // before anything else
	if s.state != idle {
		return 0
	}
	if err == nil {
		s.loop.watch.request(req.Op.String(), req.Queue)
	}
	if err == nil && req.Op == memcache.OpGet {
		times := 1
		if req.IsPlain() {
			times += repeats(in, n)
		}
		done := memcacheGet(s, req, times)
		s.tally.requests += int64(done) - 1
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

// reply appends a reply, unless the client asked for none.
func (s *session) reply(req *memcache.Request, reply string) {
	if !req.NoReply {
		s.out = append(s.out, reply...)
	}
}

func (memcacheProtocol) item(s *session, it engine.Item) bool {
	if s.terms != (terms{}) {
		return s.describeItem(it)
	}
	if it.HasOwnMemory() {
		if !s.startBody(it, memcache.ValueTrailer) {
			return false
		}
		s.out = memcache.AppendValueHeader(s.out, s.name, it.Flags, len(it.Data))
		return true
	}
	if !s.room(len(it.Data)) {
		return false
	}
	s.out = memcache.AppendValue(s.out, s.name, it.Flags, it.Data)
	return true
}

func (memcacheProtocol) none(s *session) { s.out = append(s.out, memcache.ReplyEnd...) }

func (memcacheProtocol) refuse(s *session, err error) {
	reply, fatal := memcacheRefusal(s.out, err)
	s.out = reply
	if fatal {
		s.quit()
	}
}

func (memcacheProtocol) retract(dst, _ []byte, err error) []byte {
	dst, _ = memcacheRefusal(dst, err)
	return dst
}

// memcacheRefusal appends the reply for err, and reports whether the connection ends.
func memcacheRefusal(dst []byte, err error) (reply []byte, fatal bool) {
	var unavailable unavailableError
	switch {
	case errors.Is(err, engine.ErrQueueFull), errors.Is(err, engine.ErrItemTooLarge):
		return append(dst, memcache.ReplyNotStored...), false
	case errors.Is(err, errNotThatMany):
		return append(dst, memcache.ReplyError...), false
	case errors.Is(err, errReadOpen), errors.Is(err, errTooManyReads):
		return append(dst, memcache.ReplyError...), true
	case errors.As(err, &unavailable), errors.Is(err, engine.ErrNotAdmitted),
		errors.Is(err, engine.ErrClosed):
		return append(dst, memcache.ReplyServerError...), true
	case errors.Is(err, engine.ErrBadName), errors.Is(err, ErrUnknownStatus),
		errors.Is(err, ErrForbiddenStatus):
		return append(dst, memcache.ReplyClientError...), true
	case errors.Is(err, engine.ErrOutOfDisk), errors.Is(err, engine.ErrOutOfMemory),
		errors.Is(err, engine.ErrTooManyQueues), errors.Is(err, engine.ErrTooManyChildren),
		errors.Is(err, engine.ErrJournal), errors.Is(err, engine.ErrWithheld), errors.Is(err, engine.ErrBacklog):
		return memcache.AppendServerError(dst, reason(err)), false
	case errors.Is(err, errNotLocal), isLeaseRefusal(err):
		return memcache.AppendClientError(dst, reason(err)), false
	}
	return memcache.AppendServerError(dst, reason(err)), true
}

// latin1Name returns a queue's name as the engine knows it. The result is valid until the next
// call.
func (s *session) latin1Name(name []byte) []byte {
	if isASCII(name) {
		return name
	}
	s.loop.utf8Name = appendLatin1AsUTF8(s.loop.utf8Name[:0], name)
	return s.loop.utf8Name
}

// memcacheSet runs a put whose item does not end where it should; others are gathered.
func memcacheSet(s *session, req *memcache.Request) {
	t, err := s.put(s.latin1Name(req.Queue), s.putRequest(req, new(engine.PutExtra)))
	s.claim(t)
	s.finish(req.NoReply, err, memcache.ReplyStored)
	// What comes next may be part of the item: it is not run as a command.
	s.out = append(s.out, memcache.ReplyClientError...)
	s.quit()
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
	if req.Close {
		s.confirmOldest(name, 1) // nothing to confirm is no error here
		if !req.Open && !req.HasLease {
			s.proto.none(s)
			return 1
		}
		s.claiming = false // the reply is the next item
	}
	access := engine.Take
	switch {
	case req.HasLease && req.CAS:
		access = engine.Lease
	case req.Open, req.HasLease:
		access = engine.OpenRead
	case req.Peek:
		access = engine.Peek
	case s.countReads(name) > 0:
		s.proto.refuse(s, errReadOpen)
		return 1
	}
	reply := req.Queue
	if s.loop.server.opts.ReplyWithKey {
		reply = req.Key
	}
	return s.fetch(name, reply, access, req.WaitMillis, times)
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

// finish words the outcome of a command whose reply does not depend on what it found. A client that
// wants no reply gets none, unless it is cut off.
func (s *session) finish(noReply bool, err error, reply string) {
	before := len(s.out)
	if err == nil {
		s.out = append(s.out, reply...)
	} else {
		s.proto.refuse(s, err)
	}
	if noReply && s.state != closing {
		s.out = s.out[:before]
	}
}

// finishing is finish for when the command has ended: req is not valid any more then.
func finishing(req *memcache.Request, reply string) func(*session, error) {
	noReply := req.NoReply
	return func(s *session, err error) { s.finish(noReply, err, reply) }
}

func memcacheDelete(s *session, req *memcache.Request) {
	if req.Receipt != 0 {
		err := s.confirmLease(s.latin1Name(req.Queue), req.Receipt)
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

// memcacheCount words how many items were removed.
func memcacheCount(s *session, n int64, err error) {
	if err != nil {
		s.proto.refuse(s, err)
		return
	}
	s.out = memcache.AppendCount(s.out, n)
}

func memcacheStatus(s *session, req *memcache.Request) {
	server := s.loop.server
	if len(req.Args) == 0 {
		s.out = memcache.AppendStatus(s.out, server.Status().String())
		return
	}
	s.setNamedStatus(string(req.Args), func(s *session, err error) {
		switch {
		case err == nil:
			s.proto.none(s)
		case errors.Is(err, errNotLocal):
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
	if !s.local {
		s.proto.refuse(s, errNotLocal)
		return
	}
	reload := s.loop.server.opts.Reload
	s.startJob(func() error {
		if reload == nil {
			return nil
		}
		return reload()
	}, func(s *session, err error) {
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
