package hidden

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestReader opens a run that the journal names, with what is gone of it, and reads what is left.
func TestReader(t *testing.T) {
	const count, size = 100, 4 << 10 // several frames
	fsys, b := segmenttest.New(), &Batch{}
	var live idset.Bitmap
	for id := uint64(1); id <= count; id++ { // the highest id is due first
		b.Add(Entry{Item: item.Item{ID: id, Data: make([]byte, size+int(id))}, Due: item.Time(1000 - id)})
		live.Add(id)
	}
	number, w := writeRun(t, fsys, "run", 7, b)
	file := runs.File{Path: "run", ID: number}
	bytes := int64(0)
	for id := uint64(1); id <= count; id++ {
		if id%3 == 0 || id > 80 {
			live.Remove(id)
		} else {
			bytes += size + int64(id)
		}
	}
	d := Reader{Runs: runs.NewReader(fsys, nil, 1)}
	defer d.Runs.Close()
	r, err := d.Open(file, record.Hidden{Index: w.Index, End: w.End}, live)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Disk(); got.Bytes != bytes || got.Count != int64(live.Len()) || len(r.Frames) < 4 {
		t.Errorf("%+v of %d frames is on disk, want %d bytes of %d items", got, len(r.Frames), bytes, live.Len())
	}
	if first, err := d.Frame(r, 0); err != nil || len(first) == 0 || first[0].ID != count || first[0].Due != 1000-count {
		t.Errorf("the first frame has %d items, %v", len(first), err)
	}
	var ids []uint64
	s := &Set{Memory: new(atomic.Int64)}
	s.Add(r)
	err = d.EachOnDisk(s, func(e Entry) bool {
		ids = append(ids, e.ID)
		return e.ID < 50
	})
	if want := live.Count(idset.Between(1, 50)); err != nil || !slices.IsSorted(ids) || uint64(len(ids)) != want {
		t.Errorf("on disk are %d, %v, want %d", ids, err, want)
	}
	seen := 0
	if err := d.EachFrom(r, 1, func(Entry) bool { seen++; return seen < 3 }); err != nil || seen != 3 {
		t.Errorf("%d items were seen, %v", seen, err)
	}
	for _, state := range []record.Hidden{
		{Index: w.Index, End: w.End, From: int64(len(w.Frames))}, // it has not that many frames
		{Index: w.Frames[0].Offset, End: w.End},                  // that is no index
		{Index: w.Index, End: w.End + 1<<20},                     // it is cut short
	} {
		if _, err := d.Open(file, state, live); !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("%+v: %v", state, err)
		}
	}
}

// TestVerifyPlaces says that items are elsewhere, or nowhere, or have ids that nothing has yet.
func TestVerifyPlaces(t *testing.T) {
	live := idset.BitmapOf(idset.Set{idset.Between(1, 3)})
	s := &Set{Memory: new(atomic.Int64)}
	r := Restored(runs.File{Path: "run"}, Written{Frames: []Frame{{Count: 3}}}, 0, live, 30)
	s.Add(r)
	seen := map[uint64]string{7: "aside"}
	if err := s.VerifyPlaces(seen, 4); err != nil || seen[2] != "hidden" {
		t.Errorf("%v, and item 2 is %s", err, seen[2])
	}
	for _, tt := range []struct {
		seen map[uint64]string
		next uint64
		want string
	}{
		{map[uint64]string{2: "aside"}, 4, "H5: item 2 is hidden and aside"},
		{map[uint64]string{}, 3, "hidden item 3 is not below the next id 3"},
	} {
		if err := s.VerifyPlaces(tt.seen, tt.next); err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	s.ReadBack(r, 0, 1, 10)
	if err := s.VerifyPlaces(map[uint64]string{1: "aside"}, 4); err != nil {
		t.Error(err)
	}
	if err := s.VerifyPlaces(map[uint64]string{}, 4); err == nil || err.Error() != "H5: item 1 lives in run, and is nowhere" {
		t.Error(err)
	}
}
