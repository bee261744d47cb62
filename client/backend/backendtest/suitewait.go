package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

// outcome is what a call that waits has returned.
type outcome struct {
	ids string
	err error
}

// later makes a call that waits, on a goroutine of its own.
func (s *suite) later(call func() ([]backend.Message, error)) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		list, err := call()
		done <- outcome{idsOf(list, nil), err}
	}()
	return done
}

// end returns what a call that waits has returned.
func (s *suite) end(call <-chan outcome) outcome {
	s.Helper()
	select {
	case got := <-call:
		return got
	case <-s.ctx.Done():
		s.Fatal("a call does not return")
		return outcome{}
	}
}

// long waits for far longer than a case takes.
func long(m backend.Match) backend.Match {
	m.Wait, m.Detail = patience, backend.IDs
	return m
}

func wait(s *suite) {
	get := s.later(func() ([]backend.Message, error) {
		return backend.Collect(s.Messages(s.ctx, jobs, long(backend.Match{})))
	})
	s.put(backend.Queue{Account: "acme", Name: "other"}, backend.Attributes{}, "m")
	s.put(jobs, backend.Attributes{Hide: time.Hour}, "hidden")
	s.put(jobs, backend.Attributes{}, "1")
	s.want("Messages", s.end(get).ids, "1 ")
	get = s.later(func() ([]backend.Message, error) {
		return backend.Collect(s.Messages(s.ctx, jobs, long(backend.Match{Marker: "1"})))
	})
	remove := s.later(func() ([]backend.Message, error) {
		return s.DeleteMessages(s.ctx, jobs, long(backend.Match{Marker: "1"}))
	})
	s.put(jobs, backend.Attributes{}, "1") // keeps its place
	if _, err := s.UpdateMessage(s.ctx, key(jobs, "hidden"), backend.Attributes{Hide: backend.Visible}, backend.None); err != nil {
		s.Fatal(err)
	}
	s.put(jobs, backend.Attributes{}, "2")
	if got := s.end(remove); got.err != nil || got.ids != "2 " {
		s.Errorf("DeleteMessages = %+v", got)
	}
	s.put(jobs, backend.Attributes{}, "3") // the reader may have been too late for 2
	if got := s.end(get); got.err != nil || got.ids != "2 " && got.ids != "3 " && got.ids != "2 3 " {
		s.Errorf("Messages = %+v", got)
	}
	none := long(backend.Match{})
	none.Detail = backend.None
	if _, err := s.UpdateMessages(s.ctx, jobs, backend.Attributes{Hide: time.Hour}, none); err != nil {
		s.Errorf("UpdateMessages at once = %v", err)
	}
}

func waitForHidden(s *suite) {
	s.put(jobs, backend.Attributes{Hide: time.Second}, "1")
	got, err := s.DeleteMessages(s.ctx, jobs, long(backend.Match{}))
	s.want("DeleteMessages", idsOf(got, err), "1 ")
	s.put(jobs, backend.Attributes{}, "2")
	lease := func() ([]backend.Message, error) {
		return s.UpdateMessages(s.ctx, jobs, backend.Attributes{Hide: time.Second}, long(backend.Match{Limit: 1}))
	}
	for range 2 { // a lease that lapses
		got, err = lease()
		s.want("UpdateMessages", idsOf(got, err), "2 ")
	}
	get := s.later(func() ([]backend.Message, error) {
		return backend.Collect(s.Messages(s.ctx, jobs, long(backend.Match{})))
	})
	if _, err := s.UpdateMessage(s.ctx, key(jobs, "2"), backend.Attributes{Hide: backend.Visible}, backend.None); err != nil {
		s.Fatal(err)
	}
	s.want("Messages", s.end(get).ids, "2 ")
}

func waitEnds(s *suite) {
	_, err := backend.Collect(s.Messages(s.ctx, jobs, backend.Match{Wait: time.Second, Detail: backend.IDs}))
	s.wantErr("Messages", err, backend.ErrNoAccount)
	s.put(jobs, backend.Attributes{Hide: time.Hour}, "m")
	update := s.later(func() ([]backend.Message, error) {
		return s.UpdateMessages(s.ctx, jobs, backend.Attributes{Hide: time.Hour}, backend.Match{Wait: time.Second})
	})
	_, err = s.DeleteMessages(s.ctx, jobs, backend.Match{Wait: time.Second})
	s.wantErr("DeleteMessages", err, backend.ErrNoMessage)
	s.wantErr("UpdateMessages", s.end(update).err, backend.ErrNoMessage)

	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(s.ctx)
	var calls []<-chan outcome
	for _, do := range []func(ctx context.Context, m backend.Match) ([]backend.Message, error){
		func(ctx context.Context, m backend.Match) ([]backend.Message, error) {
			return backend.Collect(s.Messages(ctx, jobs, m))
		},
		func(ctx context.Context, m backend.Match) ([]backend.Message, error) {
			return s.UpdateMessages(ctx, jobs, backend.Attributes{Hide: time.Hour}, m)
		},
		func(ctx context.Context, m backend.Match) ([]backend.Message, error) {
			return s.DeleteMessages(ctx, jobs, m)
		},
	} {
		calls = append(calls, s.later(func() ([]backend.Message, error) { return do(ctx, long(backend.Match{})) }))
	}
	s.pass(time.Second)
	cancel(reason)
	for _, call := range calls {
		s.wantErr("a call whose context ends", s.end(call).err, reason)
	}
	s.pass(time.Second)
	s.put(jobs, backend.Attributes{}, "2")
	s.want("what nobody took", s.ids(jobs, backend.Match{}), "2 ")
}

func sharedWait(s *suite) {
	take := func() ([]backend.Message, error) {
		return s.UpdateMessages(s.ctx, jobs, backend.Attributes{Hide: time.Hour}, long(backend.Match{Limit: 1}))
	}
	first, second := s.later(take), s.later(take)
	s.put(jobs, backend.Attributes{}, "1")
	var got outcome
	select {
	case got = <-first:
		first = second
	case got = <-second:
	case <-s.ctx.Done():
		s.Fatal("no worker got the message")
	}
	if got.err != nil || got.ids != "1 " {
		s.Fatalf("one worker got %+v", got)
	}
	s.put(jobs, backend.Attributes{}, "2")
	if got = s.end(first); got.err != nil || got.ids != "2 " {
		s.Errorf("the other worker got %+v", got)
	}
}

func closed(s *suite) {
	s.put(jobs, backend.Attributes{Hide: time.Hour}, "m")
	if err := s.Ping(s.ctx); err != nil {
		s.Errorf("Ping = %v", err)
	}
	call := s.later(func() ([]backend.Message, error) { return s.DeleteMessages(s.ctx, jobs, long(backend.Match{})) })
	s.pass(time.Second)
	if err := s.Close(); err != nil {
		s.Errorf("Close = %v", err)
	}
	s.wantErr("the call that waited", s.end(call).err, backend.ErrClosed)
	_, err := s.Put(s.ctx, key(jobs, "2"), nil, backend.Attributes{})
	s.wantErr("Put", err, backend.ErrClosed)
	_, err = backend.Collect(s.Messages(s.ctx, jobs, backend.Match{}))
	s.wantErr("Messages", err, backend.ErrClosed)
	_, err = s.Accounts(s.ctx, backend.Names{})
	s.wantErr("Accounts", err, backend.ErrClosed)
	s.wantErr("Ping", s.Ping(s.ctx), backend.ErrClosed)
	if err := s.Close(); err != nil {
		s.Errorf("Close again = %v", err)
	}
}
