package netloop

import (
	"bytes"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// thriftProtocol is the Thrift service of Kestrel. Its reads are confirmed by id, from any
// connection; see reliableReads. Refusals are exceptions, and the connection goes on.
type thriftProtocol struct{}

// thriftState is what a session of the Thrift protocol keeps.
type thriftState struct {
	call     thrift.Call // the last, or that under way
	upgraded bool        // requests begin with a header
	reader   *reader     // whose open reads count; nil until the first
	get      thriftGet
}

// thriftMethods runs a decoded call, by its Method.
var thriftMethods = [...]func(*session, *thrift.Request){
	thrift.MethodPut:            thriftPut,
	thrift.MethodGet:            thriftGetItems,
	thrift.MethodConfirm:        thriftConfirm,
	thrift.MethodAbort:          thriftAbort,
	thrift.MethodPeek:           thriftPeek,
	thrift.MethodFlushQueue:     thriftFlushQueue,
	thrift.MethodFlushAllQueues: thriftFlushAllQueues,
	thrift.MethodDeleteQueue:    thriftDeleteQueue,
	thrift.MethodCurrentStatus:  thriftCurrentStatus,
	thrift.MethodSetStatus:      thriftSetStatus,
	thrift.MethodGetVersion:     thriftGetVersion,
	thrift.MethodUpgrade:        thriftUpgrade,
}

// name implements protocol.
func (thriftProtocol) name() string { return "thrift" }

func (thriftProtocol) next(s *session, in []byte) int {
	d := s.thriftDecoder()
	if s.holdsInput() {
		if n := d.FrameSize(in); n > largeCall && n <= len(in) {
			s.thriftDecodeLater(in[:n])
			return n
		}
	}
	req := &s.loop.call
	n, err := d.Decode(in, req)
	if err == thrift.ErrIncomplete {
		s.need = req.Need
		return 0
	}
	return s.thriftRun(in[:n], req, err)
}

// thriftRun runs the call in frame that was decoded as req, or refused. It returns how many bytes of the
// input that took.
func (s *session) thriftRun(frame []byte, req *thrift.Request, err error) int {
	n := len(frame)
	if err != nil {
		refusal := err.(*thrift.ProtocolError)
		if refusal.Fatal {
			s.loop.log.Warn("connection closed: not a call of the Thrift service",
				"peer", s.sink.peer(), "reason", refusal.Reason)
			s.quitMisled()
			return 0
		}
		s.out = refusal.AppendReply(s.out, req)
		return n
	}
	s.thrift.call = req.Call
	s.loop.watch.request(req.Method.String(), req.Queue)
	if string(req.ClientID) != s.clientID {
		s.clientID = string(req.ClientID)
	}
	if req.Method == thrift.MethodPut && isLargePut(req, n) {
		s.thriftPutLater(frame, req)
		return n
	}
	thriftMethods[req.Method](s, req)
	return n
}

func (s *session) thriftDecoder() thrift.Decoder {
	return thrift.Decoder{MaxFrame: thrift.DefaultMaxFrame, Upgraded: s.thrift.upgraded}
}

func (thriftProtocol) largest(*Options) int { return 4 + thrift.DefaultMaxFrame }

// tooMany is nothing: a client that has not called expects no reply.
func (thriftProtocol) tooMany() []byte { return nil }

func (thriftProtocol) refuse(s *session, err error) {
	if err == errTooMuchInput || err == errNoBuffers {
		return // not the answer to any call; the connection ends
	}
	s.abandonGet()
	s.out = thrift.AppendInternalError(s.out, s.thrift.call, thriftReason(err))
}

// retract replaces a reply by an exception for the same call.
func (thriftProtocol) retract(dst, reply []byte, err error) []byte {
	call := thrift.Call{Upgraded: isUpgraded(reply)}
	var r thrift.Reply
	if _, bad := (thrift.Client{Upgraded: call.Upgraded}).DecodeReply(reply, &r); bad != nil {
		panic("netloop: own reply cannot be decoded: " + bad.Error())
	}
	call.Method, call.Seq = r.Method, r.Seq
	return thrift.AppendInternalError(dst, call, thriftReason(err))
}

// isUpgraded reports whether a reply begins with a header, which is a zero, and not with the
// version.
func isUpgraded(reply []byte) bool { return reply[4] == 0 }

// thriftReason words an error as the original did.
func thriftReason(err error) string {
	var name *engine.NameError
	switch {
	case errors.As(err, &name):
		return "Queue name " + name.Reason + "."
	case errors.Is(err, ErrUnknownStatus):
		return "Unknown status."
	case errors.Is(err, ErrForbiddenStatus):
		return "Status forbidden."
	}
	return reason(err)
}

// maxPutItems is how many items a loop puts itself at most, for one request.
const maxPutItems = 1024

func isLargePut(req *thrift.Request, size int) bool {
	return req.Items.Len() > maxPutItems || size > largePut
}

// thriftExtra is what few puts ask for, kept in extra; nil if this one does not.
func thriftExtra(req *thrift.Request, extra *engine.PutExtra) *engine.PutExtra {
	if req.DelayMillis == 0 {
		return nil
	}
	extra.Delay = -1 // the engine refuses it
	if req.DelayMillis > 0 && req.DelayMillis <= maxThriftDelay {
		extra.Delay = time.Duration(req.DelayMillis) * time.Millisecond
	}
	return extra
}

// maxThriftDelay is the longest delay that a put may ask for, in milliseconds, as in the other protocols.
const maxThriftDelay = 999_999_999_999

func thriftPut(s *session, req *thrift.Request) {
	expiry := engine.Time(thrift.ExpiryTime(req.ExpiryMillis, int64(s.loop.now)))
	g := &s.loop.gathered
	extra := thriftExtra(req, &g.extras[0])
	defer s.loop.dropGathered()
	count, left := 0, req.Items.Len()
	for item := range req.Items.All() {
		g.puts = append(g.puts, engine.PutRequest{
			Data: item, Expiry: expiry, ClientID: s.clientID, Extra: extra,
		})
		left--
		if g.bytes += len(item); left > 0 && len(g.puts) < maxGathered && g.bytes < maxGatheredBytes {
			continue
		}
		n, err := s.putAll(req.Queue, g.puts)
		count += n
		s.work += n
		if err != nil {
			s.endThriftPut(count, engine.Ticket{}, err)
			return
		}
		s.loop.dropGathered()
	}
	s.endThriftPut(count, engine.Ticket{}, nil)
}

// thriftPutLater is thriftPut for many items or bytes.
func (s *session) thriftPutLater(frame []byte, decoded *thrift.Request) {
	req := *decoded
	if !s.holdsInput() {
		if _, err := s.thriftDecoder().Decode(bytes.Clone(frame), &req); err != nil {
			panic("netloop: frame cannot be decoded again: " + err.Error())
		}
	}
	s.putLater(req.Queue, len(frame), itemsOfPut(&req, s.loop.now), (*session).endThriftPut)
}

// itemsOfPut yields what a call puts. It is asked for at the time now.
func itemsOfPut(req *thrift.Request, now engine.Time) func(yield func(engine.PutRequest) bool) {
	expiry := engine.Time(thrift.ExpiryTime(req.ExpiryMillis, int64(now)))
	extra := thriftExtra(req, new(engine.PutExtra))
	return func(yield func(engine.PutRequest) bool) {
		for item := range req.Items.All() {
			if !yield(engine.PutRequest{Data: item, Expiry: expiry, Extra: extra}) {
				return
			}
		}
	}
}

// endThriftPut answers a put that has ended after count items, once t is good. A full queue ends it
// without an error.
func (s *session) endThriftPut(count int, t engine.Ticket, err error) {
	s.after(t)
	if err != nil && !errors.Is(err, engine.ErrQueueFull) && !errors.Is(err, engine.ErrItemTooLarge) {
		s.proto.refuse(s, err)
		return
	}
	s.claim(t)
	s.out = thrift.AppendCount(s.out, s.thrift.call, int32(count))
}

func thriftPeek(s *session, req *thrift.Request) {
	l := s.loop
	if s.readsBlocked() {
		s.proto.refuse(s, errGetUnavailable)
		return
	}
	l.counters.CmdPeek++
	l.headItem = l.headItem[:0]
	_, got, err := s.try(req.Queue, engine.Peek, false, 1)
	if got.Waiting {
		s.wait.peeked = func(s *session, err error) { thriftPeeked(s, s.wait.name, false, err) }
		s.beginWait(waitPeek, req.Queue, req.Queue, engine.Peek, forever)
		return
	}
	thriftPeeked(s, req.Queue, got.Alias, err)
}

// thriftPeeked words the outcome of a peek.
func thriftPeeked(s *session, queue []byte, alias bool, err error) {
	l := s.loop
	if s.noRoom {
		s.notTaken()
		return
	}
	if err != nil && err != engine.ErrEmpty {
		s.proto.refuse(s, err)
		return
	}
	info := thrift.QueueInfo{HasHead: err == nil, HeadItem: l.headItem}
	if q, ok := l.engine.QueueStats(l.now, queue); ok && !alias { // an alias hides the queue
		info.Items, info.Bytes = q.Items, q.Bytes
		info.JournalBytes, info.AgeMillis = q.LogSize(), q.Age
		info.Waiters, info.OpenReads = int32(q.Waiters), int32(q.OpenReads)
	}
	if s.body.pending() {
		s.out, s.body.tail = thrift.AppendQueueInfoAround(s.out, s.thrift.call, &info, len(s.body.item))
		return
	}
	s.out = thrift.AppendQueueInfo(s.out, s.thrift.call, &info)
	if cap(l.headItem) > maxPooledBuffer {
		l.headItem = nil
	}
}

// thriftDone words the outcome of a call that has nothing to tell.
func thriftDone(s *session, err error) {
	if err != nil {
		s.proto.refuse(s, err)
		return
	}
	s.out = thrift.AppendVoid(s.out, s.thrift.call)
}

func thriftFlushQueue(s *session, req *thrift.Request) { s.flush(req.Queue, thriftDone) }

func thriftFlushAllQueues(s *session, _ *thrift.Request) { s.flushAll(thriftDone) }

func thriftDeleteQueue(s *session, req *thrift.Request) { s.delete(req.Queue, thriftDone) }

// thriftStatuses are the server's statuses as calls name them; the others have no name there.
var thriftStatuses = map[Status]thrift.Status{
	Up: thrift.StatusUp, ReadOnly: thrift.StatusReadOnly, Quiescent: thrift.StatusQuiescent,
}

func thriftCurrentStatus(s *session, req *thrift.Request) {
	s.out = thrift.AppendStatus(s.out, req.Call, thriftStatuses[s.loop.server.Status()])
}

func thriftSetStatus(s *session, req *thrift.Request) {
	for status, name := range thriftStatuses {
		if name == req.Status {
			s.setStatus(status, thriftDone)
			return
		}
	}
	s.proto.refuse(s, ErrUnknownStatus)
}

func thriftGetVersion(s *session, req *thrift.Request) {
	s.out = thrift.AppendVersion(s.out, req.Call, Version)
}

// thriftUpgrade accepts that requests have a header from now on, which may say who calls.
func thriftUpgrade(s *session, req *thrift.Request) {
	s.out = thrift.AppendUpgrade(s.out, req.Call)
	s.thrift.upgraded = true
}
