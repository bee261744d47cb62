package runs

import (
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// newChain writes runs 1 to 3: the items 1 to 4, in two frames, 5 and 6, and 8 and 9.
func newChain(t *testing.T) (*Reader, []Part) {
	t.Helper()
	fsys := segmenttest.New()
	var chain []Part
	for i, chunks := range [][]*item.Chunk{{chunkOf(1, 2), chunkOf(3, 4)}, {chunkOf(5, 6)}, {chunkOf(8, 9)}} {
		f, s, _, _ := writeRun(t, fsys, uint64(i+1), chunks...)
		chain = append(chain, Part{f, s})
	}
	r := NewReader(fsys, nil, 2)
	t.Cleanup(r.Close)
	return r, chain
}

// TestEachFrom goes through a chain of runs, of which some is gone.
func TestEachFrom(t *testing.T) {
	r, chain := newChain(t)
	gone := idset.BitmapOf(idset.Set{idset.One(2), idset.Between(5, 6)})
	for _, tt := range []struct {
		id    uint64
		count int64
		until uint64
		want  []uint64
	}{
		{1, 5, 0, []uint64{1, 3, 4, 8, 9}},
		{2, 5, 0, []uint64{3, 4, 8, 9}},
		{4, 2, 0, []uint64{4, 8}},
		{1, 5, 4, []uint64{1, 3, 4}},
		{7, 2, 0, []uint64{8, 9}},
		{1, 0, 0, nil},
	} {
		var got []uint64
		err := r.EachFrom(chain, tt.id, tt.count, &gone, func(it item.Item) bool {
			got = append(got, it.ID)
			return it.ID != tt.until
		})
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %d, %v", tt, got, err)
		}
	}
	chain[2].Path = "none"
	err := r.EachFrom(chain, 1, 5, &gone, func(item.Item) bool { return true })
	if err == nil {
		t.Error("a run that is not there was read")
	}
}

// TestCollect sorts out runs of which some hold nothing that lives, and one that another has taken the place of.
func TestCollect(t *testing.T) {
	r, chain := newChain(t)
	gone := idset.BitmapOf(idset.Set{idset.One(2), idset.Between(5, 6)})
	lost := Part{File{"lost", chain[0].ID}, chain[1].State} // of an older run nothing is left, not even the file
	lost.ID.Number = 0
	live, spent, absent, err := r.Collect(append([]Part{lost}, chain...), gone, func(number uint64) bool { return number > 0 })
	if err != nil || len(live) != 2 || live[0].Part != chain[0] || live[1].Part != chain[2] {
		t.Fatalf("%+v live, %v", live, err)
	}
	if live[0].First != 1 || live[0].Live.Count != 3 || live[1].First != 8 || live[1].Live.Count != 2 {
		t.Errorf("%+v live", live)
	}
	if !slices.Equal(spent, []Part{chain[1]}) || absent != nil {
		t.Errorf("%+v are spent, and have not %v", spent, absent)
	}
	if gone.Has(8) {
		t.Error("what the caller knows to be gone has changed")
	}
}
