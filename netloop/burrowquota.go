package netloop

import (
	"bytes"
	"strconv"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// The quotas of accounts bound what their clients do by Burrow's protocol, which is the only one that reaches them.

// admitAccount takes the request that was parsed, of size bytes, in for its account. It then calls done, now or when a job
// has ended, with why the request is not to be run, or nil.
func (s *session) admitAccount(size int, done func(*session, error)) {
	b, l := s.burrow, s.loop
	if b.account = l.server.accounts.of(b.req.Account); b.account == nil {
		done(s, nil)
		return
	}
	if err := b.account.admit(size, l.clock); err != nil {
		done(s, err)
		return
	}
	var more engine.AccountUse
	switch b.req.Op {
	case burrow.OpPutMessage:
		more = engine.AccountUse{Items: 1, Bytes: int64(len(b.answer.body))}
	case burrow.OpGetMessages, burrow.OpUpdateMessages, burrow.OpDeleteMessages:
		if b.req.Wait == 0 {
			done(s, nil)
			return
		}
	case burrow.OpPutBatch, burrow.OpReceive:
	default:
		done(s, nil)
		return
	}
	if _, exists := l.engine.QueueNumber(b.name); !exists {
		more.Queues = 1 // the request makes it
	}
	s.reserveAccount(more, done)
}

// reserveAccount takes room for more in the quota of the account. It then calls done, with why there is none, or nil. That
// is now, or when a job has counted what the account has.
func (s *session) reserveAccount(more engine.AccountUse, done func(*session, error)) {
	u, e := s.burrow.account, s.loop.engine
	if u == nil {
		done(s, nil)
		return
	}
	if err := u.reserve(e, more); err != errUncounted {
		done(s, err)
		return
	}
	a, copied := s.ownAnswer(), int64(0)
	if s.pinned = s.hasInput(); !s.pinned {
		a.body, copied = bytes.Clone(a.body), int64(len(a.body))
		e.Account(copied)
	}
	s.startJobIfAllowed(func() error {
		defer e.Account(-copied)
		return u.reserveInJob(e, more)
	}, done)
}

// admitWaiter is admitWait for a request whose Waiter is at its queue, and leaves it if the request may not wait. If an
// item has reached the Waiter meanwhile, the request gets that: the news of it is on its way.
func (s *session) admitWaiter() error {
	err := s.admitWait()
	if err != nil && !s.loop.engine.CancelWait(&s.wait.waiter) {
		return nil
	}
	return err
}

// admitWait returns why the request may not wait, or nil; then it counts as one that does, until it ends.
func (s *session) admitWait() error {
	u := s.burrow.account
	if u == nil {
		return nil
	}
	if err := u.admitWait(); err != nil {
		return err
	}
	u.waits.Add(1)
	s.waits = &u.waits
	return nil
}

// refuseAccount refuses a request by the quota of its account.
func (s *session) refuseAccount(over *overAccountError) {
	status := 507
	if over.wait > 0 {
		status = 429
		s.burrow.frame.Fields += "Retry-After: " + strconv.FormatInt(over.wait, 10) + "\r\n"
	}
	s.noteOverAccount(over)
	s.burrowText(status, over.Error())
}

// noteOverAccount counts a refusal by the quota of the account. The server logs one a second at most.
func (s *session) noteOverAccount(over *overAccountError) {
	l := s.loop
	l.counters.OverQuota.Account++
	s.overQuotas++
	if refused, ok := l.server.logPaces.account.due(l.clock); ok {
		l.log.Warn("request refused: the account is over its quota", "account", s.burrow.account.name, "peer", s.sink.peer(),
			"quota", over.what, "most", over.most, "refused", refused)
	}
}
