package item

import (
	"runtime"
	"slices"
	"sync"
)

// Arena is where the chunks of the largest size come from. Their memory lies outside of Go's heap. So queues that fill
// and empty make no garbage, and what is given back to the kernel leaves the process at once. What it has mapped is
// unmapped when it and all of its chunks are garbage.
//
// Any goroutine may use it. Its mutex is taken inside those of shards, and held for memory only.
type Arena struct {
	keep int // how many free chunks there may be for some time; never changes

	mu       sync.Mutex
	free     []*Chunk // the one given last at the end
	least    int      // the fewest that were free since the last release
	released []*Chunk // free too, but the kernel has taken their memory
}

// slabChunks is for how many chunks an arena maps addresses at a time. They take memory when they
// are used.
const slabChunks = 16

// NewArena returns an empty arena for an engine with that memory limit, in bytes.
func NewArena(memoryLimit int64) *Arena {
	return &Arena{keep: int(MaxFree(memoryLimit) / MaxChunkSize)}
}

// take returns an empty chunk.
func (a *Arena) take() (c *Chunk) {
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
func (a *Arena) extend() {
	slab, mapping := mapMemory(slabChunks * MaxChunkSize)
	if mapping != nil {
		runtime.AddCleanup(a, unmapMemory, mapping)
	}
	for buf := range slices.Chunk(slab, MaxChunkSize) {
		a.released = append(a.released, &Chunk{Buf: buf[:0], arena: a})
	}
}

// give takes a chunk back. Nothing may refer to its bytes any more.
func (a *Arena) give(c *Chunk) {
	*c = Chunk{Buf: c.Buf[:0], arena: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, c)
}

// Release gives the kernel back memory of chunks that nobody has needed since the last call. That is all beyond what
// the arena keeps, or else a sixteenth. So the memory of a burst is back some time after its last chunk. It is called
// once a second.
func (a *Arena) Release() {
	a.mu.Lock()
	n := max(a.least-a.keep, (a.least+15)/16)
	idle := slices.Clone(a.free[:n])
	a.free = slices.Delete(a.free, 0, n)
	a.least = len(a.free)
	a.mu.Unlock()
	for _, c := range idle {
		releaseMemory(c.Buf[:MaxChunkSize])
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.released = append(a.released, idle...)
}
