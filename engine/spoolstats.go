package engine

import (
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/engine/histogram"
)

// spoolStats measures what the spool does.
type spoolStats struct {
	mu                   sync.Mutex
	spills, syncs, fills histogram.Counts // µs; guarded by mu
}

// took takes in that something of the kind that which chooses has taken since it began.
func (s *spoolStats) took(which *histogram.Counts, began time.Time) {
	n := time.Since(began).Microseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	which.Record(n, 1)
}

// BacklogMetrics are how many µs each step between memory and backlogs took, as copies.
type BacklogMetrics struct {
	Spills *histogram.Counts // writes of a batch of chunks
	Syncs  *histogram.Counts // syncs of what was written
	Fills  *histogram.Counts // reads of a frame, until it was checked and decompressed
	// Mapped and Direct are how many bytes were read back through maps, and past the page cache.
	Mapped, Direct int64
}

// BacklogMetrics describes the steps since the start.
func (e *Engine) BacklogMetrics() BacklogMetrics {
	defer contain()
	s := &e.spool.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	m := BacklogMetrics{Spills: s.spills.Clone(), Syncs: s.syncs.Clone(), Fills: s.fills.Clone()}
	if a := e.spool.ahead; a != nil {
		m.Mapped, m.Direct = a.Read()
	}
	return m
}
