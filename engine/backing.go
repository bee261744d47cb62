package engine

import (
	"sync"
	"sync/atomic"
)

// backing is what a backup keeps from being removed.
type backing struct {
	mu      sync.Mutex // held while segments are dropped; no shard or log is locked before
	running bool       // guarded by mu
	// oldest is the first segment that is not copied yet, 0 if all are. Written with mu held.
	oldest atomic.Uint64
	// runs says that no run may be removed. Set with recordMu of the spool held.
	runs atomic.Bool
}

// segments returns up to where segments may be dropped that are not needed before needed. The caller
// holds mu.
func (b *backing) segments(needed uint64) uint64 {
	if n := b.oldest.Load(); n > 0 {
		return min(needed, n)
	}
	return needed
}

// segmentsTo is segments for those who have not locked mu.
func (b *backing) segmentsTo(needed uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.segments(needed)
}

func (b *backing) holdsSegments() bool { return b.oldest.Load() > 0 }

// keepSegments keeps the segments from oldest on; 0 keeps none.
func (b *backing) keepSegments(oldest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.oldest.Store(oldest)
}

// begin keeps every segment from now on. It reports false if another backup does already.
func (b *backing) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return false
	}
	b.running = true
	b.oldest.Store(1)
	return true
}
