package netloop

import (
	"bytes"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/text"
	"github.com/kestrelmq/kestrel/engine"
)

// textProtocol is the text protocol of Kestrel. Every fetch confirms what the connection fetched
// from the queue before.
type textProtocol struct{ _ *byte }

// textItems is the state of a request that is followed by item lines.
type textItems struct {
	reading bool       // item lines are to come
	at      text.Items // how far the line being read has come
	putting bool       // the items are put; else they are read over
	name    []byte     // of the queue
	expiry  engine.Time
	extra   engine.PutExtra
	stored  int64
	ticket  engine.Ticket // of the items stored
	err     error         // what put an end to putting them; nil if nothing did
}

// textCommands runs a decoded request, by its Op.
var textCommands = [...]func(*session, *text.Request){
	text.OpPut:      textPut,
	text.OpGet:      textGet,
	text.OpPeek:     textPeek,
	text.OpMonitor:  textMonitor,
	text.OpConfirm:  textConfirm,
	text.OpFlush:    textFlush,
	text.OpDelete:   textDelete,
	text.OpStatus:   textStatus,
	text.OpVersion:  textVersion,
	text.OpShutdown: textShutdown,
	text.OpQuit:     textQuit,
	text.OpTouch:    textTouch,
	text.OpAbort:    textReturn,
	text.OpRelease:  textReturn,
	text.OpReject:   textReturn,
	text.OpAuth:     textAuth,
	text.OpList:     textList,
	text.OpRemove:   textRemove,
}

// textNeeds is what a user needs to run a command, by its Op.
var textNeeds = [len(textCommands)]need{
	text.OpPut:      {access.Put, onQueue},
	text.OpGet:      {access.Get, onQueue},
	text.OpPeek:     {access.Peek, onQueue},
	text.OpMonitor:  {access.Get, onQueue},
	text.OpConfirm:  {access.Get, onQueue},
	text.OpFlush:    {access.Manage, onQueue},
	text.OpDelete:   {access.Manage, onQueue},
	text.OpStatus:   {access.Operate, onNothing}, // unless it names one
	text.OpVersion:  {0, onNothing},
	text.OpShutdown: {access.Operate, everywhere},
	text.OpQuit:     {0, onNothing},
	text.OpTouch:    {access.Get, onQueue},
	text.OpAbort:    {access.Get, onQueue},
	text.OpRelease:  {access.Get, onQueue},
	text.OpReject:   {access.Get, onQueue},
	text.OpAuth:     {0, onNothing},
	text.OpList:     {access.Peek, onQueue},
	text.OpRemove:   {access.Get, onQueue},
}

// textDenied refuses req if the user may not run it, or if nobody knows yet who the client is. It reports whether it
// did. The request has size bytes. Items that follow are read over.
func (s *session) textDenied(req *text.Request, size int) bool {
	n := textNeeds[req.Op]
	if req.Op == text.OpStatus && len(req.Status) > 0 {
		n.scope = everywhere
	}
	err := s.admit(n, s.latin1Name(req.Queue), size)
	switch {
	case s.id.unknown && req.Op != text.OpAuth && req.Op != text.OpQuit:
		err = errUnidentified
		s.strike()
	case err == nil:
		return false
	}
	if req.Op == text.OpPut && req.ItemsFollow {
		s.items.putting, s.items.err = true, err // answered behind the items
		return true
	}
	s.refuse(err)
	return true
}

// textAuth says who the client is.
func textAuth(s *session, req *text.Request) { s.identify(req.User, req.Password, textDone) }

// name implements protocol.
func (textProtocol) name() string { return "text" }

func (textProtocol) next(s *session, in []byte) int {
	opts := &s.loop.server.opts
	decoder := text.Decoder{MaxLine: opts.MaxLine, MaxItem: opts.MaxItemSize}
	if s.id.unknown {
		decoder.MaxItem = maxCredentials
	}
	if s.items.reading {
		return s.nextItem(decoder, in)
	}
	var req text.Request
	n, err := decoder.Decode(in, &req)
	if err == text.ErrIncomplete {
		return 0
	}
	s.items.reading = req.ItemsFollow
	if err == nil {
		if (s.id.user != nil || s.id.unknown) && s.textDenied(&req, n) {
			return n
		}
		if s.textConfirmsMore(&req) {
			return 0
		}
		s.asks(req.Op.String(), req.Queue)
		textCommands[req.Op](s, &req)
		return n
	}
	s.noteRefused(err)
	refusal := err.(*text.ProtocolError)
	s.out = refusal.AppendReply(s.out, &req)
	if refusal.Fatal {
		s.quitMisled()
		return 0
	}
	if s.id.unknown {
		s.strike()
	}
	return n
}

// nextItem takes one item line, or what has come of one that is too large.
func (s *session) nextItem(decoder text.Decoder, in []byte) int {
	item, n, err := decoder.DecodeItem(in, &s.items.at)
	if s.id.usage != nil && n > 0 {
		s.id.charges.requests++ // the session counts a line as a request; overItem charges for what is put
	}
	switch {
	case err == text.ErrIncomplete:
	case err == text.ErrTooLarge:
		if s.items.putting {
			s.noteRefused(err)
		}
	case err == text.ErrEndOfItems:
		s.endItems()
	case item != nil && s.items.putting && s.items.err == nil:
		s.putTextItem(item)
	}
	return n
}

// putTextItem puts one item, now or in a job. One that the queue refuses is not counted, and the next is tried;
// anything else puts an end to it.
func (s *session) putTextItem(item []byte) {
	it := &s.items
	if s.id.usage != nil {
		if err := s.overItem(len(item)); err != nil {
			it.err = err
			return
		}
	}
	s.loop.watchdog.request("put", it.name)
	p := engine.PutRequest{Data: item, Expiry: it.expiry}
	if it.extra.Delay != 0 || len(it.extra.Key) > 0 {
		p.Extra = &it.extra
	}
	if len(item) > largePut {
		s.putOneLater(it.name, p, (*session).textItemPut)
		return
	}
	t, err := s.put(it.name, p)
	s.textItemPut(t, err)
}

// textItemPut takes in the outcome of putting one item.
func (s *session) textItemPut(t engine.Ticket, err error) {
	it := &s.items
	it.ticket = it.ticket.Merge(t)
	switch {
	case err == nil:
		it.stored++
	case errors.Is(err, engine.ErrQueueFull), errors.Is(err, engine.ErrItemTooLarge),
		errors.Is(err, engine.ErrKeyExists), errors.Is(err, engine.ErrNoSuchItem), errors.Is(err, engine.ErrTooManyKeys):
		s.noteRefused(err)
	default:
		it.err = err
	}
}

// endItems answers a request that was followed by item lines.
func (s *session) endItems() {
	it := s.items
	s.items = textItems{name: it.name[:0]}
	if !it.putting {
		return
	}
	if it.err != nil {
		s.refuse(it.err)
		return
	}
	s.claim(it.ticket)
	s.out = text.AppendCount(s.out, it.stored)
}

func (textProtocol) largest(o *Options) int { return o.MaxLine + o.MaxItemSize }

// extent is 0: no request says how large it is.
func (textProtocol) extent(*session, []byte) int { return 0 }

func (textProtocol) tooMany() []byte { return text.AppendError(nil, "Too many open connections.") }

func (textProtocol) item(s *session, it engine.Item) bool {
	own, size := it.HasOwnMemory(), len(it.Data)
	if s.terms.meta {
		size += memcache.MaxMeta
	}
	if own && !s.startBody(it, text.ItemTrailer) || !own && !s.room(size) {
		return false
	}
	if s.terms != (terms{}) {
		s.textTerms(it)
	}
	if own {
		s.out = text.AppendItemHeader(s.out)
	} else {
		s.out = text.AppendItem(s.out, it.Data)
	}
	return true
}

// textTerms words what the terms of the fetch want in front of the item being received. That is which of several queues
// it is of, the receipt of its lease, and what there is to know of it.
func (s *session) textTerms(it engine.Item) {
	if s.terms.named {
		s.out = text.AppendQueue(s.out, s.name)
	}
	if s.terms.lease != 0 {
		s.out = text.AppendReceipt(s.out, s.delivery.Receipt)
	}
	if s.terms.meta {
		m := metaOf(s.id.user, it, &s.delivery)
		var buf [memcache.MaxMeta]byte
		s.out = text.AppendMeta(s.out, m.AppendJSON(buf[:0]))
	}
}

func (textProtocol) none(s *session) { s.out = append(s.out, text.ReplyNone...) }

// refuse words every refusal as one line, and goes on; only what cannot be answered ends the
// session.
func (textProtocol) refuse(s *session, err error) {
	var unavailable unavailableError
	switch {
	case errors.As(err, &unavailable):
		s.out = text.AppendUnavailable(s.out, string(unavailable))
	case errors.Is(err, errTooManyReads):
		s.out = text.AppendTooManyOpen(s.out, s.loop.server.opts.MaxOpenReads)
	case errors.Is(err, errNotThatMany):
		s.out = append(s.out, text.ReplyNotThatMany...)
	case errors.Is(err, ErrUnknownStatus):
		s.out = append(s.out, text.ReplyUnknownStatus...)
	case errors.Is(err, ErrForbiddenStatus):
		s.out = append(s.out, text.ReplyStatusForbidden...)
	case errors.Is(err, engine.ErrBadName), errors.Is(err, engine.ErrClosed):
		s.quit()
	default:
		s.out = text.AppendError(s.out, reason(err))
	}
}

func (textProtocol) retract(dst, _ []byte, err error) []byte {
	return text.AppendError(dst, reason(err))
}

func textPut(s *session, req *text.Request) {
	if !req.ItemsFollow {
		s.out = append(s.out, text.ReplyDone...)
		return
	}
	it := &s.items
	it.putting = true
	it.name = append(it.name[:0], s.latin1Name(req.Queue)...)
	it.expiry = engine.Time(req.ExpiryTime(int64(s.loop.now)))
	it.extra = engine.PutExtra{
		Delay: time.Duration(req.DelayMillis) * time.Millisecond, Key: bytes.Clone(req.Key), OnDuplicate: engine.Overwrite,
	}
	switch {
	case req.New:
		it.extra.OnDuplicate = engine.OnlyNew
	case req.Replace:
		it.extra.OnDuplicate = engine.OnlyReplace
	}
}

func textGet(s *session, req *text.Request) {
	name := s.latin1Name(req.Queue)
	s.confirmAll(name)
	how := engine.OpenRead
	if s.terms = (terms{meta: req.Meta}); req.HasLease {
		how, s.terms.lease = engine.Lease, leaseOf(req.LeaseMillis)
	}
	if len(req.Several) > 0 {
		s.textFetchSeveral(req, how)
		return
	}
	s.fetch(name, req.Queue, how, req.WaitMillis, 1)
}

// textFetchSeveral runs a GET or PEEK that names several queues.
func (s *session) textFetchSeveral(req *text.Request, how engine.Access) {
	var queues [text.MaxQueues]text.Source
	s.terms.named = true
	s.beginSeveral()
	for _, q := range req.Queues(queues[:0]) {
		name := s.latin1Name(q.Queue)
		s.confirmAll(name)
		s.addSource(name, q.Queue, q.Weight)
	}
	s.fetchSeveral(how, req.WaitMillis)
}

func textPeek(s *session, req *text.Request) {
	name := s.latin1Name(req.Queue)
	if req.ID != 0 || len(req.Key) > 0 {
		s.terms = terms{meta: req.Meta}
		s.lookAt(name, req.Queue, textWhich(req))
		return
	}
	s.confirmAll(name)
	s.terms = terms{meta: req.Meta}
	if len(req.Several) > 0 {
		s.textFetchSeveral(req, engine.Peek)
		return
	}
	s.fetch(name, req.Queue, engine.Peek, req.WaitMillis, 1)
}

func textMonitor(s *session, req *text.Request) {
	name := s.latin1Name(req.Queue)
	s.confirmAll(name)
	s.monitor(name, req.Queue, s.loop.clock+moment(req.WaitMillis), -1)
}

func textConfirm(s *session, req *text.Request) {
	if req.Receipt != 0 {
		s.textEnded(1, s.confirmLease(s.latin1Name(req.Queue), req.Receipt))
		return
	}
	count := int(req.Count)
	s.confirmMany(s.latin1Name(req.Queue), count, func(s *session, err error) { s.textEnded(count, err) })
}

// textConfirmsMore confirms some of the reads that a fetch confirms first, if they are more than one turn has time for. It
// then reports true: a later turn runs the request, which is admitted.
func (s *session) textConfirmsMore(req *text.Request) bool {
	if len(s.reads.queues) == 0 || req.Op != text.OpGet && req.Op != text.OpPeek && req.Op != text.OpMonitor ||
		req.ID != 0 || len(req.Key) > 0 {
		return false
	}
	var queues [text.MaxQueues]text.Source
	all := req.Queues(queues[:0])
	open := 0
	for _, q := range all {
		if name := s.latin1Name(q.Queue); s.mayGoOn(name) {
			open += s.countReads(name)
		}
	}
	if open <= confirmPiece {
		return false
	}
	left := confirmPiece
	for _, q := range all {
		if name := s.latin1Name(q.Queue); s.mayGoOn(name) {
			n := min(s.countReads(name), left)
			s.confirmOldest(name, n) // does nothing for n = 0
			left -= n
		}
	}
	s.claiming = false // the reply is about what comes next
	s.id.charges.admitted = s.id.usage != nil
	s.yielded = true
	s.to(stalled)
	s.loop.later(s)
	return true
}

// textReturn gives a lease, or the connection's oldest open read, back.
func textReturn(s *session, req *text.Request) {
	name := s.latin1Name(req.Queue)
	how := engine.Return{
		How: engine.Abort, Delay: time.Duration(req.DelayMillis) * time.Millisecond, Delayed: req.HasDelay,
	}
	switch req.Op {
	case text.OpRelease:
		how.How = engine.Release
	case text.OpReject:
		how.How = engine.Reject
	}
	if req.Receipt != 0 {
		s.textEnded(1, s.returnLease(name, req.Receipt, how))
		return
	}
	open := min(s.countReads(name), 1)
	s.textEnded(open, s.returnOldest(name, how))
}

// textEnded words how many reads have ended.
func (s *session) textEnded(n int, err error) {
	if err != nil {
		s.refuse(err)
		return
	}
	s.out = text.AppendCount(s.out, int64(n))
}

// textWhich is the item that a request names.
func textWhich(req *text.Request) engine.Which { return engine.Which{ID: req.ID, Key: req.Key} }

func textRemove(s *session, req *text.Request) {
	err := s.remove(s.latin1Name(req.Queue), textWhich(req))
	if errors.Is(err, engine.ErrNoSuchItem) || errors.Is(err, engine.ErrHeld) {
		s.textEnded(0, nil)
		return
	}
	s.textEnded(1, err)
}

func textList(s *session, req *text.Request) {
	describe, user := req.Meta, s.id.user
	var meta []byte // of an item; nil if the client wants none
	s.list(s.latin1Name(req.Queue), engine.Match{From: req.From, Limit: req.Limit, Hidden: req.Hidden}, listing{
		word: func(dst []byte, it engine.Item, d *engine.Delivery) []byte {
			if describe {
				m := metaOf(user, it, d)
				meta = m.AppendJSON(meta[:0])
			}
			return text.AppendListed(dst, it.ID, meta, it.Data)
		},
		end: func(dst []byte, err error) []byte {
			if err != nil {
				return text.AppendError(dst, reason(err))
			}
			return append(dst, text.ReplyNone...)
		},
	})
}

// textTouchItem gives an item another expiry, and answers with that.
func textTouchItem(s *session, req *text.Request) {
	expiry := engine.Time(0)
	if req.TouchMillis > 0 {
		expiry = s.loop.now + engine.Time(req.TouchMillis)
	}
	s.changeExpiry(s.latin1Name(req.Queue), textWhich(req), expiry, func(s *session, err error) {
		if err != nil {
			s.refuse(err)
			return
		}
		s.out = text.AppendCount(s.out, int64(expiry))
	})
}

func textTouch(s *session, req *text.Request) {
	if req.ID != 0 || len(req.Key) > 0 {
		textTouchItem(s, req)
		return
	}
	due, err := s.extendLease(s.latin1Name(req.Queue), req.Receipt, leaseOf(req.LeaseMillis))
	if err != nil {
		s.refuse(err)
		return
	}
	s.out = text.AppendCount(s.out, int64(due))
}

// textDone words the outcome of a command that has nothing to tell.
func textDone(s *session, err error) {
	if err != nil {
		s.refuse(err)
		return
	}
	s.out = append(s.out, text.ReplyDone...)
}

func textFlush(s *session, req *text.Request) { s.flush(s.latin1Name(req.Queue), textDone) }

func textDelete(s *session, req *text.Request) { s.delete(s.latin1Name(req.Queue), textDone) }

func textStatus(s *session, req *text.Request) {
	if len(req.Status) == 0 {
		s.out = text.AppendStatus(s.out, s.loop.server.status.Requested().String())
		return
	}
	s.setNamedStatus(string(req.Status), textDone)
}

func textVersion(s *session, _ *text.Request) { s.out = text.AppendVersion(s.out, Version) }

func textShutdown(s *session, _ *text.Request) {
	err := s.shutdown()
	textDone(s, err)
}

func textQuit(s *session, _ *text.Request) { s.quit() }
