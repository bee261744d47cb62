package netloop

import "github.com/kestrelmq/kestrel/engine"

// This file brings the items of open reads back, for a request or when a session ends.

// abortPiece is how many reads a loop brings back itself, for one request or the end of one session. A job
// brings more back.
const abortPiece = confirmPiece

const (
	// maxDropped is how many reads a loop brings back at most when a session ends. A queue counts as dropSize more: it
	// takes as long to lock.
	maxDropped = 4 * abortPiece
	dropSize   = 15
)

// dropReads brings the open reads of a session that has ended back to their queues. A job does what would
// take long. A fetch from a queue waits until all of its reads are back.
func (l *loop) dropReads(s *session) {
	l.counters.ReadsDropped += l.bringBack(s, func(n int) { l.server.droppedLater.Add(int64(n)) })
}

// bringBack brings the open reads of a session back to their queues, and returns how many it has ended itself. Jobs bring
// back most reads of a queue that has many, and those of more queues than there is time for. They pass how many they have
// ended to later.
func (l *loop) bringBack(s *session, later func(ended int)) (ended int64) {
	queues, size := s.reads.takeAll()
	dropped := 0
	for name, q := range queues {
		if dropped >= maxDropped {
			break
		}
		dropped += min(q.len(), abortPiece) + dropSize
		n, others := l.engine.AbortFirst(l.now, q.refs[q.head:])
		ended += int64(n)
		if others != nil {
			l.background(func() { later(others()) })
		}
		delete(queues, name)
	}
	if len(queues) == 0 {
		return ended
	}
	l.engine.Account(int64(size))
	l.background(func() {
		defer l.engine.Account(-int64(size))
		for _, q := range queues {
			later(l.engine.AbortAll(engine.Now(), q.refs[q.head:]))
		}
	})
	return ended
}

// background runs f on a goroutine of its own, before the server ends.
func (l *loop) background(f func()) {
	l.server.jobs.Add(1)
	go func() {
		defer l.server.jobs.Done()
		f()
	}()
}
