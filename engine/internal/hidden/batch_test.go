package hidden

import (
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// TestBatchPieces tests that what a Batch has stays where it is when more comes, and that it takes no more than MaxItems.
func TestBatchPieces(t *testing.T) {
	var b Batch
	add := func() {
		b.Add(Entry{Item: item.Item{ID: uint64(b.Tally().Count + 1), Data: []byte("x")}})
	}
	add()
	image, list := &b.images[0][0], &b.entries[0][0]
	for !b.Full(1 << 40) {
		add()
	}
	if image != &b.images[0][0] || list != &b.entries[0][0] {
		t.Error("what was there is copied when more comes")
	}
	if n := b.Tally().Count; n != MaxItems {
		t.Errorf("a batch is full with %d items, want %d", n, MaxItems)
	}
	for i, piece := range b.images {
		if cap(piece) > pieceSize {
			t.Errorf("piece %d of the images has %d bytes, want at most %d", i, cap(piece), pieceSize)
		}
	}
}
