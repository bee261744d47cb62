package alarm

import (
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/list"
)

// Alarm has values by when it rings for them. One goroutine waits for it. The one that sets an earlier instant notifies
// that. Any goroutine may use it.
type Alarm[T any] struct {
	mu     sync.Mutex
	values list.Heap[T]
	sooner chan struct{} // capacity 1
}

// Place is where a value is in an Alarm, which guards it. The zero Place is nowhere.
type Place struct{ at int }

// New returns an Alarm that rings for nothing.
func New[T any]() *Alarm[T] { return &Alarm[T]{sooner: make(chan struct{}, 1)} }

// Sooner receives when the earliest instant has become another one.
func (a *Alarm[T]) Sooner() <-chan struct{} { return a.sooner }

// Set has the alarm ring for a value at an instant and at no other. The value keeps its place.
func (a *Alarm[T]) Set(v *T, at item.Time, p *Place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.values.Set(v, int64(at), &p.at)
	if first, _ := a.values.First(); first == v {
		select {
		case a.sooner <- struct{}{}:
		default: // a wake-up that is still pending is enough
		}
	}
}

// Clear has the alarm forget the value of a place.
func (a *Alarm[T]) Clear(p *Place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.values.Remove(&p.at)
}

// Take returns a value in which something is due, and forgets it; or how long that takes, an hour if nothing is.
func (a *Alarm[T]) Take(now item.Time) (v *T, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, at := a.values.First()
	if v == nil {
		return nil, time.Hour
	}
	if at := item.Time(at); at >= now {
		return nil, min(time.Duration(at-now+1)*time.Millisecond, time.Hour)
	}
	a.values.RemoveFirst()
	return v, 0
}

// Clock is the present in milliseconds, and what has passed of that.
type Clock func() (item.Time, time.Duration)

// NewClock returns a Clock that begins with the clock of the wall, which may be set, and goes on with the monotonic one.
func NewClock() Clock {
	began := time.Now()
	first, part := item.At(began), time.Duration(began.Nanosecond())%time.Millisecond
	return func() (item.Time, time.Duration) {
		passed := part + time.Since(began)
		return first + item.Time(passed/time.Millisecond), passed % time.Millisecond
	}
}

// Now is the millisecond that it is.
func (c Clock) Now() item.Time {
	now, _ := c()
	return now
}

// In is the millisecond in which something is due, d from now: it is due when the clock has passed that. So it is never
// early, and late by a millisecond at most.
func (c Clock) In(d time.Duration) item.Time {
	now, part := c()
	return now.After(d + part)
}
