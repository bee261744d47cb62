package engine

import (
	"strings"
	"testing"
)

// putAhead puts items of 64 KiB until a ticket says that the queue is ahead of the disk, and returns
// how many.
func putAhead(t *testing.T, e *Engine, name string, most int) (n int) {
	t.Helper()
	data := []byte(strings.Repeat("x", 64<<10))
	for ahead := false; !ahead; n++ {
		if n == most {
			t.Fatalf("not ahead of the disk after %d items", n)
		}
		put, err := e.PutAll(Now(), []byte(name), []PutRequest{{Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, put.Ticket)
		ahead = put.Ahead
	}
	return n
}

// TestAheadOfBacklog has a queue outgrow its memory while nothing is spilled. Its puts, and those to whatever leads to
// it, are ahead of the disk until that has caught up, and others are not.
func TestAheadOfBacklog(t *testing.T) {
	const memory, item = 1 << 20, 64 << 10
	o := testOptions(newFS(), func(o *QueueOptions) { o.MaxMemorySize = memory })
	o.JournalSize, o.SegmentSize = 1<<30, 32<<20
	o.Settings.Aliases = map[string][]string{"alias": {"other", "q+child"}}
	e := openQuiet(t, o)
	mustPut(t, e, "other", "x")
	if n, want := putAhead(t, e, "q+child", 1000), (memory+maxLeaving)/item; n < want || n > want+2 {
		t.Errorf("ahead of the disk after %d items, want %d or a little more", n, want)
	}
	mustPut(t, e, "q", "x")
	for name, want := range map[string]bool{
		"q+child": true, "q": true, "alias": true, "other": false, "none": false,
	} {
		if got := e.Ahead([]byte(name)); got != want {
			t.Errorf("Ahead(%q) = %v, want %v", name, got, want)
		}
	}
	e.spool.failing.Store(true)
	if e.Ahead([]byte("q+child")) {
		t.Error("ahead of a disk that fails: who waits would wait for nothing")
	}
	e.spool.failing.Store(false)
	spoolAll(e)
	if e.Ahead([]byte("q+child")) {
		t.Error("ahead of the disk after everything was spilled")
	}
}

// TestAheadOfJournal has the journal outgrow its size while nothing is trimmed. A queue that is in
// read-behind, and makes it grow twice, is ahead before others are.
func TestAheadOfJournal(t *testing.T) {
	const times = 3 // its size
	o := testOptions(newFS(), func(o *QueueOptions) { o.MaxMemorySize = 1 << 20 })
	o.JournalSize, o.SegmentSize = 2<<20, 256<<10
	e := openQuiet(t, o)
	for e.journal.Segment()-e.journal.Segments()[0].Number <= times*8+1 {
		if e.Ahead([]byte("spills")) {
			t.Fatal("ahead of a journal that is not too large")
		}
		mustPut(t, e, "spills", strings.Repeat("x", 64<<10))
		spoolAll(e)
	}
	mustPut(t, e, "memory", "x")
	if !e.Ahead([]byte("spills")) || e.Ahead([]byte("memory")) {
		t.Errorf("a large journal: Ahead = %v in read-behind, %v in memory, want true, false",
			e.Ahead([]byte("spills")), e.Ahead([]byte("memory")))
	}
	for range 2 * int(o.JournalSize) * times / (64 << 10) {
		mustPut(t, e, "spills", strings.Repeat("x", 64<<10))
		spoolAll(e)
	}
	if !e.Ahead([]byte("memory")) {
		t.Error("a very large journal: not ahead of it")
	}
	e.boundJournal()
	spoolAll(e)
	if err := e.trimJournal(); err != nil {
		t.Fatal(err)
	}
	if e.Ahead([]byte("memory")) || e.Ahead([]byte("spills")) {
		t.Errorf("ahead of a journal of %d segments after it was trimmed", len(e.journal.Segments()))
	}
}
