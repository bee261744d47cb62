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
	// pieceSize is how many bytes the pieces of memory have that a Batch consists of, unless one image is larger. What is
	// there is not copied when more comes: that would take long.
	pieceSize    = 64 << 10
	pieceEntries = pieceSize / 32
	// MaxItems is how many items make a Batch full; the last piece may bring some more. A record of the journal names
	// those of a run.
	MaxItems = 1 << 18
)

// Batch is items that are to become a run. The zero Batch is empty; it may be used again after Reset. It is not
// safe for concurrent use.
type Batch struct {
	entries [][]entry // pieces of pieceEntries
	images  [][]byte
	size    int64 // of the images, in bytes
	memory  int64 // of the pieces
	tally   item.Tally
	rich    bool
	ids     idset.Bitmap
}

type entry struct {
	due   item.Time
	id    uint64
	piece uint32 // of images, with its own at an offset
	at    uint32
	count uint16
}

// Add adds an item, which it copies, and whose id no other one has.
func (b *Batch) Add(e Entry) {
	need, last := item.ImageSize(&e.Item), len(b.images)-1
	if last < 0 || cap(b.images[last])-len(b.images[last]) < need {
		b.images = append(b.images, make([]byte, 0, max(need, pieceSize)))
		last++
		b.memory += int64(cap(b.images[last]))
	}
	if n := b.tally.Count; n%pieceEntries == 0 {
		b.entries = append(b.entries, make([]entry, 0, pieceEntries))
		b.memory += pieceSize
	}
	list := &b.entries[len(b.entries)-1]
	*list = append(*list, entry{max(e.Due, 0), e.ID, uint32(last), uint32(len(b.images[last])), e.Count})
	b.images[last] = item.AppendImage(b.images[last], &e.Item)
	b.size += int64(need)
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
	return b.memory + b.ids.Memory()
}

// Full reports whether the batch has that many bytes of images, or MaxItems.
func (b *Batch) Full(most int64) bool { return b.size >= most || b.tally.Count >= MaxItems }

// IDs yields the ids of the items, up to n at a time.
func (b *Batch) IDs(n int) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		ids := make([]uint64, 0, n)
		for _, list := range b.entries {
			for some := range slices.Chunk(list, n) {
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
	entries := slices.Concat(b.entries...)
	b.entries = [][]entry{entries}
	slices.SortFunc(entries, func(a, b entry) int {
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
	for _, e := range entries {
		if len(body) == 0 {
			t = tag{first: e.due}
		}
		image := b.images[e.piece][e.at:]
		it, size := item.ParseImage(image)
		if it.HasKey() {
			keys.Note(it.Key(), e.id)
		}
		body = appendEntry(body, t.first, e.due, e.id, e.count, image[:size])
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
