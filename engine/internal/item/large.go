package item

import "sync/atomic"

// IsLarge reports whether an item with that many bytes of data has a chunk of its own.
func IsLarge(n int) bool { return n > MaxChunkSize }

// Shared counts the users of memory that holds the image of a large item: chunks, and a frame of the
// journal. The memory is counted once, and the last holder that drops it gives it back. Any goroutine may use it.
type Shared struct {
	Size  int64 // bytes
	users atomic.Int32
}

// Use adds a user.
func (s *Shared) Use() { s.users.Add(1) }

// Drop ends what Use began, and reports whether nobody uses the memory any more.
func (s *Shared) Drop() (last bool) { return s.users.Add(-1) == 0 }

// NewLarge returns a chunk that uses s, which holds image. Nobody changes image any more.
func NewLarge(image []byte, s *Shared) *Chunk {
	s.Use()
	return &Chunk{Buf: image[:len(image):len(image)], shared: s}
}

// PushLarge is Push of an item whose image is in c, a chunk that NewLarge has made.
func (w *Window) PushLarge(c *Chunk, it Item) {
	c.FirstID, c.rich = it.ID, !it.IsPlain()
	w.link(c)
	c.Account(&it, 1)
	w.nextID = it.ID + 1
	w.Account(&it, 1)
}
