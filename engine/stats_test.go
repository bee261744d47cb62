package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// meterOf puts an item and returns the queue's Meter.
func meterOf(t *testing.T, e *Engine, name string) *Meter {
	t.Helper()
	s, err := e.PutAll(Now(), []byte(name), []PutRequest{{Data: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, s.Ticket)
	return s.Meter
}

// metricsText lists, for each queue, how many values there are by Measure, and of ages.
func metricsText(e *Engine) string {
	queues, ages := e.Metrics()
	text := ""
	for _, q := range queues {
		text += q.Name
		for _, c := range append(q.Times[:], q.Ages) {
			if c == nil {
				text += " -"
			} else {
				text += fmt.Sprint(" ", c.Total())
			}
		}
		text += "\n"
	}
	return fmt.Sprint(text, "all ", ages.Total())
}

func TestMeters(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys)
	o.Settings.Aliases = map[string][]string{"alias": {"b"}}
	e := openQuiet(t, o)
	expect := func(what, want string) {
		t.Helper()
		if got := metricsText(e); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
		}
	}
	a, b := meterOf(t, e, "a"), meterOf(t, e, "b")
	if a == nil || b == nil || a == b || a != meterOf(t, e, "a") {
		t.Errorf("meters of a and b: %p, %p", a, b)
	}
	if m := meterOf(t, e, "alias"); m != nil {
		t.Errorf("an alias has a meter: %p", m)
	}
	expect("nothing was recorded", "all 0")
	e.Record([]Sample{{a, 10, 3, PutTime}, {b, 20, 1, MissTime}, {a, 30, 4, WaitTime}, {a, 10, 1, PutTime}})
	e.Record(nil)
	expect("recorded", "a 4 - - 4 -\nb - - 1 - -\nall 0")
	mustGet(t, e, "a")
	r, _ := mustOpen(t, e, "a")
	e.Abort(Now(), r)
	expect("ages of what was handed out", "a 4 - - 4 2\nb - - 1 - -\nall 2")
	queues, _ := e.Metrics()
	if c := queues[0].Times[PutTime]; c.Sum() != 40 || c.Max() != 10 {
		t.Errorf("puts to a = %+v", c)
	}
	queues[0].Times[PutTime].Record(1, 1)
	expect("a copy was changed", "a 4 - - 4 2\nb - - 1 - -\nall 2")
	mustCommit(t, e, e.Delete(Now(), []byte("a")))
	e.Record([]Sample{{a, 10, 3, PutTime}})
	expect("a is deleted; its ages are in the sum", "b - - 1 - -\nall 2")
	if m := meterOf(t, e, "a"); m == a {
		t.Error("a queue that was made again has its old meter")
	}
	expect("made again", "b - - 1 - -\nall 2")

	e = kill(t, e)
	e.eachQueue(func(q *queue) {
		if q.meter != nil {
			t.Errorf("queue %s has a meter before it is used", q.name)
		}
	})
	mustGet(t, e, "none")
	mustGet(t, e, "b")
	expect("after a restart", "b - - - - 1\nall 1")
}

func TestNoMeters(t *testing.T) {
	o := testOptions(newFS())
	o.NoHistograms = true
	e := openQuiet(t, o)
	if m := meterOf(t, e, "q"); m != nil {
		t.Errorf("there is a meter: %p", m)
	}
	mustGet(t, e, "q")
	if got := metricsText(e); got != "all 0" {
		t.Errorf("metrics = %s", got)
	}
}

// TestAges tests that an item's age is the time from its put until it is handed out. That includes an item that a
// waiter gets, and each time that an item is handed out again.
func TestAges(t *testing.T) {
	e, _ := newQuiet(t)
	now, q := Now(), []byte("q")
	put := func() {
		ticket, err := e.Put(now, q, PutRequest{Data: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	fetch := func(f FetchRequest) Fetched {
		got, err := e.Fetch(now, q, f, &copied{})
		if err != nil && err != ErrEmpty {
			t.Fatal(err)
		}
		return got
	}
	put()
	now += 1000
	r := fetch(FetchRequest{Access: OpenRead}).Read
	now += 1000
	e.Abort(now, r)
	fetch(FetchRequest{Access: Peek}) // is not handed out
	fetch(FetchRequest{})
	woken := make(wakeUp, 1)
	fetch(FetchRequest{Waiter: &Waiter{Notify: woken}})
	now += 500
	put()
	<-woken
	_, ages := e.Metrics()
	if ages.Total() != 3 || ages.Sum() != 1000+2000+0 || ages.Max() != 2000 {
		t.Errorf("ages = %d, sum %d, max %d", ages.Total(), ages.Sum(), ages.Max())
	}
}

// TestSyncMetrics tests how long syncs take, and how late periodic ones come, when each takes 30
// ms.
func TestSyncMetrics(t *testing.T) {
	const took = 30 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		fsys := &hookFS{FS: segmenttest.New()}
		fsys.datasync = func(call func() error) error {
			<-time.After(took)
			return call()
		}
		e, err := Open(testOptions(fsys, func(o *QueueOptions) { o.Sync = SyncEvery(50 * time.Millisecond) }))
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, e, "q", "x")
		<-time.After(90 * time.Millisecond)
		syncs, late := e.SyncMetrics()
		if syncs.Total() != 1 || syncs.Max() != took.Microseconds() {
			t.Errorf("syncs = %d of %d µs", syncs.Total(), syncs.Max())
		}
		if late.Total() != 1 || late.Max() < took.Microseconds() || late.Max() > took.Microseconds()+1000 {
			t.Errorf("late = %d of %d µs, want one of %v", late.Total(), late.Max(), took)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
