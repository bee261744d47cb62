package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// chunkOf returns a chunk with items of these ids, ascending. Item n was added at n.
func chunkOf(ids ...uint64) *item.Chunk {
	c := &item.Chunk{FirstID: ids[0], LastID: ids[len(ids)-1]}
	for i, id := range ids {
		if i > 0 && id > ids[i-1]+1 {
			c.Buf = binary.AppendUvarint(append(c.Buf, item.GapFormat), id-ids[i-1]-1)
		}
		it := item.Item{ID: id, Data: fmt.Append(nil, "item ", id), Added: item.Time(id)}
		c.Buf = item.AppendImage(c.Buf, &it)
		c.Account(&it, 1)
	}
	return c
}

// newRun writes chunks to run 1 on a disk of its own.
func newRun(t *testing.T, chunks ...*item.Chunk) (*segmenttest.FS, File, State) {
	t.Helper()
	fsys := segmenttest.New()
	f, state, _, _ := writeRun(t, fsys, 1, chunks...)
	return fsys, f, state
}

func writeRun(t *testing.T, fsys *segmenttest.FS, number uint64, chunks ...*item.Chunk) (f File, s State, starts []int64, gaps idset.Set) {
	t.Helper()
	w, err := segment.CreateRun(fsys, Path("", number), number, segment.Cached)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatcher(segment.Codec(0))
	defer b.Close()
	if starts, gaps, err = b.Write(w, nil, chunks, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range chunks {
		s.Add(TagOf(c))
	}
	s.End = w.End()
	f = File{w.Path(), w.ID()}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return f, s, starts, gaps
}

// TestBatcher writes chunks of which one has gaps.
func TestBatcher(t *testing.T) {
	_, state, starts, gaps := writeRun(t, segmenttest.New(), 1, chunkOf(3, 4, 7), chunkOf(8))
	if want := (idset.Set{idset.Between(5, 6)}); !slices.Equal(gaps, want) {
		t.Errorf("gaps = %v, want %v", gaps, want)
	}
	if len(starts) != 2 || starts[0] != segment.RunStart || starts[1] <= starts[0] || state.End <= starts[1] {
		t.Errorf("frames at %v, end at %d", starts, state.End)
	}
	if state.FirstID != 3 || state.LastID != 8 || state.Count != 4 {
		t.Errorf("state = %+v, want four items from 3 to 8", state)
	}
}

// TestSeek looks for items that are there, were left out, and lie behind the end.
func TestSeek(t *testing.T) {
	fsys, f, state := newRun(t, chunkOf(3, 4, 7), chunkOf(8, 9), chunkOf(12))
	r := NewReader(fsys, nil, 1)
	defer r.Close()
	for id, want := range map[uint64]string{
		1: "item 3", 3: "item 3", 5: "item 3", 7: "item 3", 8: "item 8", 10: "item 12", 12: "item 12", 13: "",
	} {
		frame, tag, err := r.Seek(f, segment.RunStart, id, state.End)
		got := ""
		if err == nil && frame.Size > 0 {
			var body []byte
			if body, _, err = r.Body(f, frame, tag, nil); err == nil {
				first, _ := item.ParseImage(body)
				got = string(first.Data)
			}
		}
		if err != nil || got != want {
			t.Errorf("the frame with item %d begins with %q, %v, want %q", id, got, err, want)
		}
	}
}

// TestSurvey counts what lives of a run of which more and more is gone.
func TestSurvey(t *testing.T) {
	fsys, f, state := newRun(t, chunkOf(3, 4, 7), chunkOf(8, 9), chunkOf(12))
	for _, tt := range []struct {
		gone         idset.Set
		count, first uint64
	}{
		{nil, 6, 3},
		{idset.Set{idset.Between(1, 2), idset.Between(13, 20)}, 6, 3},
		{idset.Set{idset.One(4)}, 5, 3},
		{idset.Set{idset.Between(1, 7)}, 3, 8},
		{idset.Set{idset.Between(1, 8)}, 2, 8},
		{idset.Set{idset.Between(3, 12)}, 0, 0},
	} {
		r := NewReader(fsys, nil, 1)
		gone := idset.BitmapOf(tt.gone)
		live, first, err := r.Survey(f, state, &gone)
		r.Close()
		if err != nil || uint64(live.Count) != tt.count || first != tt.first {
			t.Errorf("without %v %d items live from %d on, %v, want %d from %d on",
				tt.gone, live.Count, first, err, tt.count, tt.first)
		}
	}
	r := NewReader(fsys, nil, 1)
	defer r.Close()
	if err := fsys.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	all := idset.BitmapOf(idset.Set{idset.Between(3, 12)})
	if live, _, err := r.Survey(f, state, &all); err != nil || live.Count != 0 {
		t.Errorf("a missing run of which nothing lives: %d items, %v", live.Count, err)
	}
	if _, _, err := r.Survey(f, state, new(idset.Bitmap)); !errors.Is(err, segment.ErrCorrupt) {
		t.Errorf("Survey of a missing run = %v, want a CorruptionError", err)
	}
}

// TestMissing asks for ids that a run has, in part and not at all.
func TestMissing(t *testing.T) {
	fsys, f, state := newRun(t, chunkOf(3, 4, 7), chunkOf(8, 9))
	r := NewReader(fsys, nil, 1)
	defer r.Close()
	for _, tt := range []struct {
		ids  idset.Range
		want idset.Set
	}{
		{idset.Between(3, 4), nil},
		{idset.Between(4, 8), idset.Set{idset.Between(5, 6)}},
		{idset.Between(9, 11), idset.Set{idset.Between(10, 11)}},
	} {
		if got, err := r.Missing(f, state.End, tt.ids); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("of %v it does not hold %v, %v, want %v", tt.ids, got, err, tt.want)
		}
	}
}

// TestLastAdded asks when the last item was added.
func TestLastAdded(t *testing.T) {
	fsys, f, state := newRun(t, chunkOf(3, 4), chunkOf(9))
	r := NewReader(fsys, nil, 1)
	defer r.Close()
	if got, err := r.LastAdded(f, state.End); err != nil || got != 9 {
		t.Errorf("LastAdded = %d, %v, want 9", got, err)
	}
}

// TestAdded asks when the first items of frames were added that are not gone.
func TestAdded(t *testing.T) {
	fsys, f, state := newRun(t, chunkOf(3, 4), chunkOf(7, 9))
	r := NewReader(fsys, nil, 1)
	defer r.Close()
	var gone idset.Bitmap
	for _, tt := range []struct {
		id, remove uint64
		want       item.Time
	}{{3, 0, 3}, {4, 3, 4}, {7, 7, 9}, {7, 9, 0}, {10, 0, 0}} {
		if tt.remove > 0 {
			gone.Add(tt.remove)
		}
		if got, err := r.Added(f, tt.id, state.End, &gone); err != nil || got != tt.want {
			t.Errorf("Added(%d) with %d gone = %d, %v, want %d", tt.id, tt.remove, got, err, tt.want)
		}
	}
}

// TestCopy copies all but the first frame of a run, in several writes.
func TestCopy(t *testing.T) {
	fsys, f, state := newRun(t, chunkOf(3, 4), chunkOf(5), chunkOf(6), chunkOf(9))
	r := NewReader(fsys, nil, 2)
	defer r.Close()
	frame, _, err := r.Seek(f, segment.RunStart, 3, state.End)
	if err != nil {
		t.Fatal(err)
	}
	w, err := segment.CreateRun(fsys, Path("", 2), 2, segment.Cached)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := r.Copy(w, segment.Codec(0), f, frame.Next, state.End, 1)
	if err != nil || copied.FirstID != 5 || copied.LastID != 9 || copied.Count != 3 || copied.End != w.End() {
		t.Fatalf("Copy = %+v, %v, want three items from 5 to 9", copied, err)
	}
	fresh := File{w.Path(), w.ID()}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if left, err := r.Missing(fresh, copied.End, idset.Between(5, 6)); err != nil || len(left) > 0 {
		t.Errorf("the copy lacks %v, %v", left, err)
	}
}

// TestReaderFiles reads from more runs than may be open.
func TestReaderFiles(t *testing.T) {
	fsys := segmenttest.New()
	var files []File
	var states []State
	for n := uint64(1); n <= 4; n++ {
		f, state, _, _ := writeRun(t, fsys, n, chunkOf(n))
		files, states = append(files, f), append(states, state)
	}
	r := NewReader(fsys, nil, 2)
	for range 2 {
		for i, f := range files {
			if _, _, err := r.Survey(f, states[i], new(idset.Bitmap)); err != nil {
				t.Fatal(err)
			}
			if n := r.Open(); n > 2 {
				t.Fatalf("%d files are open, want two at most", n)
			}
		}
	}
	r.Forget(files[3])
	r.Forget(files[0]) // is not open
	if n := r.Open(); n != 1 {
		t.Errorf("when one is forgotten %d files are open, want 1", n)
	}
	r.Close()
	if n := r.Open(); n != 0 {
		t.Errorf("behind Close %d files are open", n)
	}
}
