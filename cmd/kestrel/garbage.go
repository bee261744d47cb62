package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// gcPercent is how much garbage the process may hold, in percent of what lives. What lives is
// items, in large blocks without pointers: a collection costs next to nothing, and serving
// allocates next to nothing, while Go's usual 100 would double the memory that max_memory_size asks
// for. See docs/decisions/0013-garbage.md.
const gcPercent = 20

// boundGarbage has the runtime collect garbage early, unless the operator has said when: GOGC
// counts.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// quiet says when a server gives back to the operating system what it has used and needs no more.
// The runtime keeps a third more than what lives, for allocations that an idle server does not
// make: with a hundred thousand idle queues that is some ten megabytes.
type quiet struct {
	seen     uint64 // bytes ever allocated, at the last look
	returned uint64 // … when memory was given back last
}

const (
	quietInterval = time.Minute // between looks
	quietBytes    = 8 << 20     // allocated between two looks at most: nothing but sweeps goes on
	worthBytes    = 16 << 20    // allocated since memory was given back: it is worth doing again
)

// due reports whether memory is to be given back now that so many bytes were ever allocated.
func (q *quiet) due(allocated uint64) bool {
	idle := allocated-q.seen < quietBytes
	q.seen = allocated
	if !idle || allocated-q.returned < worthBytes {
		return false
	}
	q.returned = allocated
	return true
}

// returnGarbage gives memory back at once, if the start has left enough garbage, and whenever the
// server has become quiet, until done is closed.
func returnGarbage(done <-chan struct{}) {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	q := quiet{seen: sample[0].Value.Uint64()}
	if q.due(q.seen) {
		debug.FreeOSMemory()
	}
	tick := time.NewTicker(quietInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if metrics.Read(sample); q.due(sample[0].Value.Uint64()) {
				debug.FreeOSMemory()
			}
		}
	}
}
