package item

import (
	"math/bits"
	"sync/atomic"
)

// Chunk has item images, oldest first: the unit in which a queue's memory is taken, given
// back, and moved to disk. The images hold no pointers, so the collector does not look into them.
type Chunk struct {
	Buf     []byte // written part; its capacity is the chunk's size
	Off     int    // where its first item is; the head of a window leaves that to the window
	FirstID uint64 // of the item at off; see window for the others
	LastID  uint64 // of the last item; not up to date in the tail of a window
	Tally          // with the items in front of off, unless the chunk is detached
	next    *Chunk
	holes   int     // bytes of it, of items that were cut out
	rich    bool    // it has, or had, items that are not plain
	arena   *Arena  // that the memory is from; nil if it is Go's
	shared  *Shared // with others; nil: the memory is the chunk's own
	index   *index  // nil until somebody looks for an item in its middle
}

// Chunks come in sizes 4^k KiB, so that a queue with a few items does not pay for a busy one. The largest come from
// an arena. An item that does not fit the largest has a chunk of its own.
const (
	MinChunkSize = 1 << 10
	MaxChunkSize = 256 << 10
	chunkClasses = 5
)

func chunkClassSize(class int) int { return MinChunkSize << (2 * class) }

// chunkClass is the class of the smallest chunks with room for n bytes, or -1 for an item that gets
// one of its own.
func chunkClass(n int) int {
	if n > MaxChunkSize {
		return -1
	}
	if n <= MinChunkSize {
		return 0
	}
	return (bits.Len(uint(n-1)) - 10 + 1) / 2
}

// Pool keeps the chunks of one shard that are not in use. The shard's mutex guards it.
type Pool struct {
	Memory *atomic.Int64 // bytes in use by items of the whole engine
	Arena  *Arena        // has the largest chunks
	Free   freeList
	chunks [chunkClasses - 1]*Chunk // free, by class
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

// Take returns an empty chunk with room for n bytes, at least as large as the class asks.
func (p *Pool) Take(class, n int) *Chunk {
	if need := chunkClass(n); need < 0 || class < need {
		class = need
	}
	if class < 0 {
		p.Memory.Add(int64(n))
		return &Chunk{Buf: make([]byte, 0, n)}
	}
	size := chunkClassSize(class)
	p.Memory.Add(int64(size))
	if size == MaxChunkSize {
		return p.Arena.take()
	}
	c := p.chunks[class]
	if c == nil {
		return &Chunk{Buf: make([]byte, 0, size)}
	}
	p.chunks[class], c.next = c.next, nil
	p.Free.Reuse(size)
	return c
}

// Give takes a chunk back. Nothing may refer to its bytes any more.
func (p *Pool) Give(c *Chunk) {
	if c.index != nil {
		p.Memory.Add(-c.index.size())
		c.index = nil
	}
	if s := c.shared; s != nil {
		if s.Drop() {
			p.Memory.Add(-s.Size)
		}
		return
	}
	size := cap(c.Buf)
	p.Memory.Add(int64(-size))
	if c.arena != nil {
		c.arena.give(c)
		return
	}
	class := chunkClass(size)
	if class < 0 || chunkClassSize(class) != size || !p.Free.Store(size) {
		return
	}
	*c = Chunk{Buf: c.Buf[:0], next: p.chunks[class]}
	p.chunks[class] = c
}

// Unused is how many bytes of chunks are not in use. It walks through all of them: tests of the engine compare it with
// what Free accounts for.
func (p *Pool) Unused() (bytes int64) {
	for _, c := range p.chunks {
		for ; c != nil; c = c.next {
			bytes += int64(cap(c.Buf))
		}
	}
	return bytes
}

// Trim leaves the collector the largest chunk that fits into what was not needed since the last trim. So a burst does
// not take memory for ever. It reports whether there was one.
func (p *Pool) Trim() bool {
	for class := len(p.chunks) - 1; class >= 0; class-- {
		c, size := p.chunks[class], chunkClassSize(class)
		if c != nil && p.Free.IsIdle(size) {
			p.chunks[class] = c.next
			p.Free.Release(size)
			return true
		}
	}
	return false
}
