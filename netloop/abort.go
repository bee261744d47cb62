package netloop

import "github.com/kestrelmq/kestrel/engine"

// abortPiece is how many reads a loop brings back itself, for one request or the end of one session. A job
// brings more back.
const abortPiece = confirmPiece

// maxDropped is how many reads of how many queues a loop brings back at most when a session ends.
const maxDropped = 4 * abortPiece

// dropReads brings the open reads of a session that has ended back to their queues. A job does what would
// take long. A fetch from a queue waits until all of its reads are back.
func (l *loop) dropReads(s *session) {
	var later [][]engine.ReadRef
	dropped := 0
	s.reads.takeAll(func(refs []engine.ReadRef) {
		if dropped < maxDropped {
			dropped += min(len(refs), abortPiece)
			l.counters.ReadsDropped += l.bringBack(refs)
			return
		}
		later = append(later, refs) // of more queues than there is time for
	})
	if later != nil {
		l.background(func() {
			for _, refs := range later {
				l.server.droppedLater.Add(int64(l.engine.AbortAll(engine.Now(), refs)))
			}
		})
	}
}

// bringBack brings open reads of one queue back to it, and leaves many to a job. It returns how many it has
// ended itself.
func (l *loop) bringBack(refs []engine.ReadRef) int64 {
	ended, others := l.engine.AbortFirst(l.now, refs)
	if others != nil {
		l.background(func() { l.server.droppedLater.Add(int64(others())) })
	}
	return int64(ended)
}

// background runs f on a goroutine of its own, before the server ends.
func (l *loop) background(f func()) {
	l.server.jobs.Add(1)
	go func() {
		defer l.server.jobs.Done()
		f()
	}()
}
