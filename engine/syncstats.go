package engine

import (
	"errors"
	"maps"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// syncStats counts the journal's failed syncs, by class.
type syncStats struct {
	mu     sync.Mutex
	failed map[string]int64 // guarded by mu
}

// count takes in the outcome of a sync.
func (s *syncStats) count(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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

// syncLog syncs what the log has taken.
func (j *journal) syncLog() error {
	_, err := j.log.Sync()
	j.syncs.count(err)
	if err != nil {
		return j.failed(err)
	}
	return nil
}
