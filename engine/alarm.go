package engine

import (
	"container/heap"
	"sync"
	"time"
)

// alarmed is what the alarm knows of a queue.
type alarmed struct {
	at    Time // when it rings for the queue; zero: never. The shard's mutex guards it
	place int  // in the alarm's queues, plus one; zero: not there. The alarm's mutex guards it
}

// alarm wakes queues in which something is due, on a goroutine of its own. The goroutine that sets an earlier instant
// notifies it. Its mutex is taken inside a shard's.
type alarm struct {
	mu     sync.Mutex
	queues alarmHeap
	sooner chan struct{} // capacity 1: the earliest instant is another one
}

type alarmHeap []alarmEntry

type alarmEntry struct {
	at Time
	q  *queue
}

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].q.aside.place, h[j].q.aside.place = i+1, j+1
}

func (h *alarmHeap) Push(x any) {
	entry := x.(alarmEntry)
	entry.q.aside.place = len(*h) + 1
	*h = append(*h, entry)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	entry := (*h)[last]
	(*h)[last] = alarmEntry{}
	entry.q.aside.place = 0
	*h = (*h)[:last]
	return entry
}

// nextDue is when something of q is due, or to be read back because it soon is; zero for never.
func (e *Engine) nextDue(q *queue) (at Time) {
	_, at, _ = q.aside.FirstDue()
	if r := q.aside.held.first(); r != nil && (at == 0 || r.deadline < at) {
		at = r.deadline
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
	if i := q.aside.place - 1; i >= 0 {
		a.queues[i].at = at
		heap.Fix(&a.queues, i)
	} else {
		heap.Push(&a.queues, alarmEntry{at, q})
	}
	if a.queues[0].q == q {
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
	if i := q.aside.place - 1; i >= 0 {
		heap.Remove(&a.queues, i)
	}
	q.aside.at = 0
}

// take returns a queue in which something is due, or how long that takes; an hour if nothing is.
func (a *alarm) take(now Time) (q *queue, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queues) == 0 {
		return nil, time.Hour
	}
	if first := a.queues[0]; first.at >= now {
		return nil, min(time.Duration(first.at-now+1)*time.Millisecond, time.Hour)
	}
	return heap.Pop(&a.queues).(alarmEntry).q, 0
}
