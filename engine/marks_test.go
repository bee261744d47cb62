package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// marking is a queue of which a file says what is gone.
type marking struct {
	*testing.T
	*Engine
	fsys *segmenttest.FS
}

func markOptions(fsys segment.FS) Options {
	o := testOptions(fsys, func(o *QueueOptions) { o.MaxMemorySize = 100 })
	o.markFrom, o.markLong, o.SegmentSize = 2*marks.RangeCost, 8, 1024
	return o
}

func newMarking(t *testing.T, fsys *segmenttest.FS) *marking {
	t.Helper()
	return &marking{t, openQuiet(t, markOptions(fsys)), fsys}
}

func (m *marking) queue() *queue { return m.shardOf([]byte("q")).queues["q"] }

// file returns the file of the queue.
func (m *marking) file() *marks.File {
	file, _ := m.queue().marksNow()
	return file
}

// put puts n items and has them spilled.
func (m *marking) put(n int) {
	m.Helper()
	for first := 0; first < n; first += 50 {
		putMany(m, m.Engine, "q", first, min(50, n-first))
		awaitRuns(m.Engine)
		m.spool.endRun(m.queue())
	}
	awaitRuns(m.Engine)
}

// removeEvery removes every nth item from an id on.
func (m *marking) removeEvery(n, from, last uint64) {
	m.Helper()
	for id := from; id <= last; id += n {
		ticket, err := m.Remove(Now(), []byte("q"), "", Which{ID: id})
		if err == nil {
			err = m.Commit(ticket)
		}
		if err != nil {
			m.Fatalf("Remove(%d) = %v", id, err)
		}
	}
}

// checkpointed writes the state of every queue, and returns how many bytes of records that took.
func (m *marking) checkpointed() (n int64) {
	m.Helper()
	before := m.journal.End()
	if _, err := m.checkpoint(); err != nil {
		m.Fatal(err)
	}
	return int64(m.journal.End() - before)
}

// bodies returns those of putMany with the ids that live.
func bodies(n uint64, lives func(id uint64) bool) (all []string) {
	for id := uint64(1); id <= n; id++ {
		if lives(id) {
			all = append(all, fmt.Sprintf("%030d", id-1))
		}
	}
	return all
}

// TestMarks removes items in the middle, and has checkpoints name a file for them, until nothing of it is needed.
func TestMarks(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(400)
	m.removeEvery(3, 30, 300)
	m.checkpointed()
	first := m.file()
	if first == nil || first.IDs.Len() != 91 {
		t.Fatalf("the file is %+v", first)
	}
	if n := m.checkpointed(); n > 600 {
		t.Errorf("another checkpoint takes %d bytes of records", n)
	}
	if m.file() != first {
		t.Error("the file is another one, although nothing else has gone")
	}
	awaitRuns(m.Engine)
	m.removeEvery(3, 31, 300)
	m.checkpointed()
	second := m.file()
	if second == first || second.IDs.Len() != 181 {
		t.Fatalf("the file is %+v", second)
	}
	m.spool.tend()
	spoolAll(m.Engine)
	if slices.Contains(m.fsys.Paths(), first.Path) {
		t.Errorf("%s is still there", first.Path)
	}
	verify(t, m.Engine)
	lives := func(id uint64) bool { return id < 30 || id > 300 || id%3 == 2 }
	for _, power := range []bool{false, true} {
		fsys := m.fsys.Kill()
		if power {
			fsys = m.fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
		}
		again := newMarking(t, fsys)
		if got := queued(again.Engine, "q"); !slices.Equal(got, bodies(400, lives)) {
			t.Errorf("power cut = %t: %d items are there", power, len(got))
		}
	}
	again := newMarking(t, m.fsys.Kill())
	if got, want := drain(t, again.Engine, "q"), bodies(400, lives); !slices.Equal(got, want) {
		t.Errorf("after a kill %d items come, want %d", len(got), len(want))
	}
	awaitRuns(again.Engine)
	again.checkpointed()
	awaitRuns(again.Engine)
	if left := runFiles(again.fsys); len(left) > 0 {
		t.Errorf("%v are left of an empty queue", left)
	}
	turnOver(t, again.Engine)
	last := newMarking(t, again.fsys.Kill())
	wantItems(t, last.Engine, "q", "")
}

// TestMarksDamaged has the queue withheld if the file is missing or damaged, and repaired.
func TestMarksDamaged(t *testing.T) {
	for name, damage := range map[string]func(*segmenttest.FS, string) error{
		"missing": func(fsys *segmenttest.FS, path string) error { return fsys.Remove(path) },
		"flipped": func(fsys *segmenttest.FS, path string) error { return fsys.FlipBit(path, 140, 3) },
	} {
		m := newMarking(t, segmenttest.New())
		m.put(400)
		m.removeEvery(2, 30, 300)
		m.checkpointed()
		awaitRuns(m.Engine)
		turnOver(t, m.Engine)
		fsys := m.fsys.Kill()
		if err := damage(fsys, m.file().Path); err != nil {
			t.Fatal(err)
		}
		e, err := open(markOptions(fsys))
		if err != nil {
			t.Fatal(err)
		}
		if w := e.Withheld(); len(w) != 1 || !errors.Is(w[0].Reason, segment.ErrCorrupt) {
			t.Errorf("%s: withheld are %+v", name, w)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		d, err := Examine(markOptions(fsys))
		if err != nil || d.Sound() || len(d.Losses) > 0 {
			t.Fatalf("%s: %+v, %v", name, d, err)
		}
		if err := errors.Join(d.Repair(), d.Close()); err != nil {
			t.Fatal(err)
		}
		// What was removed is there again; nothing is lost.
		again := newMarking(t, fsys)
		got := drain(t, again.Engine, "q")
		for _, body := range bodies(400, func(id uint64) bool { return id < 30 || id > 300 || id%2 == 1 }) {
			if !slices.Contains(got, body) {
				t.Fatalf("%s: %s is lost", name, body)
			}
		}
	}
}

// TestMarksFail has checkpoints name what is gone in records when no file can be written.
func TestMarksFail(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(400)
	m.removeEvery(3, 30, 300)
	m.fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
		if strings.HasSuffix(op.Path, ".run") {
			f.Err = syscall.ENOSPC
		}
		return f
	})
	m.checkpointed()
	if f := m.file(); f != nil {
		t.Errorf("the file is %+v", f)
	}
	m.fsys.SetFault(nil)
	again := newMarking(t, m.fsys.Kill())
	want := bodies(400, func(id uint64) bool { return id < 30 || id > 300 || id%3 != 0 })
	if got := drain(t, again.Engine, "q"); !slices.Equal(got, want) {
		t.Errorf("%d items come, want %d", len(got), len(want))
	}
}

// TestMarksPassed takes items up to the middle of what a file says is gone, so that the next one has less.
func TestMarksPassed(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(400)
	m.removeEvery(2, 30, 300)
	m.checkpointed()
	turnOver(t, m.Engine) // the file alone has it now
	first := m.file()
	for range 29 + 100 {
		mustGet(t, m.Engine, "q")
	}
	m.removeEvery(2, 301, 399)
	if _, err := m.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if second := m.file(); second == first || second.IDs.Has(30) || !second.IDs.Has(298) {
		t.Fatalf("the file is %+v", second)
	}
	verify(t, m.Engine)
	want := bodies(400, func(id uint64) bool { return id > 229 && id <= 300 && id%2 == 1 || id > 300 && id%2 == 0 })
	again := newMarking(t, m.fsys.Kill())
	if got := drain(t, again.Engine, "q"); !slices.Equal(got, want) {
		t.Errorf("%d items come, want %d", len(got), len(want))
	}
}

// TestThin removes half of a backlog, whose files then take half of the room.
func TestThin(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(2000)
	size := func() (n int64) {
		for _, name := range runFiles(m.fsys) {
			size, _ := m.spool.dir.Size(name)
			n += size
		}
		return n
	}
	before, runs := size(), len(m.queue().backlog.runs)
	m.removeEvery(2, 30, 2000)
	turnOver(t, m.Engine)
	for range 3 {
		awaitRuns(m.Engine)
	}
	if n := size(); runs != 40 || n > before*3/4 {
		t.Errorf("of %d bytes in %d runs %d are left", before, runs, n)
	}
	verify(t, m.Engine)
	want := bodies(2000, func(id uint64) bool { return id < 30 || id%2 == 1 })
	for _, image := range []*segmenttest.FS{m.fsys.Kill(), m.fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})} {
		again := newMarking(t, image)
		if got := drain(t, again.Engine, "q"); !slices.Equal(got, want) {
			t.Errorf("after a restart %d items come, want %d", len(got), len(want))
		}
	}
	if got := drain(t, m.Engine, "q"); !slices.Equal(got, want) {
		t.Errorf("%d items come, want %d", len(got), len(want))
	}
	awaitRuns(m.Engine)
	if s, _ := m.QueueStats(Now(), []byte("q")); s.Bytes != 0 || len(runFiles(m.fsys)) > 0 {
		t.Errorf("of an empty queue %d bytes and %v are left", s.Bytes, runFiles(m.fsys))
	}
}
