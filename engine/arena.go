package engine

import (
	"runtime"
	"slices"
	"sync"
)

// arena is where the chunks of the largest size come from. Their memory lies outside of Go's heap,
// so that queues that fill and empty make no garbage, and what is given back to the kernel is gone
// from the process at once. What it has mapped is unmapped when it and all of its chunks are garbage.
//
// Any goroutine may use it. Its mutex is taken inside those of shards, and held for memory only.
type arena struct {
	keep int // how many free chunks there may be for some time; never changes

	mu       sync.Mutex
	free     []*chunk // the one given last at the end
	least    int      // the fewest that were free since the last release
	released []*chunk // free too, but the kernel has taken their memory
}

// slabChunks is for how many chunks an arena maps addresses at a time. They take memory when they
// are used.
const slabChunks = 16

func newArena(memoryLimit int64) *arena {
	return &arena{keep: int(maxFree(memoryLimit) / maxChunkSize)}
}

// take returns an empty chunk.
func (a *arena) take() (c *chunk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.free); n > 0 {
		c, a.free = a.free[n-1], a.free[:n-1]
		a.least = min(a.least, n-1)
		return c
	}
	if len(a.released) == 0 {
		a.extend()
	}
	n := len(a.released)
	c, a.released = a.released[n-1], a.released[:n-1]
	return c
}

// extend maps a slab. The caller holds mu.
func (a *arena) extend() {
	slab, mapping := mapMemory(slabChunks * maxChunkSize)
	if mapping != nil {
		runtime.AddCleanup(a, unmapMemory, mapping)
	}
	for buf := range slices.Chunk(slab, maxChunkSize) {
		a.released = append(a.released, &chunk{buf: buf[:0], arena: a})
	}
}

// give takes a chunk back. Nothing may refer to its bytes any more.
func (a *arena) give(c *chunk) {
	*c = chunk{buf: c.buf[:0], arena: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, c)
}

// release gives memory of chunks that nobody has needed since it was called last back to the kernel:
// what is more than the arena keeps, or else a sixteenth, so that a burst is over some time after
// its last chunk. It is called once a second.
func (a *arena) release() {
	a.mu.Lock()
	n := max(a.least-a.keep, (a.least+15)/16)
	idle := slices.Clone(a.free[:n])
	a.free = slices.Delete(a.free, 0, n)
	a.least = len(a.free)
	a.mu.Unlock()
	for _, c := range idle {
		releaseMemory(c.buf[:maxChunkSize])
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = append(a.released, idle...)
}
