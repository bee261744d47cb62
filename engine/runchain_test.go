package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// restartAs ends e and starts another engine on what that leaves: a kill, or a power cut that keeps
// what was synced alone.
func restartAs(t *testing.T, e *Engine, power bool, change ...func(*QueueOptions)) *Engine {
	t.Helper()
	fsys := e.opts.FS.(*segmenttest.FS)
	if power {
		fsys = fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	} else {
		fsys = fsys.Kill()
	}
	o := testOptions(fsys, change...)
	o.JournalSize = e.opts.JournalSize
	return openQuiet(t, o)
}

// turnOver has the journal drop all that it does not need.
func turnOver(t *testing.T, e *Engine) {
	t.Helper()
	for range 60 {
		mustPut(t, e, "other", strings.Repeat("x", 100))
		mustGet(t, e, "other")
	}
	if err := e.trimJournal(); err != nil {
		t.Fatal(err)
	}
}

// TestRunWithGaps spills items between which others were confirmed before the process started. When the run has been
// drained, its file goes. No later start may look for it, however the process ends and whatever the journal has
// dropped.
func TestRunWithGaps(t *testing.T) {
	small := func(o *QueueOptions) { o.MaxMemorySize = 500 }
	for _, tt := range []struct {
		name      string
		turnsOver bool // the journal does, before the drain
		reclaimed bool // the file goes before the process ends, not when the next one starts
	}{
		{"removed, journal turned over", true, true}, {"removed", false, true},
		{"found at start, journal turned over", true, false}, {"found at start", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newQuiet(t)
			putMany(t, e, "q", 0, 40)
			var refs []ReadRef
			for range 5 {
				ref, _ := mustOpen(t, e, "q")
				refs = append(refs, ref)
			}
			for _, ref := range refs[1:4] { // the first is still being worked on
				mustCommitted(t, e)(e.Confirm(Now(), ref))
			}
			e = restartAs(t, e, false, small)
			putMany(t, e, "q", 40, 20)
			awaitRuns(e)
			if len(runFiles(e.opts.FS.(*segmenttest.FS))) == 0 {
				t.Fatal("nothing was spilled")
			}
			if tt.turnsOver {
				turnOver(t, e)
			}
			if got := drain(t, e, "q"); len(got) != 57 {
				t.Errorf("%d items came out, want 57", len(got))
			}
			for round := range 4 {
				if tt.reclaimed || round > 0 {
					awaitRuns(e)
				}
				if round > 1 { // before, nothing but what removed the file may have written to the journal
					turnOver(t, e)
				}
				verify(t, e)
				e = restartAs(t, e, round == 3, small)
				wantItems(t, e, "q", "")
			}
			if left := runFiles(e.opts.FS.(*segmenttest.FS)); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// TestVerifyItemBesideRuns spills an item whose neighbours were spilled before it, by an earlier process. A start then
// has it from the record of its put, which comes before those of both runs. The run's file may go without another word
// about it. Verify must see that as a start does.
func TestVerifyItemBesideRuns(t *testing.T) {
	small := func(o *QueueOptions) { o.MaxMemorySize = 500 }
	for _, tt := range []struct {
		name string
		put  func(*testing.T, *Engine)
	}{
		{"one by one", func(t *testing.T, e *Engine) { putMany(t, e, "q", 0, 5) }},
		{"at once", func(t *testing.T, e *Engine) {
			var puts []PutRequest
			for i := range 5 {
				puts = append(puts, PutRequest{Data: fmt.Appendf(nil, "%030d", i)})
			}
			if s, err := e.PutAll(Now(), []byte("q"), puts); s.Count != len(puts) || err != nil {
				t.Fatalf("PutAll = %+v, %v", s, err)
			}
		}},
		{"to a fanout queue", func(t *testing.T, e *Engine) {
			if _, err := e.Create(Now(), []byte("q+child")); err != nil {
				t.Fatal(err)
			}
			putMany(t, e, "q", 0, 5)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newQuiet(t, small)
			tt.put(t, e)
			_, want := mustOpen(t, e, "q")
			putMany(t, e, "q", 5, 35)
			awaitRuns(e)
			drain(t, e, "q") // all but the first
			awaitRuns(e)
			putMany(t, e, "q", 40, 10)
			e = restartAs(t, e, false, tiny)
			awaitRuns(e)
			if e.shardOf([]byte("q")).queues["q"].backlog == nil {
				t.Fatal("nothing was spilled")
			}
			if err := e.journal.WriteOut(); err != nil { // what says so
				t.Fatal(err)
			}
			e = restartAs(t, e, false, tiny)
			if _, got := mustOpen(t, e, "q"); got != want {
				t.Fatalf("opened %q, want %q", got, want)
			}
			drain(t, e, "q")
			awaitRuns(e)
			verify(t, e)
			e = restartAs(t, e, true, tiny)
			wantItems(t, e, "q", want)
		})
	}
}

// TestStrayRunsAreLogged: a start says in one line how many files it removes that belong to no queue,
// and nothing if there are none.
func TestStrayRunsAreLogged(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	start := func(fsys *segmenttest.FS) string {
		var out bytes.Buffer
		o := testOptions(fsys, tiny)
		o.Logger = slog.New(slog.NewTextHandler(&out, nil))
		openQuiet(t, o)
		return out.String()
	}
	putMany(t, e, "q", 0, 40)
	if got := start(fsys.Kill()); strings.Contains(got, "belong to no queue") {
		t.Errorf("without a backlog the start logs %s", got)
	}
	spoolSome(e, 1) // written, and not recorded
	putMany(t, e, "another", 0, 40)
	spoolSome(e, 1)
	size := 0
	for _, name := range runFiles(fsys) {
		size += len(dumpOf(fsys)[name])
	}
	got := start(fsys.Kill())
	want := fmt.Sprintf("files=2 bytes=%d first=data/backlog/0000000001.run", size)
	if strings.Count(got, "belong to no queue") != 1 || !strings.Contains(got, want) {
		t.Errorf("the start logs %s, want %s", got, want)
	}
}

// TestRestartChain uses what a crash leaves, crashes it, and uses that, many times over. Reads are confirmed out of
// order, brought back or left open, and backlogs come and go. The journal is always too large, queues leave it and
// enter it, and files are still there when the process ends. Every item that was put and not removed is there, in
// order, after each start.
//
// To replay a failure: go test ./engine -run TestRestartChain -seed N
func TestRestartChain(t *testing.T) {
	first, seeds := uint64(1), amount[uint64](5, 20, 2000)
	if *seedFlag != 0 {
		first, seeds = *seedFlag, 1
	}
	for seed := first; seed < first+seeds; seed++ {
		c := &chain{T: t, Rand: rand.New(rand.NewPCG(seed, 13)), live: map[string]map[string]bool{}}
		o := testOptions(segmenttest.New())
		o.SegmentSize, o.JournalSize = 1024, []int64{0, 4096, 1 << 20}[seed%3]
		c.e = openQuiet(t, o)
		t.Cleanup(func() {
			if t.Failed() && !c.done {
				t.Logf("replay with: go test ./engine -run TestRestartChain -seed %d", seed)
			}
		})
		for range 12 {
			for range 15 + c.IntN(60) {
				if c.step(); t.Failed() {
					t.FailNow()
				}
			}
			if err := c.e.Verify(); err != nil {
				t.Fatalf("seed %d: Verify = %v", seed, err)
			}
			c.restart(seed)
		}
		c.done = true
	}
}

// chain is a run of TestRestartChain.
type chain struct {
	*testing.T
	*rand.Rand
	e    *Engine
	n    int
	live map[string]map[string]bool // by queue: the data of the items that are neither gone nor dropped
	open []openItem
	done bool
}

type openItem struct {
	queue, data string
	ref         ReadRef
}

func (c *chain) step() {
	name := []string{"a", "b", "a+x"}[c.IntN(3)]
	if c.live[name] == nil {
		mustCommitted(c, c.e)(c.make(name), true)
		c.live[name] = make(map[string]bool)
	}
	switch n := c.IntN(20); {
	case n < 7:
		for range 1 + c.IntN(8) {
			c.n++
			data := fmt.Sprintf("%0*d", 8+c.IntN(60), c.n)
			mustPut(c, c.e, name, data)
			c.live[name][data] = true
			if child := c.live[name+"+x"]; child != nil {
				child[data] = true
			}
		}
	case n < 9:
		for range c.IntN(15) {
			data, ok := tryGet(c, c.e, name)
			if ok && !c.live[name][data] {
				c.Errorf("queue %q gave %q, which is gone or was never put", name, data)
			}
			delete(c.live[name], data)
		}
	case n < 12:
		for range c.IntN(6) {
			c.openOne(name)
		}
	case n < 15:
		c.endSome()
	case n < 17:
		spoolSome(c.e, 1+c.IntN(5))
	case n < 18:
		c.e.spool.tend()
		spoolSome(c.e, c.IntN(5))
	case n < 19:
		c.e.boundJournal()
		if err := c.e.trimJournal(); err != nil {
			c.Errorf("trim = %v", err)
		}
	default:
		c.seldom(name)
	}
}

// make makes a queue, which may be a fanout child.
func (c *chain) make(name string) Ticket {
	ticket, err := c.e.Create(Now(), []byte(name))
	if err != nil {
		c.Errorf("Create = %v", err)
	}
	return ticket
}

// seldom does what drops all that a queue holds, or how the journal has it.
func (c *chain) seldom(name string) {
	switch c.IntN(9) {
	case 0:
		ticket, err := c.e.Flush(Now(), []byte(name), "")
		if err != nil {
			c.Errorf("Flush = %v", err)
		}
		mustCommit(c, c.e, ticket)
		maps.DeleteFunc(c.live[name], func(data string, _ bool) bool { return !c.isOpen(name, data) })
	case 1:
		mustCommit(c, c.e, c.e.Delete(Now(), []byte(name)))
		c.live[name] = nil
		c.open = slices.DeleteFunc(c.open, func(o openItem) bool { return o.queue == name })
	case 2: // syncs of runs fail: what is in doubt is written to other files
		fsys := c.e.opts.FS.(*segmenttest.FS)
		fsys.SetFault([]func(segmenttest.Op) segmenttest.Fault{
			failRunSyncs, failRunDirs(syscall.EIO), failRunDirs(syscall.EMFILE),
		}[c.IntN(3)])
		c.e.spool.tend()
		spoolSome(c.e, c.IntN(6))
		fsys.SetFault(nil)
		spoolSome(c.e, c.IntN(6))
	case 3: // as after a sync of it that failed
		if err := c.e.moveJournal(); err != nil {
			c.Errorf("move journal: %v", err)
		}
	case 4, 5:
		keepJournal(c, c.e, name, false)
		spoolSome(c.e, c.IntN(4))
		keepJournal(c, c.e, name, true)
	default:
		for range c.IntN(50) {
			mustPut(c, c.e, "other", strings.Repeat("x", 50))
			mustGet(c, c.e, "other")
		}
	}
}

func (c *chain) isOpen(name, data string) bool {
	return slices.ContainsFunc(c.open, func(o openItem) bool { return o.queue == name && o.data == data })
}

func (c *chain) openOne(name string) {
	var got copied
	f, err := c.e.Fetch(Now(), []byte(name), FetchRequest{Access: OpenRead}, &got)
	for ; err == ErrComing; f, err = c.e.Fetch(Now(), []byte(name), FetchRequest{Access: OpenRead}, &got) {
		spoolAll(c.e)
	}
	if err == nil {
		c.open = append(c.open, openItem{name, string(got.item.Data), f.Read})
	} else if err != ErrEmpty {
		c.Errorf("Fetch = %v", err)
	}
}

// endSome ends some open reads, in no order.
func (c *chain) endSome() {
	for range c.IntN(5) {
		if len(c.open) == 0 {
			return
		}
		i := c.IntN(len(c.open))
		o := c.open[i]
		c.open = slices.Delete(c.open, i, i+1)
		if c.IntN(4) == 0 {
			c.e.Abort(Now(), o.ref)
			continue
		}
		mustCommitted(c, c.e)(c.e.Confirm(Now(), o.ref))
		delete(c.live[o.queue], o.data)
	}
}

// restart ends the process and compares what the next one finds.
func (c *chain) restart(seed uint64) {
	c.Helper()
	memory := []int64{60, 300, 1500, 1 << 20}[c.IntN(4)]
	c.e = restartAs(c.T, c.e, c.IntN(3) == 0, func(o *QueueOptions) { o.MaxMemorySize = memory })
	c.open = nil
	for name, live := range c.live {
		var got []string
		for _, it := range contents(c.e, name, true) {
			got = append(got, strings.TrimLeft(string(it.Data), "0"))
		}
		var want []string
		for data := range live {
			want = append(want, strings.TrimLeft(data, "0"))
		}
		slices.SortFunc(want, func(a, b string) int { return number(a) - number(b) })
		if !slices.Equal(got, want) {
			c.Fatalf("seed %d: queue %q holds %v, want %v", seed, name, got, want)
		}
	}
}

func number(s string) (n int) {
	fmt.Sscan(s, &n)
	return n
}
