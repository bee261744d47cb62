package main

import (
	"time"
)

// clockTime is how much later than it says an item may expire: the engine counts milliseconds.
const clockTime = 2 * time.Millisecond

// mayTimeOut reports whether an open read of a queue may end by itself. The caller holds mu.
func (l *ledger) mayTimeOut(queue string) bool { return queue == "timeout" }

// expiry is when an item that was put at a time expires; zero if never. The caller holds mu.
func (l *ledger) expiry(e *entry, put time.Time) time.Time {
	life := e.life
	if age := l.set.For(e.queue).MaxAge; age > 0 && (life == 0 || age < life) {
		life = age
	}
	if life == 0 || put.IsZero() {
		return time.Time{}
	}
	return put.Add(life)
}

// hasExpired reports whether an item that was put had expired at a time, for certain. The caller holds mu.
func (l *ledger) hasExpired(e *entry, t time.Time) bool {
	at := l.expiry(e, e.ended)
	return !at.IsZero() && !l.stepped && at.Add(clockTime).Before(t)
}

// mayHaveExpired reports whether it may have expired by now. The caller holds mu.
func (l *ledger) mayHaveExpired(e *entry) bool {
	at := l.expiry(e, e.started)
	return !at.IsZero() && (l.stepped || at.Before(l.now()))
}
