package netloop

import (
	"strconv"
	"time"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// Leases in version 1.1 of Burrow's protocol. A client receives messages and works on them. Over any connection it
// then says, by their receipts, what became of them. A message whose lease lapses comes back.

// burrowReceive leases messages, waiting for one if there is none.
func burrowReceive(s *session) {
	b, l := s.burrow, s.loop
	r, err := burrow.DecodeReceive(b.answer.body)
	switch {
	case err != nil:
		s.refuse(err)
		return
	case s.readsBlocked():
		s.refuse(errGetUnavailable)
		return
	}
	limit, err := s.reserveReads(int(r.Limit))
	if err != nil {
		s.refuse(err)
		return
	}
	b.req.Detail = burrow.DetailAll
	b.lease = engine.DefaultLease
	if r.Lease > 0 {
		b.lease = time.Duration(r.Lease) * time.Millisecond
	}
	b.until = atOnce
	if r.Wait > 0 {
		b.until = l.clock + moment(min(r.Wait, burrow.LongestWait*1000))
	}
	l.counters.CmdGet++
	s.receiveSome(limit)
}

// receiveSome leases up to limit messages, or waits for one.
func (s *session) receiveSome(limit int) {
	b, l := s.burrow, s.loop
	a := b.answer
	a.gather(s, nil)
	s.terms = terms{}
	waits := b.until > l.clock
	wait := waits && s.mayWait()
	request := s.fetchRequest(engine.Lease, wait)
	request.Lease, request.Delivery, request.Holder = b.lease, &a.delivery, s.id.holder()
	var got engine.Fetched
	err := l.engine.FetchMany(l.now, b.name, &request, limit, a, nil, &got)
	s.after(got.Ticket)
	s.work += got.Count
	s.chargeItems(got.Count, 0)
	s.countFetch(engine.Lease, &got, got.Count, err)
	s.releaseReserved(got.Waiting)
	switch {
	case got.Count > 0:
		l.counters.GetHits += int64(got.Count)
		s.sendMessages()
	case got.Waiting:
		if err := s.admitWaiter(); err != nil {
			s.releaseReserved(false)
			s.refuse(err)
			return
		}
		s.copyRequest()
		s.wait.matched = (*session).receiveWaited
		deadline := b.until
		if deadline <= l.clock {
			deadline = forever // the next message is on its way from the disk
		}
		s.beginWait(waitMatch, b.name, nil, engine.Lease, deadline)
	case err == engine.ErrEmpty && waits && !wait:
		s.refuse(s.waitsQuota())
	case err == engine.ErrEmpty:
		l.counters.GetMisses++
		s.proto.none(s)
	case err == engine.ErrNotTaken:
		s.notTaken()
	default:
		s.refuse(err)
	}
}

// receiveWaited leases the message that a wait has brought.
func (s *session) receiveWaited(ref engine.ReadRef, err error) {
	b, l := s.burrow, s.loop
	b.answer = l.burrowAnswer
	b.answer.begin(s, nil)
	a := b.answer
	a.gather(s, nil)
	if err != nil && err != engine.ErrDeleted {
		s.refuse(err)
		return
	}
	request := engine.FetchRequest{
		Access: engine.Lease, Lease: b.lease, Delivery: &a.delivery, ClientID: s.clientID, Holder: s.id.holder(),
	}
	t, ok := l.engine.Collect(l.now, ref, request, a)
	if !ok && s.isLost(ref) {
		s.releaseReserved(false)
		if _, err := s.reserveReads(1); err != nil {
			s.refuse(err)
			return
		}
		s.receiveSome(1)
		return
	}
	if !ok {
		l.counters.GetMisses++
		s.notTaken()
		return
	}
	l.counters.GetHits++
	s.after(t)
	s.releaseReserved(false)
	s.chargeItems(1, 0)
	s.sendMessages()
}

// sendMessages answers with the messages that were gathered.
func (s *session) sendMessages() {
	a, size := s.burrow.answer, 0
	for i := range a.messages {
		size += len(a.messages[i].large)
	}
	a.text = append(a.text[:0], modernList...)
	end := func(s *session, _ error) {
		a.text = append(a.text, "]}"...)
		s.burrowLong(a)
	}
	if size <= largePut {
		a.word(burrow.DetailAll)
		end(s, nil)
		return
	}
	s.ownAnswer()
	s.startJob(func() error {
		a.word(burrow.DetailAll)
		return nil
	}, end)
}

func burrowAcknowledge(s *session) {
	if err := s.confirmLease(s.burrow.name, s.burrow.req.Receipt); err != nil {
		s.refuse(err)
		return
	}
	s.burrowEmpty(204)
}

// burrowExtend gives a lease more time, and says until when it lasts, or its message back.
func burrowExtend(s *session) {
	b := s.burrow
	x, err := burrow.DecodeExtend(b.answer.body)
	switch {
	case err != nil:
	case x.Release:
		how := engine.Return{How: engine.Release, Delayed: x.Delay > 0, Delay: time.Duration(x.Delay) * time.Millisecond}
		err = s.returnLease(b.name, b.req.Receipt, how)
	case x.Reject:
		err = s.returnLease(b.name, b.req.Receipt, engine.Return{How: engine.Reject})
	default:
		due, e := s.extendLease(b.name, b.req.Receipt, time.Duration(x.Lease)*time.Millisecond)
		if e == nil {
			s.burrowDue(due)
			return
		}
		err = e
	}
	if err != nil {
		s.refuse(err)
		return
	}
	s.burrowEmpty(204)
}

// burrowDue answers with the time at which a lease ends, in milliseconds since 1970.
func (s *session) burrowDue(due engine.Time) {
	var buf [32]byte
	text := append(strconv.AppendInt(append(buf[:0], `{"due":`...), int64(due), 10), '}')
	r := s.burrow.frame
	r.Status, r.Type, r.Length = 200, burrow.JSON, len(text)
	s.out = append(burrow.AppendReply(s.out, r), text...)
	s.endBurrow()
}

// burrowAcknowledgeAll ends the leases of several receipts: their messages are done. Receipts that hold nothing are passed
// over.
func burrowAcknowledgeAll(s *session) {
	l := s.loop
	receipts, err := burrow.DecodeSettle(s.burrow.answer.body)
	if err != nil {
		s.refuse(err)
		return
	}
	t, n, err := l.engine.ConfirmLeases(l.now, s.burrow.name, receipts)
	s.work += len(receipts)
	if s.endClaim(t); err != nil && err != engine.ErrNotHeld {
		s.refuse(err)
		return
	}
	l.latencies.count(CommandConfirm, nil, t, int64(n))
	s.burrowValue(200, struct {
		Acknowledged int `json:"acknowledged"`
	}{n})
}
