package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestQueueStats(t *testing.T) {
	runScripts(t, []scriptTest{
		{"6.4 items, bytes, mem_items", `
			put q aaa
			put q bb
			stats q items bytes mem -> 2 5 2
			get q -> aaa
			stats q items bytes mem -> 1 2 1`},
		{"6.4 total_items counts what the replay found", `
			put q a
			put q b
			get q -> a
			restart
			stats q puts replayed items -> 0 1 1
			put q c
			stats q puts replayed -> 1 1`},
		{"6.4 counters start at zero with the process and with the queue", `
			put q a
			get q -> a
			flush q
			restart
			stats q puts hits flushes replayed -> 0 0 0 0
			put q a
			delete q
			put q b
			stats q puts -> 1`},
		{"6.4 age: of the head, while nothing was removed", `
			put q a
			after 2s
			put q b
			after 1s
			stats q age -> 3000`},
		{"6.4 age: since the item removed last was added; it grows between fetches", `
			put q a
			after 2s
			put q b
			after 1s
			get q -> a
			stats q age -> 3000
			after 1s
			stats q age -> 4000
			put q c
			get q -> b
			stats q age -> 2000`},
		{"6.4 age: zero of an empty queue", `
			put q a
			after 2s
			get q -> a
			stats q age -> 0
			restart
			stats q age -> 0`},
		{"6.4 age: of the head again, after the queue was empty", `
			put q a
			after 2s
			get q -> a
			after 2s
			put q b
			after 1s
			stats q age -> 1000`},
		{"6.4 age: an open read counts as removed", `
			put q a
			after 2s
			put q b
			after 1s
			open q r -> a
			stats q age -> 3000`},
		{"6.4 age: of the head after a restart", `
			put q a
			after 2s
			put q b
			get q -> a
			restart
			after 1s
			stats q age -> 1000`},
		{"6.4 age: expired and flushed items", `
			put q a expiry=+1s
			after 3s
			put q b
			stats q age -> 0
			flush q
			stats q age -> 0`},
		{"6.4 total_flushes, discarded, expired_items", `
			set q max_items=1 discard
			put q a
			put q b
			flush q
			put q c expiry=+1s
			after 2s
			flushexpired q -> 1
			stats q flushes discarded expired -> 1 1 1`},
		{"6.4 children", `
			get p+b -> empty
			get p+a -> empty
			get p -> empty
			stats p children -> p+a,p+b
			delete p+a
			stats p children -> p+b
			restart
			stats p children -> p+b
			delete p+b
			stats p children ->`},
	})
}

func TestStats(t *testing.T) {
	e, _ := newQuiet(t)
	mustPut(t, e, "a", "x")
	mustPut(t, e, "b", "x")
	e.Delete(Now(), []byte("b"))
	s := e.Stats()
	if s.Queues != 1 || s.Created != 2 || s.Deleted != 1 || s.Expired != 0 {
		t.Errorf("Stats = %+v, want 1 queue, 2 created, 1 deleted", s)
	}
	if s.JournalBytes != 4096 || s.JournalFailing || s.DiskFull {
		t.Errorf("Stats = %+v, want a journal of one segment of 4096 bytes, in order", s)
	}
	if s.MemoryLimit != testMemory {
		t.Errorf("MemoryLimit = %d, want the one given", s.MemoryLimit)
	}
	o := testOptions(segmenttest.New())
	o.MemoryLimit = 0
	if got := openQuiet(t, o).Stats().MemoryLimit; got != DefaultMemoryLimit() {
		t.Errorf("MemoryLimit = %d, want the default of %d", got, DefaultMemoryLimit())
	}
	if got := e.OptionsFor("z"); got != DefaultQueueOptions() {
		t.Errorf("OptionsFor = %+v, want the default", got)
	}
	all := e.Queues(Now())
	if len(all) != 1 || all[0].Name != "a" || all[0].Options != DefaultQueueOptions() {
		t.Errorf("Queues = %+v, want a", all)
	}
}

// TestQueueJournalBytes compares what a queue is said to take in the journal with what it does.
func TestQueueJournalBytes(t *testing.T) {
	e, _ := newQuiet(t)
	mustGet(t, e, "q")
	before := e.journal.End()
	for range 3 {
		mustPut(t, e, "q", "hello")
	}
	took := int64(e.journal.End() - before)
	mustOpen(t, e, "q")
	s, _ := e.QueueStats(Now(), []byte("q"))
	if names := took - s.JournalBytes; names < 0 || names > 3*2 { // queue and item, once a frame
		t.Errorf("JournalBytes = %d, of the %d bytes that were journaled", s.JournalBytes, took)
	}
	off := Settings{Default: DefaultQueueOptions()}
	off.Default.KeepJournal = false
	if err := e.Reload(off); err != nil {
		t.Fatal(err)
	}
	if s, _ := e.QueueStats(Now(), []byte("q")); s.JournalBytes != 0 {
		t.Errorf("JournalBytes of a queue without journal = %d", s.JournalBytes)
	}
}

func TestTrace(t *testing.T) {
	var out bytes.Buffer
	o := testOptions(newFS(), func(o *QueueOptions) { o.Trace = true })
	o.Logger = slog.New(slog.NewTextHandler(&out, nil))
	e := openQuiet(t, o)
	mustPut(t, e, "q", "a")
	r, _ := mustOpen(t, e, "q")
	e.Abort(Now(), r)
	r, _ = mustOpen(t, e, "q")
	mustCommitted(t, e)(e.Confirm(Now(), r))
	for _, what := range []string{
		"what=open queue=q item=1", "what=abort queue=q", "what=confirm queue=q",
	} {
		if !strings.Contains(out.String(), what) {
			t.Errorf("log lacks %q:\n%s", what, out.String())
		}
	}
}
