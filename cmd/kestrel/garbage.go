package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcPercent is how much garbage the process may hold, in percent of what lives. Go's usual 100
	// would double what a hundred thousand queues take.
	gcPercent = 20

	// gcBytes is how much garbage it may hold however little lives. Items lie outside of Go's heap,
	// which then is some megabytes. Under load it grows by 20 percent twice a second. A collection
	// takes some milliseconds from the event loops where there are few processors.
	gcBytes = 8 << 20

	// gcLeast is what the runtime takes for alive at least, in bytes (runtime/debug.SetGCPercent).
	gcLeast = 4 << 20
)

// pacer decides when garbage is collected, anew after each collection. See
// docs/decisions/0019-rare-collections.md.
type pacer struct {
	live    []metrics.Sample // bytes that the last collection has found alive
	percent int
}

// boundGarbage has the runtime collect garbage early, but not often, unless the operator has said
// when: GOGC counts.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		newPacer().adjust()
	}
}

func newPacer() *pacer {
	return &pacer{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
}

// adjust decides when the next collection is due, and is called again after it, by the runtime.
func (p *pacer) adjust() {
	metrics.Read(p.live)
	if percent := percentFor(p.live[0].Value.Uint64()); percent != p.percent { // or the world need not stop
		debug.SetGCPercent(percent)
		p.percent = percent
	}
	cycle := &struct{ *pacer }{} // garbage: the next collection finds it
	runtime.AddCleanup(cycle, (*pacer).adjust, p)
}

// percentFor returns how much garbage there may be beside so many bytes that live.
func percentFor(live uint64) int {
	return int(max(gcPercent, gcBytes*100/max(live, gcLeast)))
}

// quiet says when a server gives back to the operating system what it has used and needs no more. The runtime keeps a
// third more than what lives, for allocations that an idle server does not make. With a hundred thousand idle queues
// that is some ten megabytes.
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
