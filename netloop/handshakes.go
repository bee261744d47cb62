package netloop

import (
	"container/list"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// This file has the TLS handshakes of a server, and bounds how many are under way.

const (
	// handshakeTime is how long a handshake may take.
	handshakeTime = 10 * time.Second
	// maxHandshakes is how many there may be at once. Another one takes the place of the oldest: an honest client
	// needs milliseconds, so the oldest is the least likely to be one.
	maxHandshakes = 1024
	// handshakeSize is about how many bytes of memory one takes.
	handshakeSize = 64 << 10
)

// handshakes are the TLS handshakes of a server that are under way, each on a goroutine of its own.
type handshakes struct {
	slots  chan struct{} // held by those that compute, and do not wait for their peers
	ended  sync.WaitGroup
	failed logPace
	passed atomic.Int64

	mu   sync.Mutex
	open list.List // of context.CancelFunc, oldest first; guarded by mu
}

// handshakeSlots is how many handshakes compute at once: half of the processors. So a flood of them leaves the others
// to known clients. Start raises GOMAXPROCS, and New asks this before.
func handshakeSlots() int { return max(min(runtime.NumCPU(), runtime.GOMAXPROCS(0))/2, 1) }

// enter counts a handshake, and ends the oldest if there are too many. The handshake ends when ctx does, and must
// call leave.
func (h *handshakes) enter(parent context.Context) (ctx context.Context, leave func()) {
	ctx, cancel := context.WithTimeout(parent, handshakeTime)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open.Len() >= maxHandshakes {
		oldest := h.open.Front()
		h.open.Remove(oldest).(context.CancelFunc)()
	}
	place := h.open.PushBack(cancel)
	return ctx, func() {
		h.mu.Lock()
		h.open.Remove(place) // of no effect if it is not in the list any more
		h.mu.Unlock()
		cancel()
	}
}

// count is how many there are.
func (h *handshakes) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open.Len()
}
