package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestMarksBesideReload has a queue leave the journal and enter it again while a checkpoint writes what is gone to a
// file. What was removed meanwhile must stay away.
func TestMarksBesideReload(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	m := &marking{t, openQuiet(t, markOptions(fsys)), fsys.FS}
	m.put(400)
	m.removeEvery(2, 30, 150)
	written := false
	fsys.write = func(call func() error) error {
		fsys.write, written = nil, true
		keepJournal(t, m.Engine, "q", false)
		m.removeEvery(2, 152, 300)
		keepJournal(t, m.Engine, "q", true)
		return call()
	}
	m.checkpointed()
	if !written {
		t.Fatal("the checkpoint wrote no file")
	}
	awaitRuns(m.Engine)
	verify(t, m.Engine)
	want := bodies(400, func(id uint64) bool { return id < 30 || id > 300 || id%2 == 1 })
	for _, image := range []*segmenttest.FS{fsys.Kill(), fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})} {
		again := newMarking(t, image)
		if got := drain(t, again.Engine, "q"); !slices.Equal(got, want) {
			t.Errorf("after a restart %d items come, want %d", len(got), len(want))
		}
	}
}

// TestManyReadsBesideRuns has a checkpoint name runs just behind the records that let go of them. When the journal
// drops those records, later checkpoints must still tell what is gone, although many reads are open in between.
func TestManyReadsBesideRuns(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(200)
	var refs []ReadRef
	for range 200 {
		ref, _ := mustOpen(t, m.Engine, "q")
		refs = append(refs, ref)
	}
	var want []string
	for i, ref := range refs {
		if i%2 == 0 {
			mustCommitted(t, m.Engine)(m.Confirm(Now(), ref))
		} else {
			want = append(want, bodies(200, func(id uint64) bool { return id == uint64(i+1) })...)
		}
	}
	q := m.queue()
	m.recordQueue(q, func(int64) bool {
		if q.backlog != nil { // the runs go between two pieces
			awaitRuns(m.Engine)
			for range 20 { // in a segment of its own
				mustPut(t, m.Engine, "other", strings.Repeat("x", 100))
				mustGet(t, m.Engine, "other")
			}
			mustPut(t, m.Engine, "last", "needs the segments from here on")
		}
		return true
	})
	if q.backlog != nil {
		t.Fatal("runs are left")
	}
	q.shard.mu.Lock()
	for r := q.open.First(); r != nil; r = r.link.Next() {
		m.keepRead(q, r)
	}
	q.shard.mu.Unlock()
	turnOver(t, m.Engine)
	turnOver(t, m.Engine)
	verify(t, m.Engine)
	again := newMarking(t, m.fsys.Kill())
	if got := queued(again.Engine, "q"); !slices.Equal(got, want) {
		t.Errorf("after a kill %d items are there, want %d", len(got), len(want))
	}
}

// TestMarksBesideReclaim has a checkpoint begin while the last runs of a queue go, behind the records that let go of them.
// It has what is gone of them in a file. When the file goes too, the journal must not name the runs any more.
func TestMarksBesideReclaim(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	m := &marking{t, openQuiet(t, markOptions(fsys)), fsys.FS}
	m.put(400)
	var open []ReadRef
	for i := range 400 {
		ref, _ := mustOpen(t, m.Engine, "q")
		if i%2 == 0 {
			mustCommitted(t, m.Engine)(m.Confirm(Now(), ref))
		} else {
			open = append(open, ref)
		}
	}
	m.checkpointed()
	if m.file() == nil || len(m.queue().backlog.spent) == 0 {
		t.Fatalf("the backlog is %+v, want a file of what is gone, and runs that are to go", m.queue().backlog)
	}
	fill := func() {
		for range 20 { // in a segment of its own
			mustPut(t, m.Engine, "other", strings.Repeat("x", 100))
			mustGet(t, m.Engine, "other")
		}
	}
	fsys.remove = func(call func() error) (err error) {
		fsys.remove = nil
		fill()
		if m.Engine.checkpointed, err = m.checkpoint(); err != nil {
			t.Error(err)
		}
		return call()
	}
	awaitRuns(m.Engine)
	if fsys.remove != nil || m.queue().backlog != nil {
		t.Fatalf("the backlog is %+v, want none", m.queue().backlog)
	}
	for _, ref := range open {
		mustCommitted(t, m.Engine)(m.Confirm(Now(), ref))
	}
	fill()
	if err := m.trimJournal(); err != nil {
		t.Fatal(err)
	}
	verify(t, m.Engine)
	again := newMarking(t, m.fsys.Kill())
	if w := again.Withheld(); len(w) > 0 {
		t.Errorf("after a kill %+v is withheld", w)
	}
}

// TestMarksBesideEntering has a reload that has a queue enter the journal write what is gone to a file. Meanwhile a
// checkpoint writes another one, of what is gone by then. What was removed between the two must stay away.
func TestMarksBesideEntering(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	m := &marking{t, openQuiet(t, markOptions(fsys)), fsys.FS}
	m.put(400)
	keepJournal(t, m.Engine, "q", false)
	m.removeEvery(2, 30, 150)
	fill := func() {
		for range 20 { // in a segment of its own
			mustPut(t, m.Engine, "other", strings.Repeat("x", 100))
			mustGet(t, m.Engine, "other")
		}
	}
	fsys.write = func(call func() error) (err error) {
		if m.queue().backlog == nil || !m.queue().spilled { // not yet
			return call()
		}
		fsys.write = nil
		m.removeEvery(2, 152, 300)
		fill()
		if m.Engine.checkpointed, err = m.checkpoint(); err != nil {
			t.Error(err)
		}
		return call()
	}
	keepJournal(t, m.Engine, "q", true)
	if fsys.write != nil || m.file() == nil {
		t.Fatal("the reload wrote no file")
	}
	awaitRuns(m.Engine)
	fill()
	if err := m.trimJournal(); err != nil {
		t.Fatal(err)
	}
	verify(t, m.Engine)
	want := bodies(400, func(id uint64) bool { return id < 30 || id > 300 || id%2 == 1 })
	again := newMarking(t, m.fsys.Kill())
	if got := drain(t, again.Engine, "q"); !slices.Equal(got, want) {
		t.Errorf("after a kill %d items come, want %d", len(got), len(want))
	}
}

// TestThinBesideRead has a run be written again while all of its queue is read, and then goes back to the disk. What the
// queue holds is counted once.
func TestThinBesideRead(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	o := markOptions(fsys)
	o.Settings.Default.MaxMemorySize = 1 << 20
	m := &marking{t, openQuiet(t, o), fsys.FS}
	var q *queue
	spill := func() {
		q.shard.mu.Lock()
		m.spillAll(q, true)
		q.shard.mu.Unlock()
	}
	for first := 0; first < 200; first += 50 {
		putMany(m, m.Engine, "q", first, 50)
		q = m.queue()
		spill()
		awaitRuns(m.Engine)
		m.spool.endRun(q)
	}
	spill()
	awaitRuns(m.Engine)
	m.removeEvery(1, 110, 140)
	written := false
	fsys.write = func(call func() error) error {
		if !q.backlog.thin && q.backlog.thinFrom > 0 {
			fsys.write, written = nil, true
			mustGet(t, m.Engine, "q")
			spill()
		}
		return call()
	}
	m.spool.tend()
	awaitRuns(m.Engine)
	if s, _ := m.QueueStats(Now(), []byte("q")); !written || s.Bytes != 30*s.Items {
		t.Errorf("written again: %t, %d items have %d bytes", written, s.Items, s.Bytes)
	}
}
