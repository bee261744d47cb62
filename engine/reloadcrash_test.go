package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// crossingLedger is what crossingScript has asked for.
type crossingLedger struct {
	live     []map[string]string // what a crash may leave, of which one is there as a whole: states by body
	parts    map[string]string   // what a part of may be there while a reload is under way; nil if none is
	reloads  int
	recorded int // crossings that took more than one piece
	at       string
}

// states words what there is of every item of a queue.
func states(e *Engine) map[string]string {
	all := make(map[string]string)
	q := e.shardOf([]byte("q")).queues["q"]
	if q == nil {
		return all
	}
	for _, it := range contents(e, "q", true) {
		all[string(it.Data)] = "in line"
	}
	if q.aside == nil {
		return all
	}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	for r := range aside.Ref(q.aside.Len()) {
		entry := q.aside.Get(r)
		switch entry.State {
		case aside.Delayed, aside.Leased:
			all[string(q.aside.Item(r).Data)] = fmt.Sprintf("%+v", entry)
		default:
			all[string(q.aside.Item(r).Data)] = "in line"
		}
	}
	for _, h := range hiddenEntries(e, q) {
		all[string(h.Data)] = fmt.Sprintf("%+v", aside.Entry{State: aside.Delayed, Due: h.Due, Count: h.Count})
	}
	return all
}

func crossingOptions(fsys segment.FS, now *Time) Options {
	o := markOptions(fsys)
	o.readBack, o.enterBatch = time.Second, 100
	o.Settings.Default.MaxDeliveries = 9
	return o
}

func openCrossing(fsys segment.FS, now *Time) (*Engine, error) {
	e, err := open(crossingOptions(fsys, now))
	if err == nil {
		e.precise = func() (Time, time.Duration) { return *now, 0 }
		e.spool.now = e.precise.Now
	}
	return e, err
}

// crossingScript has a queue leave the journal and enter it, until the machine stops. The queue has runs, items
// removed in the middle, reads, counted returns, leases and delayed items.
func crossingScript(t *testing.T, fsys *segmenttest.FS, now *Time) *crossingLedger {
	l := &crossingLedger{live: []map[string]string{{}}}
	e, err := openCrossing(fsys, now)
	if err != nil {
		return l
	}
	defer e.Close()
	do := func(f func()) { // something that a crash leaves done, or not, or a part of it as one of several requests
		if fsys.Stopped() {
			return
		}
		f()
		if fsys.Stopped() {
			return
		}
		mustCommit(t, e, Ticket{Written: e.journal.End(), Synced: e.journal.End()})
	}
	next := 0
	put := func(n int, delay time.Duration) {
		var all []PutRequest
		for range n {
			next++
			p := PutRequest{Data: fmt.Appendf(nil, "%030d", next)}
			if delay > 0 {
				p.Extra = &PutExtra{Delay: delay + time.Duration(next)*time.Millisecond}
			}
			all = append(all, p)
		}
		if _, err := e.PutAll(*now, []byte("q"), all); err != nil && !fsys.Stopped() {
			t.Fatal(err)
		}
		awaitRuns(e)
	}
	take := func(f FetchRequest) (ref ReadRef, receipt uint64) {
		about := Delivery{}
		f.Delivery = &about
		var got copied
		fetched, err := e.Fetch(*now, []byte("q"), f, &got)
		for ; err == ErrComing && !fsys.Stopped(); fetched, err = e.Fetch(*now, []byte("q"), f, &got) {
			spoolAll(e)
		}
		if err != nil && !fsys.Stopped() {
			t.Fatal(err)
		}
		return fetched.Read, about.Receipt
	}
	traffic := func() {
		put(20, 0)
		put(4, 1000*time.Second)
		e.spool.endRun(e.shardOf([]byte("q")).queues["q"])
		put(20, 0)
		awaitRuns(e)
		for id := uint64(next - 15); id < uint64(next) && !fsys.Stopped(); id += 2 {
			if _, err := e.Remove(*now, []byte("q"), "", Which{ID: id}); err != nil && !fsys.Stopped() {
				t.Fatal(err)
			}
		}
		for i := 0; i < 8 && !fsys.Stopped(); i++ {
			switch i % 4 {
			case 0:
				take(FetchRequest{Access: Lease, Lease: 5000 * time.Second})
			case 1:
				ref, _ := take(FetchRequest{Access: OpenRead})
				if !ref.IsZero() {
					e.Return(*now, []ReadRef{ref}, Return{How: Abort})
				}
				take(FetchRequest{Access: OpenRead})
			case 2:
				take(FetchRequest{})
			default:
				take(FetchRequest{Access: OpenRead})
			}
		}
		put(3, 2*time.Second) // these stay in memory
		awaitRuns(e)
	}
	reload := func(keep bool) {
		if fsys.Stopped() {
			return
		}
		before, now := l.live[len(l.live)-1], states(e)
		if keep {
			l.parts = now
		}
		l.live = []map[string]string{before, {}, now}
		o := crossingOptions(fsys, nil).Settings
		o.Default.KeepJournal = keep
		calls := e.journal.End()
		if e.Reload(o) != nil || fsys.Stopped() {
			return
		}
		if l.parts = nil; e.journal.End()-calls > 2*100 && keep {
			l.recorded++
		}
		l.reloads++
		if l.live = []map[string]string{{}}; keep {
			l.live = []map[string]string{now}
		}
		verify(t, e)
	}
	reload(false)
	do(traffic)
	reload(true)
	do(func() { awaitRuns(e); e.checkpoint(); awaitRuns(e) })
	reload(false)
	do(traffic)
	reload(true)
	do(func() { awaitRuns(e); e.trimJournal(); awaitRuns(e) })
	reload(false)
	reload(true)
	return l
}

// check fails the test unless an image is what a crash may leave.
func (l *crossingLedger) check(t *testing.T, image *segmenttest.FS, now *Time) {
	t.Helper()
	e, err := openCrossing(image, now)
	if err != nil {
		t.Fatalf("%s: %v", l.at, err)
	}
	if w := e.Withheld(); len(w) > 0 {
		t.Fatalf("%s: withheld are %+v", l.at, w)
	}
	if err := e.Verify(); err != nil {
		t.Fatalf("%s: %v", l.at, err)
	}
	found := states(e)
	if !l.mayBe(found) {
		t.Fatalf("%s: a crash leaves %d items, %s", l.at, len(found), l.differences(found))
	}
	last := 0
	for _, body := range drain(t, e, "q") {
		n, err := strconv.Atoi(body)
		if err != nil || n <= last {
			t.Fatalf("%s: item %q comes behind %d", l.at, body, last)
		}
		last = n
	}
	awaitRuns(e)
	if err := errors.Join(e.Verify(), e.Close()); err != nil {
		t.Fatalf("%s: %v", l.at, err)
	}
}

// mayBe reports whether a crash may leave what was found: one state as a whole or, beside a reload, a part of the items.
func (l *crossingLedger) mayBe(found map[string]string) bool {
	for _, live := range l.live {
		if fmt.Sprint(live) == fmt.Sprint(found) {
			return true
		}
	}
	for body, state := range found {
		if want, ok := l.parts[body]; !ok || state != want && state != "in line" {
			return false
		}
	}
	return l.parts != nil
}

// differences words what was found and should not be, or is missing.
func (l *crossingLedger) differences(found map[string]string) string {
	var b strings.Builder
	live := l.live[len(l.live)-1]
	for body, state := range live {
		if found[body] != state {
			fmt.Fprintf(&b, "%s is %q, want %q; ", strings.TrimLeft(body, "0"), found[body], state)
		}
	}
	for body := range found {
		if _, ok := live[body]; !ok {
			fmt.Fprintf(&b, "%s is %q, and should be gone; ", strings.TrimLeft(body, "0"), found[body])
		}
	}
	return b.String()
}

// TestReloadCrash stops the machine at every call that changes the disk while a queue leaves the journal and enters it
// in small pieces. A start always serves the queue. What a reload has acknowledged is there as it was; of one under way
// a part may be there, and nothing that was gone.
func TestReloadCrash(t *testing.T) {
	stride := amount(3, 1, 1)
	for n := 1; ; n += stride {
		fsys, now := segmenttest.New(), Time(1700000000000)
		fsys.StopInWrite(n, n*7%60)
		l := crossingScript(t, fsys, &now)
		stopped := fsys.Stopped()
		for what, image := range map[string]*segmenttest.FS{
			"kill": fsys.Kill(), "nothing kept": fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose}),
			"torn": fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Tear, Seed: uint64(n), ReorderMetadata: true}),
		} {
			l.at = fmt.Sprintf("call %d, %s, behind %d reloads", n, what, l.reloads)
			l.check(t, image, &now)
		}
		if !stopped {
			t.Logf("stopped at every call of %d, in steps of %d", n-1, stride)
			if l.reloads != 6 || l.recorded != 3 || n < 100 {
				t.Errorf("%d reloads, %d in pieces, %d calls", l.reloads, l.recorded, n)
			}
			return
		}
	}
}
