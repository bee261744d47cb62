package netloop

import (
	"sync/atomic"
	"time"
)

const (
	// slowSync is how long a sync takes at least that no loop waits for.
	slowSync = time.Millisecond
	// quickSyncs says when loops wait for syncs again: after so many quicker ones in a row, for each slowSync that the
	// slow one took.
	quickSyncs = 16
)

// inlineSync decides whether loops wait for syncs themselves. With one processor that saves two switches between
// goroutines for each sync. Nothing else could run meanwhile except what is sent while the disk works, so it pays while
// syncs are quick. A slow one would keep every client of the loop waiting. After one, the syncer waits for syncs until
// the disk has proven itself: the longer the slow one took, the longer. Any goroutine may use it.
type inlineSync struct {
	allowed bool          // there is one processor; never changes while loops run
	slow    time.Duration // slowSync; never changes while loops run
	doubts  atomic.Int64  // quick syncs that are wanted first
}

// now reports whether a loop may wait for the sync that comes next.
func (i *inlineSync) now() bool { return i.allowed && i.doubts.Load() == 0 }

// took notes how long a sync took, no matter which goroutine waited for it.
func (i *inlineSync) took(d time.Duration) {
	switch doubts := i.doubts.Load(); {
	case d >= i.slow:
		i.doubts.Store(max(doubts, int64(d/i.slow)*quickSyncs))
	case doubts > 0:
		i.doubts.Add(-1)
	}
}
