package engine

import (
	"math/bits"
	"sync/atomic"
)

// chunk is a run of item images, oldest first: the unit in which a queue's memory is taken, given
// back, and moved to disk. The images hold no pointers, so the collector does not look into them.
type chunk struct {
	buf     []byte // written part; its capacity is the chunk's size
	off     int    // where its first item is, unless that is told by the window it is in
	firstID uint64 // of the item at off; see window for the others
	lastID  uint64 // of the last item; not up to date in the tail of a window
	tally          // with the items in front of off, unless the chunk is detached
	next    *chunk
	arena   *arena // that the memory is from; nil if it is Go's
}

// Chunks come in sizes 4^k KiB, so that a queue with a few items does not pay for a busy one; the
// largest come from an arena. An item that does not fit the largest has a chunk of its own.
const (
	minChunkSize = 1 << 10
	maxChunkSize = 256 << 10
	chunkClasses = 5
)

func chunkClassSize(class int) int { return minChunkSize << (2 * class) }

// chunkClass is the class of the smallest chunks with room for n bytes, or -1 for an item that gets
// one of its own.
func chunkClass(n int) int {
	if n > maxChunkSize {
		return -1
	}
	if n <= minChunkSize {
		return 0
	}
	return (bits.Len(uint(n-1)) - 10 + 1) / 2
}

// pool keeps the chunks of one shard that are not in use. The shard's mutex guards it.
type pool struct {
	memory *atomic.Int64 // bytes in use by items of the whole engine
	arena  *arena        // has the largest chunks
	free   freeList
	chunks [chunkClasses - 1]*chunk // free, by class
}

// chunkSize is the size of the chunk that take returns for a class and n bytes.
func chunkSize(class, n int) int {
	if need := chunkClass(n); need < 0 {
		return n
	} else if class < need {
		class = need
	}
	return chunkClassSize(class)
}

// take returns an empty chunk with room for n bytes, at least as large as the class asks.
func (p *pool) take(class, n int) *chunk {
	if need := chunkClass(n); need < 0 || class < need {
		class = need
	}
	if class < 0 {
		p.memory.Add(int64(n))
		return &chunk{buf: make([]byte, 0, n)}
	}
	size := chunkClassSize(class)
	p.memory.Add(int64(size))
	if size == maxChunkSize {
		return p.arena.take()
	}
	c := p.chunks[class]
	if c == nil {
		return &chunk{buf: make([]byte, 0, size)}
	}
	p.chunks[class], c.next = c.next, nil
	p.free.reuse(size)
	return c
}

// give takes a chunk back. Nothing may refer to its bytes any more.
func (p *pool) give(c *chunk) {
	size := cap(c.buf)
	p.memory.Add(int64(-size))
	if c.arena != nil {
		c.arena.give(c)
		return
	}
	class := chunkClass(size)
	if class < 0 || chunkClassSize(class) != size || !p.free.keep(size) {
		return
	}
	*c = chunk{buf: c.buf[:0], next: p.chunks[class]}
	p.chunks[class] = c
}

// kept is how many bytes of chunks are not in use.
func (p *pool) kept() (bytes int64) {
	for _, c := range p.chunks {
		for ; c != nil; c = c.next {
			bytes += int64(cap(c.buf))
		}
	}
	return bytes
}

// trim leaves the largest chunk to the collector that fits into what nobody has needed since the last
// trim, so that a burst does not take memory for ever. It reports whether there was one.
func (p *pool) trim() bool {
	for class := len(p.chunks) - 1; class >= 0; class-- {
		c, size := p.chunks[class], chunkClassSize(class)
		if c != nil && p.free.isIdle(size) {
			p.chunks[class] = c.next
			p.free.release(size)
			return true
		}
	}
	return false
}
