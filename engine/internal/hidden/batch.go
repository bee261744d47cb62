package hidden

import (
	"cmp"
	"iter"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/segment"
)

const (
	// FrameSize is how many bytes of items a frame has, about: as many as are read back at a time.
	FrameSize = 64 << 10
	// writeSize is how many bytes are written in one call, unless a single frame is larger.
	writeSize = 256 << 10
)

// Batch is items that are to become a run. The zero Batch is empty; it may be used again after Reset. It is not
// safe for concurrent use.
type Batch struct {
	entries []entry
	images  []byte
	tally   item.Tally
	rich    bool
	ids     idset.Bitmap
}

type entry struct {
	due   item.Time
	id    uint64
	at    int // of its image
	count uint16
}

// Add adds an item, which it copies, and whose id no other one has.
func (b *Batch) Add(e Entry) {
	b.entries = append(b.entries, entry{max(e.Due, 0), e.ID, len(b.images), e.Count})
	b.images = item.AppendImage(b.images, &e.Item)
	b.ids.Add(e.ID)
	b.tally.Account(&e.Item, 1)
	b.rich = b.rich || !e.IsPlain()
}

// Has reports whether an item with that id was added.
func (b *Batch) Has(id uint64) bool { return b.ids.Has(id) }

// IsRich reports whether an item is not plain: older releases must not read the run.
func (b *Batch) IsRich() bool { return b.rich }

// Tally is what there is of the items.
func (b *Batch) Tally() item.Tally { return b.tally }

// Size is how many bytes the batch takes in memory.
func (b *Batch) Size() int64 {
	return int64(cap(b.images)) + 32*int64(cap(b.entries)) + b.ids.Memory()
}

// Full reports whether the batch has so many bytes of images.
func (b *Batch) Full(most int64) bool { return int64(len(b.images)) >= most }

// IDs yields the ids of the items, up to n at a time.
func (b *Batch) IDs(n int) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		ids := make([]uint64, 0, n)
		for some := range slices.Chunk(b.entries, n) {
			ids = ids[:0]
			for _, e := range some {
				ids = append(ids, e.id)
			}
			if !yield(ids) {
				return
			}
		}
	}
}

// Written is the part of a run that is in its file.
type Written struct {
	Frames []Frame
	Index  int64 // offset of the index
	End    int64 // behind all
}

// Write writes a run of the items, of which there is one at least, the index, and the keys. The seed is that of the
// queue's keys; nil if no item has a key. It sorts the items. What is written is durable when the caller has synced w.
func (b *Batch) Write(w *segment.RunWriter, c *segment.Coder, seed *keyindex.Seed) (out Written, err error) {
	keys := keyindex.Gatherer{Seed: seed}
	slices.SortFunc(b.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id))
	})
	var body []byte
	var t tag
	frame := func() error {
		at := w.Add(c, t.encode(), body)
		out.Frames = append(out.Frames, Frame{at, t.first, t.count, t.bytes})
		body = body[:0]
		if w.Buffered() < writeSize {
			return nil
		}
		return w.Write()
	}
	for _, e := range b.entries {
		if len(body) == 0 {
			t = tag{first: e.due}
		}
		it, size := item.ParseImage(b.images[e.at:])
		if it.HasKey() {
			keys.Note(it.Key(), e.id)
		}
		body = appendEntry(body, t.first, e.due, e.id, e.count, b.images[e.at:e.at+size])
		t.last = e.due
		t.count++
		if t.bytes += int64(len(it.Data)); len(body) >= FrameSize {
			if err := frame(); err != nil {
				return out, err
			}
		}
	}
	if len(body) > 0 {
		if err := frame(); err != nil {
			return out, err
		}
	}
	index := tag{count: int64(len(out.Frames)), index: true}
	out.Index = w.Add(c, index.encode(), appendIndex(nil, out.Frames))
	keys.AddTo(w, c)
	if err := w.Write(); err != nil {
		return out, err
	}
	out.End = w.End()
	return out, nil
}
