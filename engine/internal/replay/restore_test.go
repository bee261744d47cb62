package replay

import (
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// chunk returns a chunk with the items first to last.
func chunk(first, last uint64) *item.Chunk {
	c := &item.Chunk{FirstID: first, LastID: last}
	for id := first; id <= last; id++ {
		it := body(id)
		c.Buf = item.AppendImage(c.Buf, &it)
		c.Account(&it, 1)
	}
	return c
}

// makeRun writes chunks to the next run, and returns the record of it.
func makeRun(t *testing.T, d *runs.Dir, chunks ...*item.Chunk) []byte {
	t.Helper()
	made, err := d.Make(segment.Cached, nil, func(w *segment.RunWriter) error {
		b := runs.NewBatcher(segment.CodecNone)
		defer b.Close()
		_, _, err := b.Write(w, nil, chunks, nil, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := runs.State{End: made.End}
	for _, c := range chunks {
		s.Add(runs.TagOf(c))
	}
	return record.AppendSpill(nil, 1, made.ID, s)
}

// ids are those of the items of a window.
func ids(w *item.Window) (ids []uint64) {
	w.Each(func(it item.Item) bool { ids = append(ids, it.ID); return true })
	return ids
}

// TestRestore finds what is in line of a queue with three runs. Of the first nothing lives.
func TestRestore(t *testing.T) {
	for _, tt := range []struct {
		name                string
		gone                [2]uint64
		kept                []uint64
		runs, spent, inRuns int
		first               uint64
		open, window, last  []uint64
	}{
		{"in line", [2]uint64{1, 3}, nil, 2, 1, 5, 3, nil, nil, []uint64{9, 10}},
		{"open", [2]uint64{1, 2}, []uint64{5, 10}, 2, 1, 3, 6, []uint64{3, 4, 5}, nil, []uint64{9, 10}},
		{"all open", [2]uint64{1, 2}, []uint64{8}, 2, 1, 0, 9, []uint64{3, 4, 5, 6, 7, 8}, nil, []uint64{9, 10}},
		{"nothing in runs", [2]uint64{1, 8}, []uint64{9}, 0, 3, 0, 0, nil, []uint64{9, 10}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &runs.Dir{FS: segmenttest.New(), Path: "backlog"}
			if err := d.FS.MkdirAll(d.Path); err != nil {
				t.Fatal(err)
			}
			records := makeRun(t, d, chunk(1, 2))
			records = append(records, makeRun(t, d, chunk(3, 4), chunk(5, 6))...)
			records = append(records, makeRun(t, d, chunk(7, 8))...)
			records = slices.Concat(name(1), records, puts(9, 10), gone(tt.gone[0], tt.gone[1]))
			for _, id := range tt.kept {
				records = append(records, keep(id)...)
			}
			r, p := newReplay()
			if err := r.Frame(segment.Frame{Segment: 1, Payload: records}); err != nil {
				t.Fatal(err)
			}
			q := r.Queues()[0]
			q.Compact(p, memory)
			reader := runs.NewReader(d.FS, nil, 3)
			defer reader.Close()
			l, err := q.Restore(p, memory, reader, d, func(uint64) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			var open []uint64
			for _, it := range l.Open {
				if open = append(open, it.ID); string(it.Data) != string(body(it.ID).Data) {
					t.Errorf("item %d is %q", it.ID, it.Data)
				}
			}
			if len(l.Runs) != tt.runs || len(l.Spent) != tt.spent || int(l.InRuns.Count) != tt.inRuns || l.First != tt.first {
				t.Errorf("%d runs, %d spent, %d items from %d on", len(l.Runs), len(l.Spent), l.InRuns.Count, l.First)
			}
			if !slices.Equal(open, tt.open) || !slices.Equal(ids(&l.Window), tt.window) || !slices.Equal(ids(&l.Recent), tt.last) {
				t.Errorf("open %d, window %d, behind the runs %d", open, ids(&l.Window), ids(&l.Recent))
			}
			if q.Window.Count != 0 || !l.HasRuns() {
				t.Error("what is in line has two places, or the runs are forgotten")
			}
		})
	}
}
