package runs

import (
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/segment"
)

const (
	// batchBuffer is the memory, in bytes, in which batches are put together: a huge page. What a batch with a
	// large item needs is kept for the next one up to maxBatchBuffer.
	batchBuffer    = 2 << 20
	maxBatchBuffer = 3 << 20
)

// A Batcher writes chunks to runs, one frame for each, in one write. It lends each run its buffer, so runs
// that wait for a sync need none. Its owner guards it; it may wait for the disk.
type Batcher struct {
	coder *segment.Coder
	buf   []byte // from one write to the next
	keys  keyindex.Gatherer
}

// NewBatcher returns a Batcher that compresses frames as codec says.
func NewBatcher(codec segment.Codec) *Batcher { return &Batcher{coder: segment.NewCoder(codec)} }

// Close gives up what compression needs.
func (b *Batcher) Close() { b.coder.Close() }

// Write writes chunks to w. It appends the offset of the frame of each chunk to starts, and the ids that
// chunks leave out to gaps. seed is that of the keys of the queue, or nil if no item of it has one.
func (b *Batcher) Write(
	w *segment.RunWriter, seed *keyindex.Seed, chunks []*item.Chunk, starts []int64, gaps idset.Set,
) ([]int64, idset.Set, error) {
	if b.buf == nil {
		b.buf = segment.BlockBuffer(batchBuffer)
	}
	w.Lend(b.buf)
	b.keys.Seed = seed
	defer func() {
		if b.buf = w.Reclaim(); cap(b.buf) > maxBatchBuffer {
			b.buf = nil
		}
	}()
	for _, c := range chunks {
		starts = append(starts, w.Add(b.coder, TagOf(c).Encode(), c.Compact(nil)))
		if uint64(c.Count) <= c.LastID-c.FirstID {
			gaps = appendGaps(gaps, c)
		}
		if seed != nil && c.IsRich() {
			b.noteKeys(c)
		}
	}
	b.keys.AddTo(w, b.coder)
	return starts, gaps, w.Write()
}

// noteKeys gathers the keys of a chunk.
func (b *Batcher) noteKeys(c *item.Chunk) {
	item.EachImage(c.Buf[c.Off:], c.FirstID, func(it item.Item) bool {
		if it.HasKey() {
			b.keys.Note(it.Key(), it.ID)
		}
		return true
	})
}

// TagOf is the tag of a frame with the items of c.
func TagOf(c *item.Chunk) Tag {
	return Tag{FirstID: c.FirstID, LastID: c.LastID, Count: c.Count, Bytes: c.Bytes}
}

// appendGaps appends the ids that a chunk leaves out.
func appendGaps(gaps idset.Set, c *item.Chunk) idset.Set {
	next := c.FirstID
	item.EachImage(c.Buf[c.Off:], c.FirstID, func(it item.Item) bool {
		if it.ID > next {
			gaps = append(gaps, idset.Between(next, it.ID-1))
		}
		next = it.ID + 1
		return true
	})
	return gaps
}
