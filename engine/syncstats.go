package engine

import (
	"errors"
	"maps"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/engine/histogram"
)

// syncStats measures the journal's syncs.
type syncStats struct {
	mu     sync.Mutex
	failed map[string]int64 // by class; guarded by mu
	took   histogram.Counts // µs; guarded by mu
	late   histogram.Counts // µs; guarded by mu
}

// count takes in a sync that took d.
func (s *syncStats) count(d time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took.Record(d.Microseconds(), 1)
	if err == nil {
		return
	}
	if s.failed == nil {
		s.failed = make(map[string]int64)
	}
	s.failed[errorClass(err)]++
}

// failures returns how many syncs have failed, by class; nil if none has.
func (s *syncStats) failures() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.failed)
}

// errorClass is the name of the operating system's error that err wraps, or "other".
func errorClass(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return "other"
}

// countLate takes in a periodic sync that ended d after its time; before it, if d is negative.
func (s *syncStats) countLate(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late.Record(d.Microseconds(), 1)
}

// SyncMetrics returns how many µs each sync of the journal took, and how many µs later than the
// period of its queue the oldest write of each periodic sync was synced. Both are copies.
func (e *Engine) SyncMetrics() (took, late *histogram.Counts) {
	defer contain()
	s := &e.journal.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took.Clone(), s.late.Clone()
}

// syncLog syncs what the log has taken.
func (j *journal) syncLog() error {
	began := time.Now()
	_, err := j.log.Sync()
	j.syncs.count(time.Since(began), err)
	if err != nil {
		return j.failed(err)
	}
	return nil
}
