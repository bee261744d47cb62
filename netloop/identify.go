package netloop

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// This file has a client say who it is, and refuses what it may not do.

// mayOperate returns why the client may not operate the server. A client that is nobody in particular must be on
// this machine; whether a user may was asked before.
func (s *session) mayOperate() error {
	if s.id.user == nil && !s.local {
		return errNotLocal
	}
	return nil
}

// admit is denied, for a request of size bytes, which the user's quota must allow as well. What needs nothing, such as
// QUIT, it always allows.
func (s *session) admit(n need, name []byte, size int) error {
	if s.id.usage != nil && n.scope != onNothing {
		if err := s.overQuota(size); err != nil {
			return err
		}
	}
	return s.denied(n, name)
}

// denied returns why the client may not do what needs n on the queue called name, or nil if it may. It counts
// refusals.
func (s *session) denied(n need, name []byte) error {
	if s.id.user == nil {
		return nil
	}
	if d := s.id.denied(n, name); d != nil {
		s.loop.noteDenied(s, d)
		return d
	}
	return nil
}

// noteDenied counts a refusal. The server logs one a second at most.
func (l *loop) noteDenied(s *session, d *access.Denied) {
	l.counters.Denied++
	if refused, ok := l.server.logPaces.denied.due(l.clock); ok {
		l.log.Warn("request refused: the user has no right to it", "user", s.id.user.Name, "peer", s.sink.peer(),
			"right", d.Right.String(), "queue", d.Queue, "refused", refused)
	}
}

// unnamed returns err, the refusal of a request about name, without the names of queues that the user may not see.
// These may be a destination of an alias, a fanout child, or any queue of a flush_all.
func (s *session) unnamed(name []byte, err error) error {
	if err == nil || s.id.user == nil {
		return err
	}
	return unnamed(s.id.user, name, err)
}

// isDenied reports whether err refuses something that a user has no right to.
func isDenied(err error) bool {
	_, is := err.(*access.Denied)
	return is
}

// unnamed is that of a session of the user.
func unnamed(user *access.User, name []byte, err error) error {
	var refused *engine.NotAdmittedError
	if !errors.As(err, &refused) || refused.Queue == string(name) || user.Sees(refused.Queue) {
		return err
	}
	hidden := *refused
	hidden.Queue = string(name)
	return &hidden
}

// mayGoOn reports whether the client may still fetch from the queue called name: a reload may have come.
func (s *session) mayGoOn(name []byte) bool { return s.id.user == nil || s.id.may(access.Get, name) }

// identify checks who the client says it is, in a job, and calls done with the outcome. A client that has failed
// too often is cut off.
func (s *session) identify(name, password []byte, done func(*session, error)) {
	l, checker := s.loop, s.loop.server.opts.Access
	switch {
	case checker == nil:
		done(s, errNoUsers)
		return
	case !s.id.unknown:
		done(s, errIdentified)
		return
	}
	s.awaitIdentity()
	who, secret, from := string(name), bytes.Clone(password), s.id.from
	left := time.Duration(s.id.until-l.clock) * time.Millisecond
	var checked *access.User
	s.startJob(func() (err error) {
		ctx, cancel := context.WithTimeout(l.server.ending, left)
		defer cancel()
		checked, err = checker.Password(ctx, from, who, secret)
		if errors.Is(err, context.DeadlineExceeded) {
			err = access.ErrBusy
		}
		return err
	}, func(s *session, err error) {
		if err == nil {
			user, again := checker.Still(checked)
			switch {
			case again:
				s.identify([]byte(who), secret, done)
				return
			case user == nil:
				err = access.ErrFailed
			default:
				if err = s.become(user); err == nil {
					s.id.names = nil
				}
			}
		}
		done(s, err)
		if err != nil {
			l.noteFailed(s, checker.LogName(who), err)
			s.awaitIdentity() // the end of the job has removed the deadline
			s.strike()
		}
	})
}

// awaitIdentity ends the connection of an unknown client when its time to say who it is has passed.
func (s *session) awaitIdentity() {
	if s.id.until == 0 {
		s.id.until = s.loop.clock.after(identifyTime)
	}
	if s.wait.heapIndex < 0 {
		s.loop.deadlines.add(s, s.id.until)
	}
}

// strike counts that an unknown client was refused something.
func (s *session) strike() {
	if s.id.strikes++; s.id.strikes >= maxStrikes {
		s.loop.counters.Unidentified++
		s.quit()
	}
}

// noteFailed logs that an attempt to authenticate has failed, once a second at most.
func (l *loop) noteFailed(s *session, who string, err error) {
	if _, ok := l.server.logPaces.failed.due(l.clock); ok {
		l.log.Warn("authentication failed", "user", who, "peer", s.sink.peer(), "err", err,
			"failed", l.server.opts.Access.Counts().Failed)
	}
}

// standing is what a job of a session knows of the client's right to what it does. A reload may take that while the job
// runs, and the session belongs to its loop.
type standing struct {
	checker *access.Checker
	id      identity // as the job began; a nil user may do everything
	need    need
	name    []byte // of the queue or account; the session keeps it as long as the job runs

	asked   *access.Users // whom denied has asked last
	refused error         // what it said
}

// standing is for a job that the session starts, which does what needs n.
func (s *session) standing(n need, name []byte) *standing {
	return &standing{
		checker: s.loop.server.opts.Access, id: identity{user: s.id.user, names: s.id.names}, need: n, name: name,
	}
}

// user returns the client's user of now. It has no rights if the user is gone.
func (st *standing) user() *access.User {
	if st.id.user == nil {
		return nil
	}
	if now := st.id.among(st.checker.Users()); now != nil {
		return now
	}
	return new(access.User)
}

// denied returns why the client may not go on, or nil. It costs little as long as no reload comes.
func (st *standing) denied() error {
	if st.id.user == nil {
		return nil
	}
	if users := st.checker.Users(); users != st.asked {
		st.asked, st.refused = users, nil
		now := identity{user: st.user()}
		if d := now.denied(st.need, st.name); d != nil {
			st.refused = d
		}
	}
	return st.refused
}

// noteJobDenied counts that a job has ended because its client has no right any more, if that is what err says.
func (s *session) noteJobDenied(err error) {
	var denied *access.Denied
	if errors.As(err, &denied) {
		s.loop.noteDenied(s, denied)
	}
}
