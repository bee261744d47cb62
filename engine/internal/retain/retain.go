package retain

import (
	"sync"
	"sync/atomic"
)

// Files is what a backup retains: segments of the journal, and all runs. The zero Files retains nothing. Any goroutine
// may use it.
type Files struct {
	sync.Mutex      // held while segments are dropped
	running    bool // guarded by the mutex
	// oldest is the first segment that is not copied yet, 0 if all are. Written with the mutex held.
	oldest atomic.Uint64
	// Runs says that no run may be removed.
	Runs atomic.Bool
}

// Begin retains every segment from now on. It reports false if another backup does already.
func (f *Files) Begin() bool {
	f.Lock()
	defer f.Unlock()
	if f.running {
		return false
	}
	f.running = true
	f.oldest.Store(1)
	return true
}

// End retains nothing any more.
func (f *Files) End() {
	f.Lock()
	defer f.Unlock()
	f.oldest.Store(0)
	f.Runs.Store(false)
	f.running = false
}

// Segments returns up to where segments may be dropped that are not needed before needed. The caller has locked f.
func (f *Files) Segments(needed uint64) uint64 {
	if n := f.oldest.Load(); n > 0 {
		return min(needed, n)
	}
	return needed
}

// SegmentsTo is Segments for a caller that has not locked f.
func (f *Files) SegmentsTo(needed uint64) uint64 {
	f.Lock()
	defer f.Unlock()
	return f.Segments(needed)
}

// HasSegments reports whether segments are retained.
func (f *Files) HasSegments() bool { return f.oldest.Load() > 0 }

// SegmentsFrom retains the segments from oldest on; 0 retains none.
func (f *Files) SegmentsFrom(oldest uint64) {
	f.Lock()
	defer f.Unlock()
	f.oldest.Store(oldest)
}
