package journal

import (
	"bytes"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestPutLarge tests that PutLarge records the same as PutExtra. That includes an item that gets a key and an origin,
// leaves another queue, or takes the place of another item. The record of the leave stands in front.
func TestPutLarge(t *testing.T) {
	body := item.Item{Data: bytes.Repeat([]byte("large"), item.MaxChunkSize/4), Flags: 7, Added: 1, Expiry: 2}
	keyed := item.Behind{Key: []byte("key"), Origin: "origin", Why: item.Rejected}
	one, two := []record.Destination{{Queue: 300, Item: 5}}, []record.Destination{{Queue: 1, Item: 5}, {Queue: 300, Item: 1 << 40}}
	from := record.Destination{Queue: 9, Item: 10}
	delayed := record.Change{Due: 1 << 40, Token: 1 << 60, Count: 3}
	for _, tt := range []struct {
		name     string
		to, over []record.Destination
		with     item.Behind
		change   record.Change
		from     record.Destination
	}{
		{"plain", one, nil, item.Behind{}, record.Change{}, record.Destination{}},
		{"plain, two queues", two, nil, item.Behind{}, record.Change{}, record.Destination{}},
		{"delayed", one, nil, item.Behind{}, delayed, record.Destination{}},
		{"with a key, delayed, two queues", two, nil, keyed, delayed, record.Destination{}},
		{"leaves a queue", one, nil, keyed, record.Change{}, from},
		{"in the place of another", nil, one, keyed, record.Change{}, record.Destination{}},
		{"in the place of another, delayed", nil, one, keyed, delayed, record.Destination{}},
		{"leaves a queue for none", nil, nil, keyed, delayed, from},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j, other := newTest(t, segmenttest.New()), newTest(t, segmenttest.New())
			of := LargeOf{Item: body, With: tt.with, Queues: 2, Changes: 2}
			l := NewLarge(of, func() {})
			if n := int64(len(l.buf) + of.Changes*record.MaxChangeSize); n > l.Shared.Size || int64(cap(l.buf)) < l.Shared.Size {
				t.Errorf("%d bytes are counted for a frame of %d", l.Shared.Size, n)
			}
			it, first := l.Item(), &l.buf[0]
			j.PutLarge(slices.Clone(tt.to), slices.Clone(tt.over), l, tt.change, tt.from)
			other.PutExtra(slices.Clone(tt.to), slices.Clone(tt.over), it, tt.change, tt.from)
			got, want := gathered(t, j), gathered(t, other)
			if n := record.AppendRemove(nil, tt.from.Queue, tt.from.Item, 0); tt.from.Queue != 0 {
				want = slices.Concat(n, want[:len(want)-len(n)])
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes %q are recorded, want %d: %q", len(got), words(t, got), len(want), words(t, want))
			}
			if &l.buf[0] != first || j.version != other.version {
				t.Errorf("the frame was copied, or needs version %d and not %d", j.version, other.version)
			}
			if again := l.Item(); !bytes.Equal(again.Stored(), it.Stored()) || !bytes.Equal(l.Image(), item.AppendImage(nil, &it)) {
				t.Error("the image is not that of the item any more")
			}
		})
	}
}

// TestKeepNeedsVersion tests a segment with a large item that has a key. It must say that earlier releases cannot
// read it, although nothing of its kind was recorded before.
func TestKeepNeedsVersion(t *testing.T) {
	j := newTest(t, segmenttest.New())
	it := item.Item{ID: 5, Data: make([]byte, item.MaxChunkSize+1)}.With(nil, []byte("key"), "", 0)
	j.Keep(new(Removal), 1, it)
	if v := j.ended[len(j.ended)-1].version; v != segment.Version2 {
		t.Errorf("the frame needs version %d, want %d", v, segment.Version2)
	}
}
