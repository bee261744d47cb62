package journal

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
	began  time.Time        // of the sync under way; zero without one; guarded by mu
	spent  time.Duration    // by all syncs that have ended; guarded by mu
	failed map[string]int64 // by class; guarded by mu
	took   histogram.Counts // µs; guarded by mu
	late   histogram.Counts // µs; guarded by mu
}

// count takes in a sync that took d.
func (s *syncStats) count(d time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Time{}
	s.spent += d
	s.took.Record(d.Microseconds(), 1)
	if err == nil {
		return
	}
	if s.failed == nil {
		s.failed = make(map[string]int64)
	}
	s.failed[errorClass(err)]++
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

// SyncMetrics returns how many µs each sync took, and how many µs later than its period the oldest write of
// each periodic sync was synced. Both are copies.
func (j *Journal) SyncMetrics() (took, late *histogram.Counts) {
	s := &j.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took.Clone(), s.late.Clone()
}

// begin notes that a sync begins, and returns when.
func (s *syncStats) begin() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Now()
	return s.began
}

// SyncTimes returns how many syncs have ended, how long they took together, and for how long one has been under
// way.
func (j *Journal) SyncTimes() (ended int64, took, underWay time.Duration) {
	s := &j.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.began.IsZero() {
		underWay = time.Since(s.began)
	}
	return s.took.Total(), s.spent, underWay
}

// SyncErrors returns how many syncs have failed, by the class of the error; nil if none has.
func (j *Journal) SyncErrors() map[string]int64 {
	s := &j.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.failed)
}

// syncLog syncs what the log has taken.
func (j *Journal) syncLog() error {
	began := j.syncs.begin()
	_, err := j.to.Sync()
	j.syncs.count(time.Since(began), err)
	if err != nil {
		return j.failed(err)
	}
	return nil
}
