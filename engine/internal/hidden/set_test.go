package hidden

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// writeRun writes a batch to a run, and returns what is in it.
func writeRun(t testing.TB, fsys segment.FS, path string, number uint64, b *Batch) (segment.RunID, Written) {
	t.Helper()
	w, err := segment.CreateRun(fsys, path, number, segment.Cached)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := segment.NewCoder(segment.CodecNone)
	defer c.Close()
	out, err := b.Write(w, c, nil)
	if err == nil {
		err = w.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	return w.ID(), out
}

// readFrame returns the items in a frame of a run, with copies of their bodies.
func readFrame(t testing.TB, fsys segment.FS, path string, id segment.RunID, f Frame, end int64) (all []Entry) {
	t.Helper()
	r, err := segment.OpenRun(fsys, path, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	frame, err := r.Frame(f.Offset, end)
	if err != nil {
		t.Fatal(err)
	}
	var c segment.Coder
	defer c.Close()
	body, err := r.Body(&c, nil, frame)
	if err == nil {
		err = EachEntry(frame.Tag, body, func(e Entry) bool {
			e.Data = slices.Clone(e.Data)
			all = append(all, e)
			return true
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRun writes items, and reads them back in the order in which they are due, by way of the index.
func TestRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fsys := segmenttest.New()
		if err := fsys.MkdirAll("d"); err != nil {
			t.Fatal(err)
		}
		var b Batch
		var want []Entry
		for id := range uint64(rapid.IntRange(1, 25).Draw(rt, "items")) {
			size := rapid.SampledFrom([]int{0, 1, 100, 5000, 70_000}).Draw(rt, "size")
			e := Entry{
				Item: item.Item{ID: id*3 + 1, Added: item.Time(id), Flags: uint32(id % 3), Data: bytes.Repeat([]byte{byte(id)}, size)},
				Due:  item.Time(rapid.Int64Range(0, 20).Draw(rt, "due")), Count: uint16(id % 4),
			}
			b.Add(e)
			want = append(want, e)
		}
		slices.SortFunc(want, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID)) })
		id, out := writeRun(t, fsys, "d/1.run", 1, &b)
		var got []Entry
		for i, f := range out.Frames {
			entries := readFrame(t, fsys, "d/1.run", id, f, out.End)
			if int64(len(entries)) != f.Count || entries[0].Due != f.First {
				rt.Fatalf("frame %d has %d items, the first due at %d, the index says %+v", i, len(entries), entries[0].Due, f)
			}
			got = append(got, entries...)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("got %.200v, want %.200v", got, want)
		}
		r, err := segment.OpenRun(fsys, "d/1.run", id, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		frame, err := r.Frame(out.Index, out.End)
		if err != nil || frame.Next != out.End {
			rt.Fatalf("the index at %d: %+v, %v", out.Index, frame, err)
		}
		var c segment.Coder
		body, err := r.Body(&c, nil, frame)
		if err != nil {
			t.Fatal(err)
		}
		frames, err := ParseIndex(frame.Tag, body, out.Index)
		if err != nil || !slices.Equal(frames, out.Frames) {
			rt.Fatalf("the index is %+v, %v, want %+v", frames, err, out.Frames)
		}
	})
}

// TestGolden has the bytes of a frame and of an index as FORMAT.md has them.
func TestGolden(t *testing.T) {
	const due = 1700000000000
	hello := item.AppendImage(nil, &item.Item{Data: []byte("hello"), Added: due - 1000})
	body := appendEntry(nil, due, due, 300, 0, hello)
	body = appendEntry(body, due, due+500, 299, 2, hello)
	both := tag{first: due, last: due + 500, count: 2, bytes: 10}
	frames := []Frame{{64, due, 2, 10}, {200, due + 1000, 1, 5}}
	index := tag{count: 2, index: true}
	for _, tt := range []struct {
		what string
		got  []byte
		want string
	}{
		{"tag", sliceOf(both.encode()), "0068e5cf8b010000" + "f469e5cf8b010000" + "02000080" + "0a000000"},
		{"body", body, "00ac0200" + "00051864e5cf8b0168656c6c6f" + "f403ab0202" + "00051864e5cf8b0168656c6c6f"},
		{"tag of the index", sliceOf(index.encode()), "0000000000000000" + "0000000000000000" + "020000c0" + "00000000"},
		{"index", appendIndex(nil, frames), "40" + "80d095ffbc31" + "02" + "0a" + "8801" + "e807" + "01" + "05"},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
	if back, err := ParseIndex(index.encode(), appendIndex(nil, frames), 300); err != nil || !slices.Equal(back, frames) {
		t.Errorf("the index decodes to %+v, %v", back, err)
	}
}

func sliceOf(t segment.Tag) []byte { return t[:] }

// FuzzFrame: bytes that are no frame, and no index, are an error and nothing else.
func FuzzFrame(f *testing.F) {
	hello := item.AppendImage(nil, &item.Item{Data: []byte("hello"), Added: 1})
	both := tag{first: 1, last: 2, count: 2, bytes: 10}.encode()
	f.Add(both[:], appendEntry(appendEntry(nil, 1, 1, 7, 0, hello), 1, 2, 3, 0, hello))
	index := tag{count: 1, index: true}.encode()
	f.Add(index[:], appendIndex(nil, []Frame{{64, 5, 1, 5}}))
	f.Fuzz(func(t *testing.T, frameTag, body []byte) {
		var of segment.Tag
		copy(of[:], frameTag)
		last := item.Time(0)
		count := int64(0)
		err := EachEntry(of, body, func(e Entry) bool {
			if e.Due < last || e.ID == 0 {
				t.Fatalf("item %d, due at %d, comes behind one due at %d", e.ID, e.Due, last)
			}
			last = e.Due
			count++
			return true
		})
		if parsed, ok := parseTag(of); err == nil && (!ok || parsed.count != count) {
			t.Errorf("%d items, the tag says %+v", count, parsed)
		}
		frames, err := ParseIndex(of, body, 1<<40)
		for i := 1; err == nil && i < len(frames); i++ {
			if frames[i].Offset <= frames[i-1].Offset || frames[i].First < frames[i-1].First {
				t.Fatalf("frame %d is %+v behind %+v", i, frames[i], frames[i-1])
			}
		}
	})
}

// where is what the model knows of an item.
type where struct {
	run       *Run
	size      int
	due       item.Time
	disk, out bool // on disk alone; its run is written, and it has not left memory
}

// TestSetModel does the same to a Set and to a map of items, and compares.
func TestSetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var memory atomic.Int64
		s := Set{Memory: &memory}
		all := make(map[uint64]*where)
		files := make(map[*Run][][]uint64) // ids of frames
		var writing *Run
		id, number := uint64(0), uint64(0)
		pick := func(t *rapid.T, of func(*where) bool) (uint64, *where) {
			var ids []uint64
			for id, w := range all {
				if of(w) {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				t.Skip("none")
			}
			slices.Sort(ids)
			id := ids[rapid.IntRange(0, len(ids)-1).Draw(t, "item")]
			return id, all[id]
		}
		finish := func(r *Run, ids []uint64) Written {
			slices.SortFunc(ids, func(a, b uint64) int { return cmp.Or(cmp.Compare(all[a].due, all[b].due), cmp.Compare(a, b)) })
			w := Written{Index: 1 << 20, End: 1 << 21}
			for frame := range slices.Chunk(ids, 3) {
				files[r] = append(files[r], frame)
				w.Frames = append(w.Frames, Frame{int64(64 + 8*len(w.Frames)), all[frame[0]].due, int64(len(frame)), 1})
			}
			return w
		}
		newRun := func() *Run {
			number++
			return NewRun(runs.File{Path: fmt.Sprint(number), ID: segment.RunID{Number: number, ID: 1}})
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(t, "items") {
					id++
					all[id] = &where{size: int(id % 50), due: item.Time(rapid.Int64Range(0, 30).Draw(t, "due"))}
				}
			},
			"join": func(t *rapid.T) {
				if writing == nil {
					writing = newRun()
					s.Add(writing)
				}
				id, w := pick(t, func(w *where) bool { return w.run == nil })
				s.Join(writing, id, w.size)
				w.run = writing
			},
			"finish": func(t *rapid.T) {
				if writing == nil || writing.Live().Count == 0 {
					t.Skip("nothing")
				}
				var ids []uint64
				for id, w := range all {
					if w.run == writing {
						ids = append(ids, id)
						w.out = true
					}
				}
				s.Finish(writing, finish(writing, ids))
				writing = nil
			},
			"unload": func(t *rapid.T) {
				id, w := pick(t, func(w *where) bool { return w.out })
				s.Unload(w.run, id, w.size)
				w.disk, w.out = true, false
			},
			"read": func(t *rapid.T) {
				r, due := s.Soonest()
				if r == nil {
					t.Skip("nothing")
				}
				frame := r.Next()
				for _, id := range files[r][frame] {
					if w := all[id]; w != nil && w.run == r && w.disk && w.due < due {
						t.Fatalf("item %d is due at %d, the soonest at %d", id, w.due, due)
					}
					w := all[id]
					if want := w != nil && w.run == r && w.disk; s.ReadBack(r, frame, id, int(id%50)) != want {
						t.Fatalf("item %d was read back = %t", id, !want)
					} else if want {
						w.disk = false
					}
				}
				s.Pass(r, frame)
			},
			"read some": func(t *rapid.T) {
				r, _ := s.Soonest()
				if r == nil {
					t.Skip("nothing")
				}
				frame := r.Next()
				for i, id := range files[r][frame] {
					w := all[id]
					lives := w != nil && w.run == r && w.disk
					if i > 0 && lives && rapid.Bool().Draw(t, "later") {
						s.Postpone(r, frame, w.due)
						return
					}
					if s.ReadBack(r, frame, id, int(id%50)) {
						w.disk = false
					}
				}
				s.Pass(r, frame)
			},
			"leave": func(t *rapid.T) {
				id, w := pick(t, func(w *where) bool { return true })
				if r := s.Leave(id, w.size); r != w.run {
					t.Fatalf("item %d left another run", id)
				}
				delete(all, id)
			},
			"write again": func(t *rapid.T) {
				var old []*Run
				var ids []uint64
				for _, r := range s.Runs() {
					if !r.IsWriting() && r.Live().Count > 0 && rapid.Bool().Draw(t, "this one") {
						old = append(old, r)
					}
				}
				for id, w := range all {
					if slices.Contains(old, w.run) {
						ids = append(ids, id)
					}
				}
				if len(old) == 0 {
					t.Skip("no run")
				}
				r := newRun()
				s.Add(r)
				s.Replace(r, old, finish(r, ids))
				for _, id := range ids {
					w := all[id]
					w.run, w.out = r, !w.disk
				}
			},
			"keep only": func(t *rapid.T) {
				if rapid.IntRange(0, 5).Draw(t, "really") > 0 {
					return
				}
				var ids idset.Bitmap
				for id, w := range all {
					if w.run != nil && !w.disk && rapid.Bool().Draw(t, "this one") {
						ids.Add(id)
					} else {
						delete(all, id)
					}
				}
				s.Retain(&ids)
			},
			"drop": func(*rapid.T) {
				for _, r := range slices.Clone(s.Runs()) {
					if !r.IsWriting() && r.Live().Count == 0 {
						s.Drop(r)
					}
				}
			},
			"": func(t *rapid.T) {
				if err := s.Verify(); err != nil {
					t.Fatal(err)
				}
				var disk item.Tally
				for id, w := range all {
					if w.disk {
						disk.Add(item.Tally{Count: 1, Bytes: int64(w.size)}, 1)
					}
					onDisk := s.OnDisk(id)
					if s.Find(id) != w.run || (onDisk != nil) != w.disk {
						t.Fatalf("item %d is on disk = %t, want %t", id, onDisk != nil, w.disk)
					}
					if w.run != nil && !w.run.IsWriting() {
						for frame, ids := range files[w.run] {
							if slices.Contains(ids, id) && frame < w.run.From() {
								t.Fatalf("item %d lives in frame %d, before frame %d", id, frame, w.run.From())
							}
						}
					}
				}
				if s.Disk() != disk {
					t.Fatalf("on disk are %+v, want %+v", s.Disk(), disk)
				}
			},
		})
		for _, r := range slices.Clone(s.Runs()) {
			s.Drop(r)
		}
		if n := memory.Load(); n != 0 {
			t.Fatalf("%d bytes are counted without any run", n)
		}
	})
}

// TestMemory holds what memory keeps of an item on disk to less than a byte.
func TestMemory(t *testing.T) {
	const items = 100_000
	var memory atomic.Int64
	s := Set{Memory: &memory}
	var b Batch
	r := NewRun(runs.File{Path: "d/1.run", ID: segment.RunID{Number: 1, ID: 1}})
	s.Add(r)
	for id := range uint64(items) {
		it := item.Item{ID: id + 1, Data: make([]byte, 100)}
		b.Add(Entry{Item: it, Due: item.Time(id * 7919 % items)})
		s.Join(r, it.ID, 100)
	}
	fsys := segmenttest.New()
	if err := fsys.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	_, out := writeRun(t, fsys, "d/1.run", 1, &b)
	s.Finish(r, out)
	for id := range uint64(items) {
		s.Unload(r, id+1, 100)
	}
	s.Account(r)
	if each := float64(memory.Load()) / items; each > 1 {
		t.Errorf("an item on disk takes %.2f bytes", each)
	} else {
		t.Logf("an item on disk takes %.2f bytes", each)
	}
}

// TestRetainOnDisk tests that a flush forgets what is on disk alone without going through it, whatever stays.
func TestRetainOnDisk(t *testing.T) {
	var memory atomic.Int64
	var staying idset.Bitmap
	sets := make([]Set, 2) // AllocsPerRun runs once more
	for i := range sets {
		sets[i].Memory = &memory
		var live idset.Bitmap
		for id := uint64(0); id < 64<<16; id += 50 { // lists, and bits below
			if i == 0 || id%100 == 0 {
				live.Add(id)
				staying.Add(id + 1)
			}
		}
		w := Written{Frames: []Frame{{Count: int64(live.Len())}}}
		sets[i].Add(Restored(runs.File{}, w, 0, live, 1000))
	}
	i := 0
	if n := testing.AllocsPerRun(1, func() { sets[i].Retain(&staying); i++ }); n > 0 {
		t.Errorf("what is on disk takes %v pieces of memory to be forgotten", n)
	}
	for i := range sets {
		if r := sets[i].Runs()[0]; r.Live().Count > 0 || sets[i].Disk().Count > 0 {
			t.Errorf("%+v lives, %+v on disk, want nothing", r.Live(), sets[i].Disk())
		}
	}
}
