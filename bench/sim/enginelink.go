package main

import (
	"context"
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// engineLink is a program that uses the engine as a library.
type engineLink struct {
	e     *engine.Engine
	reads map[*engine.Read]bool
}

func newEngineLink(e *engine.Engine) *engineLink {
	return &engineLink{e, make(map[*engine.Read]bool)}
}

// outcome translates an error of the engine.
func outcome(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrOutOfDisk):
		return errFull
	case errors.Is(err, engine.ErrJournal):
		return errUnsure
	case errors.Is(err, engine.ErrClosed):
		return errBroken
	case errors.Is(err, engine.ErrEmpty), errors.Is(err, engine.ErrReadEnded), errors.Is(err, engine.ErrBacklog),
		errors.Is(err, engine.ErrDeleted), errors.Is(err, context.DeadlineExceeded):
		return errNone
	}
	return errRefused
}

func (l *engineLink) queue(name string) *engine.Queue {
	q, err := l.e.Queue(name)
	if err != nil {
		panic(err)
	}
	return q
}

func (l *engineLink) put(queue string, life time.Duration, items [][]byte) (outcomes []error) {
	for _, data := range items {
		var o engine.PutOptions
		if life > 0 {
			o.Expiry = time.Now().Add(life)
		}
		outcomes = append(outcomes, outcome(l.queue(queue).Put(data, o)))
	}
	return outcomes
}

func (l *engineLink) take(queue string, wait time.Duration, n int) (got []handed, err error) {
	for range n {
		it, err := l.fetch(queue, wait, l.queue(queue).Get, l.queue(queue).TryGet)
		if it.Data != nil {
			got = append(got, handed{data: it.Data})
		}
		if err != nil {
			return got, outcome(err)
		}
	}
	return got, nil
}

func (l *engineLink) fetch(
	queue string, wait time.Duration, get func(context.Context) (engine.Item, error), try func() (engine.Item, error),
) (engine.Item, error) {
	if wait == 0 {
		return try()
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	return get(ctx)
}

func (l *engineLink) open(queue string, wait time.Duration) (handed, error) {
	q := l.queue(queue)
	var r *engine.Read
	var err error
	if wait == 0 {
		r, err = q.TryOpen()
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		r, err = q.Open(ctx)
	}
	if err != nil {
		return handed{}, outcome(err)
	}
	l.reads[r] = true
	return handed{data: r.Item.Data, id: r}, nil
}

func (l *engineLink) confirm(_ string, id any) error {
	r := id.(*engine.Read)
	delete(l.reads, r)
	err := r.Confirm()
	if err == engine.ErrReadEnded {
		return errRefused
	}
	return outcome(err)
}

func (l *engineLink) abort(_ string, id any) error {
	r := id.(*engine.Read)
	delete(l.reads, r)
	return outcome(r.Abort())
}

func (l *engineLink) closeOpen(queue string, id any, wait time.Duration) (handed, error) {
	if err := l.confirm(queue, id); err != nil {
		return handed{}, err
	}
	h, err := l.open(queue, wait)
	if err == errUnsure {
		err = errNone // that is about what was opened
	}
	return h, err
}

func (l *engineLink) peek(queue string) ([]byte, error) {
	it, err := l.queue(queue).Peek()
	return it.Data, outcome(err)
}

func (l *engineLink) flush(queue string) error  { return outcome(l.queue(queue).Flush()) }
func (l *engineLink) delete(queue string) error { return outcome(l.queue(queue).Delete()) }

func (l *engineLink) expire(queue string) error {
	_, err := l.queue(queue).FlushExpired()
	return outcome(err)
}

func (l *engineLink) stuff(string, int)                        {}
func (l *engineLink) kept() int                                { return 0 }
func (l *engineLink) blindPut(string, time.Duration, [][]byte) {}
func (l *engineLink) blindTake(string, int)                    {}

func (l *engineLink) reset(bool) {
	for r := range l.reads {
		r.Abort()
	}
	clear(l.reads)
}
