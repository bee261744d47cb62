package engine

import (
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/list"
)

// alarmed is what the alarm knows of a queue.
type alarmed struct {
	at    Time // when it rings for the queue; zero: never. The shard's mutex guards it
	place int  // in the alarm's queues. The alarm's mutex guards it
}

// alarm wakes queues in which something is due, on a goroutine of its own. The goroutine that sets an earlier instant
// notifies it. Its mutex is taken inside a shard's.
type alarm struct {
	mu     sync.Mutex
	queues list.Heap[queue] // by when it rings for them
	sooner chan struct{}    // capacity 1: the earliest instant is another one
}

// nextDue is when something of q is due, or to be read back because it soon is; zero for never.
func (e *Engine) nextDue(q *queue) (at Time) {
	_, at, _ = q.aside.FirstDue()
	if r, lapses := q.aside.held.First(); r != nil && (at == 0 || Time(lapses) < at) {
		at = Time(lapses)
	}
	if soon := e.hiddenSoon(q); soon != 0 && (at == 0 || soon < at) {
		at = soon
	}
	return at
}

// setAlarm has the alarm ring for q when something is due, unless it rings earlier. The caller holds the shard's mutex.
func (e *Engine) setAlarm(q *queue) {
	if at := e.nextDue(q); at != 0 && (q.aside.at == 0 || at < q.aside.at) && !q.deleted {
		e.setAlarmAt(q, at)
	}
}

// setAlarmAt has the alarm ring for q at an instant and at no other.
func (e *Engine) setAlarmAt(q *queue, at Time) {
	a := &e.alarm
	q.aside.at = at
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queues.Set(q, int64(at), &q.aside.place)
	if first, _ := a.queues.First(); first == q {
		signal(a.sooner)
	}
}

// clearAlarm has the alarm forget q, which is deleted. The caller holds the shard's mutex.
func (e *Engine) clearAlarm(q *queue) {
	if q.aside == nil {
		return
	}
	a := &e.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queues.Remove(&q.aside.place)
	q.aside.at = 0
}

// take returns a queue in which something is due, or how long that takes; an hour if nothing is.
func (a *alarm) take(now Time) (q *queue, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q, at := a.queues.First()
	if q == nil {
		return nil, time.Hour
	}
	if at := Time(at); at >= now {
		return nil, min(time.Duration(at-now+1)*time.Millisecond, time.Hour)
	}
	a.queues.Remove(&q.aside.place)
	return q, 0
}
