package engine

import (
	"bytes"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestHideBesideChanges changes a delayed item that is to be hidden, and removes another one, while the spool gathers in
// pieces what it hides. The file has the changed item once, or not at all.
func TestHideBesideChanges(t *testing.T) {
	e, _ := newQuiet(t)
	const items = 2*hidePiece + 10
	for range items {
		_, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("item"), Extra: &PutExtra{Delay: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
	}
	s, q := e.spool, e.shardOf([]byte("q")).queues["q"]
	job, _ := s.beginHide(q, func(*hideJob) bool { return true })
	s.gather(job)
	later := Changes{SetDelay: true, Delay: 3 * time.Hour}
	if _, err := e.Change(Now(), []byte("q"), &LookRequest{Which: Which{ID: items}}, later); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Remove(Now(), []byte("q"), "", Which{ID: 1}); err != nil { // the last item comes to its place
		t.Fatal(err)
	}
	for s.gather(job) {
	}
	if err := s.writeHidden(job); err != nil {
		t.Fatal(err)
	}
	s.unload(job)
	s.endBatch()
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	for _, e := range []*Engine{e, kill(t, e)} {
		var d Delivery
		look := &LookRequest{Which: Which{ID: items}, Wait: true, Delivery: &d}
		if _, err := e.Look(Now(), []byte("q"), look, &copied{}); err != nil || d.Due < Now().After(2*time.Hour) {
			t.Errorf("the item is due at %d, %v, want three hours from %d", d.Due, err, Now())
		}
	}
}

// TestOverwriteBesideRead overwrites a hidden item while another request waits for its image, and hides it again. What
// that request has read is not the item any more: it must neither come back nor be shown as what is removed.
func TestOverwriteBesideRead(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	which := Which{Key: []byte("k")}
	put := func(body string) {
		t.Helper()
		p := PutRequest{Data: []byte(body), Extra: &PutExtra{Key: which.Key, Delay: time.Hour}}
		if _, err := h.PutAll(h.now, []byte("q"), []PutRequest{p}); err != nil {
			t.Fatal(err)
		}
		h.putMany(10, 2*time.Hour)
		for range 3 {
			h.work()
		}
		if at, _ := h.queue().ofKey(which.Key, h.now); at.where != isHidden {
			t.Fatalf("the item is at %d, want it hidden", at.where)
		}
	}
	put("old")
	change := Changes{SetExpiry: true, Expiry: h.now.After(4 * time.Hour)}
	changed := &LookRequest{Which: which}
	if _, err := h.Change(h.now, []byte("q"), changed, change); err != ErrComing {
		t.Fatal(err)
	}
	if err := h.Await(changed); err != nil || string(changed.read.Data) != "old" {
		t.Fatalf("read %+v, %v", changed.read, err)
	}
	var got copied
	look := &LookRequest{Which: which, Remove: true}
	if _, err := h.Look(h.now, []byte("q"), look, &got); err != ErrComing {
		t.Fatal(err)
	}
	if err := h.Await(look); err != nil {
		t.Fatal(err)
	}
	put("new")
	if _, err := h.Change(h.now, []byte("q"), changed, change); err != ErrComing {
		t.Errorf("a change with the image before the overwrite: %v, want ErrComing", err)
	}
	if _, err := h.Look(h.now, []byte("q"), look, &got); err != ErrComing {
		t.Errorf("a removal with the image before the overwrite: %v, want ErrComing", err)
	}
	look.Wait = true
	if _, err := h.Look(h.now, []byte("q"), look, &got); err != nil || string(got.item.Data) != "new" {
		t.Errorf("the removal shows %q, %v, want what it removes", got.item.Data, err)
	}
	if _, ok := h.Find(h.now, []byte("q"), which.Key); ok {
		t.Error("the item is there after its removal")
	}
}

// TestHideAgainRecordsFirst writes a run of delayed items again. Another goroutine may remove the old file as soon as it
// is spent and what has been recorded by then is synced. So the journal has to name the new file before.
func TestHideAgainRecordsFirst(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	h := newHiding(t, fsys.FS, func(o *Options) { o.FS = fsys })
	h.putMany(100, time.Hour)
	h.work()
	for id := range uint64(90) {
		if _, err := h.Remove(h.now, []byte("q"), "", Which{ID: id + 1}); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, h.Engine, Ticket{Written: h.journal.End()})
	s, q, done := h.spool, h.queue(), make(chan bool)
	fsys.datasync = func(call func() error) error { // of the new file
		s.mu.Lock()
		return call()
	}
	go func() {
		s.hide(q)
		close(done)
	}()
	for stacks := make([]byte, 1<<20); !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*spool).spend")); {
		runtime.Gosched()
	}
	named := false
	for b := unwritten(h.Engine); len(b) > 0; {
		r, n, err := record.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		named, b = named || r.Kind == record.KindHidden, b[n:]
	}
	s.mu.Unlock()
	<-done
	if fsys.datasync = nil; !named {
		t.Error("the old file is spent, and the journal does not name the new one yet")
	}
	h.restart(false)
	if n := h.disk(); n != 10 {
		t.Errorf("%d delayed items are left, want 10", n)
	}
}

// TestHideAgainBesideDelete deletes or flushes a queue whose run of delayed items is about to be written again, and the file
// goes. That is no error for the log, and no other file is made.
func TestHideAgainBesideDelete(t *testing.T) {
	for name, remove := range map[string]func(h *hiding){
		"delete": func(h *hiding) { h.Delete(h.now, []byte("q")) },
		"flush":  func(h *hiding) { h.Flush(h.now, []byte("q"), "") },
	} {
		var log bytes.Buffer
		fsys := &hookFS{FS: segmenttest.New()}
		h := newHiding(t, fsys.FS, func(o *Options) { o.FS, o.Logger = fsys, slog.New(slog.NewTextHandler(&log, nil)) })
		h.putMany(100, time.Hour)
		h.work()
		for id := range uint64(90) {
			if _, err := h.Remove(h.now, []byte("q"), "", Which{ID: id + 1}); err != nil {
				t.Fatal(err)
			}
		}
		gone := 0
		fsys.openRead = func() {
			fsys.openRead, gone = nil, len(runFiles(h.fsys))
			remove(h)
			h.spool.tendHidden()
			gone -= len(runFiles(h.fsys))
		}
		h.spool.hide(h.queue())
		if files := runFiles(h.fsys); gone != 1 || len(files) > 0 {
			t.Errorf("%s: %d files are removed, and those left are %q", name, gone, files)
		}
		if strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: the log has an error:\n%s", name, &log)
		}
	}
}

// TestSpentGoesBehindRecord writes a run of delayed items again, and removes the old file. The journal says by then, in
// its file too, that the items live in the new one.
func TestSpentGoesBehindRecord(t *testing.T) {
	fsys := segmenttest.New()
	h := newHiding(t, fsys)
	h.putMany(100, time.Hour)
	h.work()
	old := runFiles(fsys)
	for id := range uint64(90) {
		if _, err := h.Remove(h.now, []byte("q"), "", Which{ID: id + 1}); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, h.Engine, Ticket{Written: h.journal.End()})
	h.spool.hide(h.queue())
	if err := h.spool.removeSpent(); err != nil {
		t.Fatal(err)
	}
	if files := runFiles(fsys); len(files) != 1 || slices.Equal(files, old) {
		t.Fatalf("the files are %q, before that %q", files, old)
	}
	synced := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	for _, image := range []*segmenttest.FS{fsys.Kill(), synced} {
		e := openQuiet(t, testOptions(image))
		if all := e.Withheld(); len(all) > 0 {
			t.Fatalf("a start withholds the queue: %v", all[0].Reason)
		}
		if n := e.Recovery().Items; n != 10 {
			t.Errorf("%d delayed items are left, want 10", n)
		}
	}
}

// TestHideBesideDelete deletes a queue while delayed items of it are written to a file. Neither the file nor memory is left.
func TestHideBesideDelete(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	h := newHiding(t, fsys.FS, func(o *Options) { o.FS = fsys })
	h.putMany(100, time.Hour)
	q := h.queue()
	fsys.datasync = func(call func() error) error { // of the new file
		fsys.datasync = nil
		h.Delete(h.now, []byte("q"))
		return call()
	}
	h.spool.hide(q)
	h.spool.tend()
	mustCommit(t, h.Engine, Ticket{Written: h.journal.End()}) // records that are to be written count
	h.wantNothingLeft()
}

// TestReadBackBehindFlush flushes a queue whose delayed items are about to be read back. Those that are hidden later come
// back when they are due.
func TestReadBackBehindFlush(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.putMany(20, time.Hour)
	h.work()
	h.now = h.now.After(time.Hour)
	if _, err := h.Fetch(h.now, []byte("q"), FetchRequest{}, &copied{}); h.disk() != 20 || err != ErrEmpty {
		t.Fatalf("with %d items on disk a fetch got %v", h.disk(), err)
	}
	if _, err := h.Flush(h.now, []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	h.work()
	h.putMany(20, time.Hour)
	h.work()
	h.now = h.now.After(2 * time.Hour)
	_, err := h.Fetch(h.now, []byte("q"), FetchRequest{}, &copied{})
	if h.disk() != 20 || err != ErrComing {
		t.Fatalf("with %d items on disk a fetch got %v", h.disk(), err)
	}
	h.work()
	if _, err := h.Fetch(h.now, []byte("q"), FetchRequest{}, &copied{}); err != nil {
		t.Errorf("behind the flush a fetch got %v", err)
	}
}

// TestUnloadBesideRead tests that items leave memory for a run while nobody reads frames back. Who reads one passes the
// items that are in memory, and nobody comes for them again.
func TestUnloadBesideRead(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.putMany(2*hidePiece+10, time.Hour)
	s := h.spool
	job, _ := s.beginHide(h.queue(), func(*hideJob) bool { return true })
	for s.gather(job) {
	}
	if err := s.writeHidden(job); err != nil {
		t.Fatal(err)
	}
	pieces := 0
	h.precise = func() (Time, time.Duration) {
		if pieces++; s.readMu.TryLock() {
			s.readMu.Unlock()
			t.Error("items leave memory, and a frame with them may be read")
		}
		return h.now, 0
	}
	s.unload(job)
	s.endBatch()
	if h.disk() != 2*hidePiece+10 || pieces < 3 {
		t.Errorf("%d items are on disk alone, in %d pieces", h.disk(), pieces)
	}
}

// TestUnloadBehindRead reads delayed items back just when their file was written again, and before those that are in
// memory leave it. A delay that one of them gets later survives a reload that has the queue enter the journal.
func TestUnloadBehindRead(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.put(20 * time.Second)
	h.put(21500 * time.Millisecond)
	const others = 40
	for range others {
		p := PutRequest{Data: make([]byte, 4<<10), Extra: &PutExtra{Delay: 2 * time.Hour}}
		if _, err := h.Put(h.now, []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	h.work()
	for id := range uint64(others - 4) {
		if _, err := h.Remove(h.now, []byte("q"), "", Which{ID: id + 3}); err != nil {
			t.Fatal(err)
		}
	}
	h.now = h.now.After(19500 * time.Millisecond)
	s, q := h.spool, h.queue()
	job, ok := s.beginHide(q, func(job *hideJob) bool {
		job.old = q.hiddenRuns()
		return s.isWasteful(job.old[0], h.now)
	})
	if !ok || s.copyLiving(q, job.old[0]) != nil || s.writeHidden(job) != nil {
		t.Fatal("the file was not written again")
	}
	s.unhide(q)
	if n := h.disk(); n != 4 {
		t.Fatalf("%d items are on disk alone, want 4", n)
	}
	s.unload(job)
	s.endBatch()
	which := LookRequest{Which: Which{ID: 2}, Wait: true}
	if _, err := h.Change(h.now, []byte("q"), &which, Changes{SetDelay: true, Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		o := h.opts.Settings
		o.Default.KeepJournal = keep
		if err := h.Reload(o); err != nil {
			t.Fatal(err)
		}
	}
	if n := kill(t, h.Engine).Recovery().Items; n != 6 {
		t.Errorf("a start has %d items, want 6", n)
	}
}
