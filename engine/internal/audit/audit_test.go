package audit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestCheck compares records of queue 1 with a run of it that holds items 3, 4, 5 and 6.
func TestCheck(t *testing.T) {
	fsys := segmenttest.New()
	w, err := segment.CreateRun(fsys, runs.Path("", 1), 1, segment.Cached)
	if err != nil {
		t.Fatal(err)
	}
	c := &item.Chunk{FirstID: 3, LastID: 6}
	for id := uint64(3); id <= 6; id++ {
		it := item.Item{ID: id, Data: []byte("item")}
		c.Buf = item.AppendImage(c.Buf, &it)
		c.Account(&it, 1)
	}
	b := runs.NewBatcher(segment.Codec(0))
	defer b.Close()
	if _, _, err := b.Write(w, nil, []*item.Chunk{c}, nil, nil); err != nil {
		t.Fatal(err)
	}
	var held runs.State
	held.Add(runs.TagOf(c))
	held.End = w.End()
	id := w.ID()
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	wider := held
	wider.FirstID = 1 // items 1 and 2 are not in the run

	put := func(id uint64) []byte {
		return record.AppendPut(nil, record.Destination{Queue: 1, Item: id}, item.Item{})
	}
	spill := func(s runs.State) []byte { return record.AppendSpill(nil, 1, id, s) }
	lost := record.AppendSpill(nil, 1, segment.RunID{Number: 8}, held)
	gone := func(from, to uint64) []byte { return record.AppendRemove(nil, 1, from, uint32(to-from)) }
	keep := func(id uint64) []byte { return record.AppendKeep(nil, 1, item.Item{ID: id}) }
	for _, tt := range []struct {
		name    string
		records [][]byte
		want    string // of the error; "" for none
	}{
		{"no run", [][]byte{put(1)}, ""},
		{"a run that is whole", [][]byte{spill(held)}, ""},
		{"a run that lacks two items", [][]byte{spill(wider)}, "B6: run 1"},
		{"both are gone", [][]byte{gone(1, 2), spill(wider)}, ""},
		{"one is gone, one kept", [][]byte{gone(1, 1), keep(2), spill(wider)}, ""},
		{"the kept one is gone later", [][]byte{gone(1, 1), keep(2), spill(wider), gone(2, 2)}, ""},
		{"one is changed, and so in the journal", [][]byte{gone(1, 1), record.AppendChange(nil, 1, 2, record.Change{Count: 1}), spill(wider)}, ""},
		{"they were open when the run was recorded", [][]byte{put(1), put(2), spill(held), spill(wider)}, ""},
		{"flushed, but for one", [][]byte{record.AppendFlush(nil, 1, 3, []uint64{2}), spill(wider)}, "B6: run 1"},
		{"a missing run", [][]byte{lost}, "B6: run 8"},
		{"a missing run of which all is gone", [][]byte{gone(3, 6), lost}, ""},
		{"a missing run behind a newer one", [][]byte{record.AppendSpill(nil, 1, segment.RunID{}, held), spill(held)}, ""},
		{"a run behind the end of its queue", [][]byte{record.AppendDelete(nil, 1), spill(held)}, "behind the record that deletes"},
		{"deleted with its runs", [][]byte{lost, record.AppendDelete(nil, 1)}, ""},
	} {
		a := New()
		if err := a.Frame(slices.Concat(tt.records...)); err != nil {
			t.Fatal(err)
		}
		err := a.Check(fsys, "", func(uint64) bool { return false })
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := a.Check(fsys, "", func(number uint64) bool { return number == 1 }); err != nil {
			t.Errorf("%s: of a queue that is left out: %v", tt.name, err)
		}
	}
}
