package item

import (
	"bytes"
	"sync"
	"testing"
)

// TestArena tests that chunks are handed out once, used again, and that release leaves those alone
// that are needed.
func TestArena(t *testing.T) {
	a := NewArena(4 * MaxChunkSize * freeShare)
	if a.keep != 4 {
		t.Fatalf("keeps %d chunks, want 4", a.keep)
	}
	take := func(n int) (chunks []*Chunk) {
		seen := make(map[*byte]bool)
		for i := range n {
			c := a.take()
			if len(c.Buf) != 0 || cap(c.Buf) != MaxChunkSize || c.next != nil || c.Tally != (Tally{}) {
				t.Fatalf("chunk %d is not an empty one of %d bytes", i, MaxChunkSize)
			}
			c.Buf = c.Buf[:MaxChunkSize]
			if seen[&c.Buf[0]] {
				t.Fatalf("chunk %d was handed out before", i)
			}
			seen[&c.Buf[0]] = true
			chunks = append(chunks, c)
		}
		return chunks
	}
	give := func(chunks []*Chunk) {
		for _, c := range chunks {
			c.Count, c.next = 1, c
			c.Buf[0], c.Buf[MaxChunkSize-1] = 1, 1
			a.give(c)
		}
	}
	free := func(want int, when string) {
		t.Helper()
		if len(a.free) != want {
			t.Errorf("%s %d chunks are free, want %d", when, len(a.free), want)
		}
	}

	give(take(2*slabChunks + 1))
	free(2*slabChunks+1, "after all were given back")
	a.Release()
	free(2*slabChunks+1, "within a second of their use")
	give(take(3))
	a.Release()
	free(4+3, "of those that were not needed for a second")
	for _, c := range a.released {
		if b := c.Buf[:MaxChunkSize]; len(bytes.TrimRight(b, "\x00")) > 0 {
			t.Fatal("a chunk that was released has still its memory")
		}
	}
	total := len(a.free) + len(a.released)
	if total != 3*slabChunks {
		t.Errorf("%d chunks are there, want 3 slabs of %d", total, slabChunks)
	}
	give(take(total))
	free(total, "after all were in use again")
	for range total {
		a.Release()
	}
	free(0, "after a long time without use")
}

// TestArenaShared has several goroutines use an arena at once; each finds what it has written.
func TestArenaShared(t *testing.T) {
	a := NewArena(4 * MaxChunkSize * freeShare)
	var wg sync.WaitGroup
	for id := range byte(4) {
		wg.Go(func() {
			for range 500 {
				var mine []*Chunk
				for range 5 {
					c := a.take()
					c.Buf = append(c.Buf, bytes.Repeat([]byte{id}, 9)...)
					mine = append(mine, c)
				}
				for _, c := range mine {
					if !bytes.Equal(c.Buf, bytes.Repeat([]byte{id}, 9)) {
						t.Errorf("goroutine %d finds % x in its chunk", id, c.Buf)
					}
					a.give(c)
				}
				a.Release()
			}
		})
	}
	wg.Wait()
}
