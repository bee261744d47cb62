package main

import (
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// severaler can fetch from several queues at once.
type severaler interface {
	// fetchAny takes, or opens, an item of the first queue that has one, and returns which queue that is.
	// It may return an item and an error.
	fetchAny(queues []string, open bool, wait time.Duration) (which int, h handed, err error)
}

// oneOf is an engine.AnyReceiver of one item.
type oneOf struct {
	one
	which int
}

func (r *oneOf) From(i int) { r.which = i }

func (l *engineLink) fetchAny(queues []string, open bool, wait time.Duration) (int, handed, error) {
	if open {
		return 0, handed{}, errRefused // the reads of this link are those of engine.Queue
	}
	names := make([][]byte, len(queues))
	for i, queue := range queues {
		names[i] = []byte(queue)
	}
	var got oneOf
	woken := make(wakes, 1)
	a := &engine.AnyWait{Notify: woken}
	f := engine.FetchRequest{Immediate: wait == 0}
	res, _, err := l.e.FetchAny(engine.Now(), names, f, a, &got)
	t := res.Ticket
	if err != nil {
		if !res.Waiting {
			return 0, handed{}, outcome(err)
		}
		if !wokenIn(wait, woken, func() bool { return l.e.CancelAny(a) }) {
			return 0, handed{}, errNone
		}
		which, ref, err := l.e.EndAny(a)
		if ref.IsZero() {
			return 0, handed{}, outcome(err)
		}
		var ok bool
		if t, ok = l.e.Collect(engine.Now(), ref, f, &got); !ok {
			return 0, handed{}, errUnsure
		}
		got.which = which
	}
	return got.which, handed{data: got.data}, outcome(l.e.Commit(t))
}

func (l *memcacheLink) fetchAny(queues []string, open bool, wait time.Duration) (int, handed, error) {
	name := []byte(queues[0])
	for _, queue := range queues[1:] {
		name = append(append(name, "/or="...), queue...)
	}
	err := l.outcome(l.ask(memcache.AppendGet(nil, name, memcache.GetOptions{Open: open, WaitMillis: millis(wait)})))
	for i, queue := range queues {
		if err == nil && queue == string(l.r.Queue) {
			return i, handed{data: l.r.Data}, nil
		}
	}
	return 0, handed{}, err
}
