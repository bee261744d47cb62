package netloop

import (
	"bytes"
	"errors"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// thriftProtocol is the Thrift service of Kestrel. Its reads are confirmed by id, from any
// connection: they are leases of the engine. Refusals are exceptions, and the connection goes on.
type thriftProtocol struct{ _ *byte }

// thriftState is what a session of the Thrift protocol keeps.
type thriftState struct {
	call     thrift.Call // the last, or that under way
	upgraded bool        // requests begin with a header
	// holders count the reads that the calls of the connection have opened, by queue.
	holders     map[string]*engine.Holder
	holdersSize int64 // bytes of memory that they take
	get         thriftGet
}

// maxClientID is how many bytes of what a client calls itself are kept.
const maxClientID = 256

// thriftMethods runs a decoded call, by its Method.
var thriftMethods = [...]func(*session, *thrift.Request){
	thrift.MethodPut:            thriftPut,
	thrift.MethodGet:            thriftGetItems,
	thrift.MethodConfirm:        thriftConfirm,
	thrift.MethodAbort:          thriftReturn,
	thrift.MethodPeek:           thriftPeek,
	thrift.MethodFlushQueue:     thriftFlushQueue,
	thrift.MethodFlushAllQueues: thriftFlushAllQueues,
	thrift.MethodDeleteQueue:    thriftDeleteQueue,
	thrift.MethodCurrentStatus:  thriftCurrentStatus,
	thrift.MethodSetStatus:      thriftSetStatus,
	thrift.MethodGetVersion:     thriftGetVersion,
	thrift.MethodRelease:        thriftReturn,
	thrift.MethodReject:         thriftReturn,
	thrift.MethodTouch:          thriftTouch,
	thrift.MethodBrowse:         thriftBrowse,
	thrift.MethodRemove:         thriftRemove,
	thrift.MethodGetAny:         thriftGetAny,
	thrift.MethodAuthenticate:   thriftAuthenticate,
	thrift.MethodUpgrade:        thriftUpgrade,
}

// thriftNeeds is what a user needs to make a call, by its Method.
var thriftNeeds = [len(thriftMethods)]need{
	thrift.MethodPut:            {access.Put, onQueue},
	thrift.MethodGet:            {access.Get, onQueue},
	thrift.MethodConfirm:        {access.Get, onQueue},
	thrift.MethodAbort:          {access.Get, onQueue},
	thrift.MethodPeek:           {access.Peek, onQueue},
	thrift.MethodFlushQueue:     {access.Manage, onQueue},
	thrift.MethodFlushAllQueues: {access.Manage, everywhere},
	thrift.MethodDeleteQueue:    {access.Manage, onQueue},
	thrift.MethodCurrentStatus:  {0, onNothing},
	thrift.MethodSetStatus:      {access.Operate, everywhere},
	thrift.MethodGetVersion:     {0, onNothing},
	thrift.MethodRelease:        {access.Get, onQueue},
	thrift.MethodReject:         {access.Get, onQueue},
	thrift.MethodTouch:          {access.Get, onQueue},
	thrift.MethodBrowse:         {access.Peek, onQueue},
	thrift.MethodRemove:         {access.Get, onQueue},
	thrift.MethodGetAny:         {0, counted}, // see refusesSeveral, which asks for each queue
	thrift.MethodAuthenticate:   {0, onNothing},
	thrift.MethodUpgrade:        {0, onNothing},
}

// thriftDenied returns why the client may not make a call of size bytes: because of who it is, or because nobody
// knows that yet.
func (s *session) thriftDenied(req *thrift.Request, size int) error {
	if s.id.unknown && req.Method != thrift.MethodAuthenticate && req.Method != thrift.MethodUpgrade {
		s.strike()
		return errUnidentified
	}
	return s.admit(thriftNeeds[req.Method], req.Queue, size)
}

// thriftAuthenticate says who the client is.
func thriftAuthenticate(s *session, req *thrift.Request) {
	s.identify(req.User, req.Password, thriftDone)
}

// name implements protocol.
func (thriftProtocol) name() string { return "thrift" }

func (thriftProtocol) next(s *session, in []byte) int {
	d := s.thriftDecoder()
	if s.hasInput() {
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
		s.noteRefused(err)
		refusal := err.(*thrift.ProtocolError)
		if refusal.Fatal {
			if _, ok := s.loop.server.logPaces.foreign.due(s.loop.clock); ok {
				s.loop.log.Warn("connection closed: not a call of the Thrift service",
					"peer", s.sink.peer(), "reason", refusal.Reason)
			}
			s.quitMisled()
			return 0
		}
		s.out = refusal.AppendReply(s.out, req)
		if s.id.unknown {
			s.strike()
		}
		return n
	}
	s.thrift.call = req.Call
	req.Queue = withoutAccount(req.Queue)
	if s.id.user != nil || s.id.unknown {
		if err := s.thriftDenied(req, n); err != nil {
			s.refuse(err)
			return n
		}
	}
	if id := req.ClientID[:min(len(req.ClientID), maxClientID)]; string(id) != s.clientID {
		s.clientID = string(id)
	}
	s.asks(req.Method.String(), req.Queue)
	if req.Method == thrift.MethodPut {
		if err := s.overItems(req.Items.Len(), 0); err != nil {
			s.refuse(err)
			return n
		}
	}
	if req.Method == thrift.MethodPut && s.loop.isLargePut(req, n) {
		s.thriftPutLater(frame, req)
		return n
	}
	thriftMethods[req.Method](s, req)
	return n
}

func (s *session) thriftDecoder() thrift.Decoder {
	if s.id.unknown {
		return thrift.Decoder{MaxFrame: 2 * maxCredentials, Upgraded: s.thrift.upgraded}
	}
	return thrift.Decoder{MaxFrame: thrift.DefaultMaxFrame, Upgraded: s.thrift.upgraded}
}

func (thriftProtocol) largest(*Options) int { return 4 + thrift.DefaultMaxFrame }

func (thriftProtocol) extent(s *session, in []byte) int {
	if len(in) < 4 {
		return 4 // its length
	}
	return s.thriftDecoder().FrameSize(in)
}

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

func thriftPeek(s *session, req *thrift.Request) {
	l := s.loop
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	l.counters.CmdPeek++
	s.terms = terms{}
	s.thriftPeekAt(req.Queue)
}

func (s *session) thriftPeekAt(queue []byte) {
	s.loop.headItem = s.loop.headItem[:0]
	var got engine.Fetched
	_, err := s.try(queue, engine.Peek, false, 1, &got)
	if got.Waiting {
		s.wait.peeked = func(s *session, err error) { thriftPeeked(s, s.wait.name, false, err) }
		s.beginWait(waitPeek, queue, queue, engine.Peek, forever)
		return
	}
	thriftPeeked(s, queue, got.Alias, err)
}

// thriftPeeked words the outcome of a peek.
func thriftPeeked(s *session, queue []byte, alias bool, err error) {
	l := s.loop
	switch {
	case s.noRoom:
		s.notTaken()
		return
	case err == errLost:
		s.thriftPeekAt(queue)
		return
	}
	if err != nil && err != engine.ErrEmpty {
		s.refuse(err)
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
		s.refuse(err)
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
	s.out = thrift.AppendStatus(s.out, req.Call, thriftStatuses[s.loop.server.status.Requested()])
}

func thriftSetStatus(s *session, req *thrift.Request) {
	for status, name := range thriftStatuses {
		if name == req.Status {
			s.setStatus(status, thriftDone)
			return
		}
	}
	s.refuse(ErrUnknownStatus)
}

func thriftGetVersion(s *session, req *thrift.Request) {
	s.out = thrift.AppendVersion(s.out, req.Call, Version)
}

// thriftUpgrade accepts that requests have a header from now on. The header may say who calls.
func thriftUpgrade(s *session, req *thrift.Request) {
	s.out = thrift.AppendUpgrade(s.out, req.Call)
	s.thrift.upgraded = true
}

// thriftPutLater is thriftPut for many items or bytes.
func (s *session) thriftPutLater(frame []byte, decoded *thrift.Request) {
	if err := checkThriftPut(decoded); err != nil {
		s.refuse(err)
		return
	}
	req := *decoded
	if !s.hasInput() {
		if _, err := s.thriftDecoder().Decode(bytes.Clone(frame), &req); err != nil {
			panic("netloop: frame cannot be decoded again: " + err.Error())
		}
	}
	for item := range req.Items.All() {
		s.puts(len(item))
	}
	s.putLater(req.Queue, len(frame), false, itemsOfPut(&req, s.loop.now), (*session).endThriftPut)
}

// largeCall is how many bytes a frame has at most that a loop decodes itself. At their worst, which is a list of empty
// values, they take it about a millisecond. A larger one does not fit in what is read at once, so the session holds it.
const largeCall = 4 * readSize

// thriftDecodeLater has a job decode a large frame, which lies in the input, and then runs the call. A put
// is done by the same job, also if the client goes away meanwhile.
func (s *session) thriftDecodeLater(frame []byte) {
	d, req, now, e := s.thriftDecoder(), new(thrift.Request), s.loop.now, s.loop.engine
	put := s.newPutJob()
	var refused error
	puts := false
	user := s.id.user // jobs must not look at s.id
	var over error
	usage, clock := s.id.usage, s.loop.server.clock
	if usage != nil {
		over = s.overQuota(len(frame))
	}
	s.pinned = true
	s.startJob(func() error {
		_, refused = d.Decode(frame, req)
		req.Queue = withoutAccount(req.Queue)
		if puts = refused == nil && req.Method == thrift.MethodPut; !puts {
			return nil
		}
		if err := checkThriftPut(req); err != nil {
			return err
		}
		put.client = string(req.ClientID[:min(len(req.ClientID), maxClientID)])
		if err := put.denied(req.Queue); err != nil {
			return err
		}
		if over != nil {
			return over
		}
		if usage != nil {
			if o := usage.admitItems(req.Items.Len(), user.Quota.Operations, int64(clock.now())*1e6); o != nil {
				return o
			}
		}
		if s.writesBlocked() {
			return errSetUnavailable
		}
		if e.MemoryLeft() < int64(len(frame)) {
			return engine.ErrOutOfMemory
		}
		return put.do(req.Queue, itemsOfPut(req, now))
	}, func(s *session, err error) {
		if !puts {
			s.id.charges.admitted = over == nil && s.id.usage != nil
			s.thriftRun(frame, req, refused)
			s.id.charges.admitted = false
			return
		}
		s.thrift.call, s.clientID = req.Call, put.client
		if o, ok := err.(*access.OverQuota); ok && over == nil {
			s.refusedByQuota(o)
		}
		put.end(err)
		s.endThriftPut(put.stored, put.ticket, s.unnamed(put.to, err))
	})
}
