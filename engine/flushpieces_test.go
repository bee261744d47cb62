package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// heldQueue is a queue "q" with items everywhere, of which so many are held that a flush looks for them in pieces.
type heldQueue struct {
	*testing.T
	*Engine
	now    Time
	long   []uint64 // receipts of leases
	leased int      // of these, so many were taken last, between two pieces
	short  []uint64 // of leases that lapse after a second
	open   []ReadRef
	queued map[string]bool // bodies of what is queued
}

const (
	heldLong, heldShort, heldOpen = readBatch, 300, readBatch
	heldQueued                    = 100 // of each kind
)

func newHeldQueue(t *testing.T) *heldQueue {
	t.Helper()
	return newHeld(t, heldLong, heldShort, heldOpen, false)
}

// newHeld makes a heldQueue of which so many items are held. Behind each of them there may be one that is queued.
func newHeld(t *testing.T, long, short, open int, beside bool) *heldQueue {
	t.Helper()
	h := &heldQueue{T: t, now: 1700000000000, queued: make(map[string]bool)}
	h.Engine = h.reopen(segmenttest.New())
	for range long + short + open {
		if h.put("held", PutExtra{}); beside {
			h.queued[h.put("beside", PutExtra{Delay: time.Hour})] = true
		}
	}
	for range long {
		h.long = append(h.long, h.lease(time.Hour))
	}
	for range short {
		h.short = append(h.short, h.lease(time.Second))
	}
	for range open {
		ref, _ := mustOpen(t, h.Engine, "q")
		h.open = append(h.open, ref)
	}
	var back []ReadRef
	for range heldQueued {
		h.queued[h.put("back", PutExtra{})] = true
		ref, _ := mustOpen(t, h.Engine, "q")
		back = append(back, ref)
	}
	h.Return(h.now, back, Return{How: Abort})
	for range heldQueued {
		h.queued[h.put("delayed", PutExtra{Delay: time.Hour})] = true
		h.queued[h.put("line", PutExtra{})] = true
	}
	h.commit()
	return h
}

// reopen opens an engine in a file system with the clock of h.
func (h *heldQueue) reopen(fsys *segmenttest.FS) *Engine {
	h.Helper()
	o := testOptions(fsys, func(q *QueueOptions) { q.MaxMemorySize, q.MaxDeliveries = 1<<20, 3 })
	o.SegmentSize, o.readBack = 64<<10, time.Second
	e := openQuiet(h.T, o)
	e.precise = func() (Time, time.Duration) { return h.now, 0 }
	e.spool.now = func() Time { return h.now }
	return e
}

// put puts an item with a body and a key of its own, and returns the body.
func (h *heldQueue) put(kind string, x PutExtra) string {
	h.Helper()
	body := fmt.Sprint(kind, h.PutItems()+1)
	x.Key = []byte(body)
	if _, err := h.Put(h.now, []byte("q"), PutRequest{Data: []byte(body), Extra: &x}); err != nil {
		h.Fatal(err)
	}
	return body
}

// PutItems is how many items were put.
func (h *heldQueue) PutItems() int64 {
	s, _ := h.QueueStats(h.now, []byte("q"))
	return s.Puts
}

func (h *heldQueue) lease(d time.Duration) uint64 {
	h.Helper()
	var about Delivery
	f := FetchRequest{Access: Lease, Lease: d, Delivery: &about}
	if _, err := h.Fetch(h.now, []byte("q"), f, &copied{}); err != nil {
		h.Fatal(err)
	}
	return about.Receipt
}

func (h *heldQueue) queue() *queue { return h.shardOf([]byte("q")).queues["q"] }

func (h *heldQueue) commit() {
	h.Helper()
	mustCommit(h.T, h.Engine, Ticket{Written: h.journal.End(), Synced: h.journal.End()})
}

// standing returns what there is of "q": each item by its id, with until when it is delayed, or leased and by whom.
func (h *heldQueue) standing(e *Engine) map[uint64]string {
	all := make(map[uint64]string)
	for _, it := range contents(e, "q", true) {
		all[it.ID] = string(it.Data)
	}
	q := e.shardOf([]byte("q")).queues["q"]
	if q == nil {
		return all
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		all[id] = string(q.aside.Item(r).Data)
		switch entry := q.aside.Get(r); entry.State {
		case aside.Delayed:
			all[id] += fmt.Sprint(" until ", entry.Due)
		case aside.Leased:
			all[id] += fmt.Sprint(" until ", entry.Due, " with ", entry.Token)
		}
	}
	for id, found := range hiddenEntries(e, q) {
		all[id] = fmt.Sprint(string(found.Item.Data), " until ", found.Due)
	}
	all[0] = fmt.Sprint("next ", q.nextID)
	return all
}

// sameAfterKill checks that a start finds what there is now.
func (h *heldQueue) sameAfterKill(when string) {
	h.Helper()
	h.commit()
	verify(h.T, h.Engine)
	again := h.reopen(h.opts.FS.(*segmenttest.FS).Kill())
	want := h.standing(h.Engine)
	if q := h.queue(); q != nil && !q.opts.KeepJournal {
		want = nil
	}
	h.compare(when, h.standing(again), want)
	if err := again.Close(); err != nil {
		h.Fatal(err)
	}
}

// compare compares what a start finds with what there was.
func (h *heldQueue) compare(when string, got, want map[uint64]string) {
	h.Helper()
	differ := 0
	for id := uint64(0); id < 10_000; id++ {
		if got[id] != want[id] {
			if differ++; differ <= 3 {
				h.Errorf("%s: a start finds item %d as %q, want %q", when, id, got[id], want[id])
			}
		}
	}
	if differ > 3 {
		h.Errorf("%s: %d items differ", when, differ)
	}
}

// left returns which of the items that were queued at first are there.
func (h *heldQueue) left() (bodies []string) {
	for _, it := range contents(h.Engine, "q", true) {
		if h.queued[string(it.Data)] {
			bodies = append(bodies, string(it.Data))
		}
	}
	if q := h.queue(); q != nil {
		for id := range q.asideIDs() {
			r, _ := q.aside.Find(id)
			if body := string(q.aside.Item(r).Data); h.queued[body] {
				bodies = append(bodies, body)
			}
		}
		if n := q.hiddenDisk().Count; n > 0 {
			bodies = append(bodies, fmt.Sprint(n, " hidden"))
		}
	}
	return bodies
}

// between are what others do between two pieces of a flush.
var between = map[string]func(h *heldQueue){
	"nothing": func(*heldQueue) {},
	"confirm": func(h *heldQueue) {
		if _, n, err := h.ConfirmLeases(h.now, []byte("q"), every(h.long, 3)); n == 0 || err != nil {
			h.Fatal(n, err)
		}
	},
	"release":        func(h *heldQueue) { h.giveBack(Return{How: Release}) },
	"abort":          func(h *heldQueue) { h.giveBack(Return{How: Abort}) },
	"reject":         func(h *heldQueue) { h.giveBack(Return{How: Reject}) },
	"release, later": func(h *heldQueue) { h.giveBack(Return{How: Release, Delay: time.Minute, Delayed: true}) },
	"release and lease": func(h *heldQueue) {
		h.giveBack(Return{How: Release})
		for range heldQueued {
			h.long = append(h.long, h.lease(time.Hour))
		}
		h.leased += heldQueued
		h.queued = nil // some are leased now
	},
	"extend": func(h *heldQueue) {
		for _, receipt := range every(h.short, 3) {
			if _, _, err := h.ExtendLease(h.now, []byte("q"), receipt, time.Hour); err != nil {
				h.Fatal(err)
			}
		}
		h.now += 2000
		h.wakeQueues()
	},
	"lapse": func(h *heldQueue) {
		h.now += 2000
		h.wakeQueues()
	},
	"take": func(h *heldQueue) {
		for range 2*heldQueued + 10 {
			mustGet(h.T, h.Engine, "q")
		}
	},
	"open": func(h *heldQueue) {
		for n := min(h.queue().items()-heldQueued, 2*heldQueued-10); n > 0; n-- {
			mustOpen(h.T, h.Engine, "q")
		}
		h.queued = nil // some have them
	},
	"lease": func(h *heldQueue) {
		for n := min(h.queue().items()-heldQueued, 2*heldQueued-10); n > 0; n-- {
			h.lease(time.Hour)
		}
		h.queued = nil
	},
	"return what is open": func(h *heldQueue) { h.Return(h.now, every(h.open, 3), Return{How: Abort}) },
	"put": func(h *heldQueue) {
		for range 10 {
			h.put("new", PutExtra{})
			h.put("later", PutExtra{Delay: time.Minute})
		}
	},
	"overwrite": func(h *heldQueue) {
		for i := 1; i < len(h.long)+len(h.short)+len(h.open); i += 50 {
			key := fmt.Appendf(nil, "held%d", i)
			_, err := h.Put(h.now, []byte("q"), PutRequest{Data: []byte("over"), Extra: &PutExtra{Key: key}})
			if err != nil {
				h.Fatal(err)
			}
		}
	},
	"overwrite, later": func(h *heldQueue) {
		for body := range h.queued {
			x := &PutExtra{Key: []byte(body), Delay: time.Minute}
			if _, err := h.Put(h.now, []byte("q"), PutRequest{Data: []byte("over"), Extra: x}); err != nil {
				h.Fatal(err)
			}
		}
	},
	"hide": func(h *heldQueue) {
		q := h.queue()
		q.shard.mu.Lock()
		h.wantHide(q, true)
		q.shard.mu.Unlock()
		spoolSome(h.Engine, 1<<30)
		if q.clears == 0 && q.hiddenDisk().Count == 0 {
			h.Fatal("nothing is hidden")
		}
	},
	"spill": func(h *heldQueue) {
		q := h.queue()
		q.shard.mu.Lock()
		h.spillAll(q, true)
		q.shard.mu.Unlock()
		spoolSome(h.Engine, 1<<30)
	},
	"checkpoint": func(h *heldQueue) {
		if _, err := h.checkpoint(); err != nil {
			h.Fatal(err)
		}
	},
	"trim": func(h *heldQueue) {
		h.opts.JournalSize = 1
		for range 5 {
			if err := h.trimJournal(); err != nil {
				h.Fatal(err)
			}
		}
	},
	"leave the journal": func(h *heldQueue) { h.keepJournal(false) },
	"leave and enter the journal": func(h *heldQueue) {
		h.keepJournal(false)
		h.keepJournal(true)
	},
	"move the journal": func(h *heldQueue) {
		if err := h.moveJournal(); err != nil {
			h.Fatal(err)
		}
	},
	"delete": func(h *heldQueue) { h.Delete(h.now, []byte("q")) },
	"delete and put": func(h *heldQueue) {
		h.Delete(h.now, []byte("q"))
		h.put("new", PutExtra{})
	},
	"flush": func(h *heldQueue) {
		if _, err := h.Flush(h.now, []byte("q"), ""); err != nil {
			h.Fatal(err)
		}
		h.put("new", PutExtra{})
		h.put("later", PutExtra{Delay: time.Minute})
	},
	"another flush up to its record": func(h *heldQueue) {
		for c, q := h.Flushing([]byte("q"), ""), h.queue(); q.clears == 0; {
			if !c.Do(h.now, 1) {
				h.Fatal("the flush has ended")
			}
		}
		h.put("new", PutExtra{})
		h.put("later", PutExtra{Delay: time.Minute})
	},
}

// every returns some of all, one in n.
func every[T any](all []T, n int) (some []T) {
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

func (h *heldQueue) giveBack(how Return) {
	h.Helper()
	if _, n, err := h.ReturnLeases(h.now, []byte("q"), every(h.long, 3), how); n == 0 || err != nil {
		h.Fatal(n, err)
	}
}

func (h *heldQueue) keepJournal(keep bool) {
	h.Helper()
	s := *h.settings.Load()
	o := s.Default
	o.KeepJournal = keep
	if err := h.Reload(Settings{Default: o}); err != nil {
		h.Fatal(err)
	}
}

// TestFlushInPieces flushes a queue of which much is held. It looks for that in pieces, then everything else goes at
// once, by one record, and its memory comes back in pieces. Others use the queue behind each piece. A kill finds all
// or nothing of what was queued, and otherwise what there was.
func TestFlushInPieces(t *testing.T) {
	every := sampled(3, 1) // of the pieces that something comes behind
	for i, name := range slices.Sorted(maps.Keys(between)) {
		for after := i % every; after < 6; after += every {
			t.Run(fmt.Sprint(name, " ", after), func(t *testing.T) {
				h := newHeldQueue(t)
				dropped := h.flushBeside(name, func(_ *Clearing, pieces int) bool { return pieces == after })
				if dropped < 2 && after > dropped {
					t.Errorf("the items are gone behind piece %d", dropped)
				}
			})
		}
	}
}

// TestFlushSaysInPieces flushes a queue of which so much is held, beside what is queued, that its record is said in
// pieces. Others use the queue behind the first of these pieces, and a later one.
func TestFlushSaysInPieces(t *testing.T) {
	every := sampled(3, 1)
	for i, name := range slices.Sorted(maps.Keys(between)) {
		for after := 1 + i%every; after <= 3; after += every {
			t.Run(fmt.Sprint(name, " ", after), func(t *testing.T) {
				h := newHeld(t, 2*heldQueued, heldQueued, 2*heldQueued, true)
				h.opts.lookBatch = 20
				saying, begun := 0, false
				h.flushBeside(name, func(c *Clearing, _ int) bool {
					if c.staying != nil && c.staying.IsSaying() {
						saying++
					}
					begun = begun || saying == after
					return saying == after
				})
				if !begun {
					t.Errorf("the record is said in %d pieces", saying)
				}
			})
		}
	}
}

// flushBeside flushes the queue in pieces, and has something come between two of them: when is asked once before each.
// It checks what a kill finds, and returns behind which piece the items were gone.
func (h *heldQueue) flushBeside(name string, when func(c *Clearing, pieces int) bool) (dropped int) {
	h.Helper()
	q := h.queue()
	c := h.Flushing([]byte("q"), "")
	came := -1
	for pieces, more := 0, true; more; pieces++ {
		if came < 0 && when(c, pieces) {
			came = pieces
			between[name](h)
			h.sameAfterKill("between")
		}
		if more = c.Do(h.now, 1); dropped == 0 && (q.clears > 0 || q.deleted) {
			dropped = pieces
			h.sameAfterKill("dropped")
		}
	}
	_, ticket, err := c.Result()
	if err != nil {
		h.Fatal(err)
	}
	mustCommit(h.T, h.Engine, ticket)
	if left := h.left(); len(left) > 0 && dropped >= came {
		h.Errorf("%d items are left: %q …", len(left), left[:min(len(left), 5)])
	}
	h.put("after", PutExtra{})
	h.sameAfterKill("at the end")
	if live := h.queue(); live == q && (len(q.flushes) > 0 || q.aside != nil && q.aside.Dropped() > 0) {
		h.Errorf("behind the flush, %d look for what stays, and %d items are dropped", len(q.flushes), q.aside.Dropped())
	}
	if h.queue() == q && !strings.HasPrefix(name, "move") {
		h.checkHeld(name)
	}
	return dropped
}

// checkHeld checks that leases which nobody has ended still hold, and that keys find what is there.
func (h *heldQueue) checkHeld(name string) {
	h.Helper()
	q := h.queue()
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		it := q.aside.Item(r)
		if at, ok := q.ofKey(it.Key(), h.now); !ok || at.it.ID != id {
			h.Errorf("the key of item %d, in state %d, finds %+v, %t", id, q.aside.State(r), at, ok)
		}
	}
	for body := range h.queued {
		if at, ok := q.ofKey([]byte(body), h.now); ok && string(at.it.Data) == body && len(h.left()) == 0 {
			h.Errorf("the key of an item that is gone finds item %d", at.it.ID)
		}
	}
	if name != "overwrite" {
		for i, receipt := range h.long[:len(h.long)-h.leased] {
			if _, _, err := h.ExtendLease(h.now, []byte("q"), receipt, time.Hour); err != nil && i%3 != 0 {
				h.Fatalf("lease %d: %v", i, err)
			}
		}
	}
	if n := q.keys.Len(); int64(n) > q.items()+q.open.Len()+q.leased()+q.moving.Len() {
		h.Errorf("%d keys are known of %d queued, %d open and %d leased items", n, q.items(), q.open.Len(), q.leased())
	}
}

// TestFlushGivenUp gives a flush up between two pieces, by a close: nothing is gone, and the next start has all.
func TestFlushGivenUp(t *testing.T) {
	h := newHeldQueue(t)
	c := h.Flushing([]byte("q"), "")
	if !c.Do(h.now, 1) {
		t.Fatal("the flush is one piece")
	}
	want := h.standing(h.Engine)
	if err := h.Close(); err != nil && !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	h.compare("given up", h.standing(h.reopen(h.opts.FS.(*segmenttest.FS))), want)
}

// TestGiveUp gives a flush up behind each of its pieces. Then nobody looks for what stays, and nothing that was dropped takes
// memory or holds the journal.
func TestGiveUp(t *testing.T) {
	for after := 1; ; after += 1 + after/3 {
		h := newHeldQueue(t)
		q, c := h.queue(), h.Flushing([]byte("q"), "")
		for range after {
			if !c.Do(h.now, 1) {
				return
			}
		}
		c.GiveUp()
		if len(q.flushes) > 0 || q.aside.Dropped() > 0 {
			t.Errorf("behind piece %d, %d look for what stays, and %d items are dropped", after, len(q.flushes), q.aside.Dropped())
		}
		want := len(h.queued)
		if q.clears > 0 {
			want = 0
		}
		if got := len(h.left()); got != want {
			t.Errorf("behind piece %d, %d items are queued, want %d", after, got, want)
		}
		h.sameAfterKill("given up")
		h.Delete(h.now, []byte("q"))
		if got := h.Stats().MemoryBytes; got != 0 {
			t.Fatalf("behind piece %d, %d bytes are in use without any queue", after, got)
		}
	}
}

// TestGiveUpPauses gives a flush up that has many dropped items to dispose of: others have the processor in between.
func TestGiveUpPauses(t *testing.T) {
	const n = 10_000
	pauses := 0
	o := testOptions(newFS())
	o.yield = func() { pauses++ }
	e := openQuiet(t, o)
	for range n {
		if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("x"), Extra: &PutExtra{Delay: time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
	q := e.shardOf([]byte("q")).queues["q"]
	c := e.Flushing([]byte("q"), "")
	for q.aside.Dropped() == 0 && c.Do(Now(), 1) {
	}
	pauses = 0
	if c.GiveUp(); pauses < n/clearingPiece {
		t.Errorf("%d items are disposed of in %d pieces", n, pauses)
	}
}

// TestFlushesTakeTurns has many clients flush a queue at once, of which much is held. No more than maxFlushes look for what
// stays: each of them hears of every item that is taken. The others follow, and all end.
func TestFlushesTakeTurns(t *testing.T) {
	h := newHeldQueue(t)
	q := h.queue()
	var left []*Clearing
	for range 3 * maxFlushes {
		left = append(left, h.Flushing([]byte("q"), ""))
	}
	for turns := 0; len(left) > 0; turns++ {
		left = slices.DeleteFunc(left, func(c *Clearing) bool { return !c.Do(h.now, 100) })
		if n := len(q.flushes); n > maxFlushes {
			t.Fatalf("%d flushes look for what stays", n)
		}
		if turns > 1000 {
			t.Fatalf("%d flushes do not end", len(left))
		}
		if turns == 2 {
			h.put("new", PutExtra{})
			left[len(left)-1].GiveUp()
			left = left[:len(left)-1]
		}
	}
	if n := len(h.left()); n > 0 || len(q.flushes) > 0 {
		t.Errorf("%d items are left, and %d flushes", n, len(q.flushes))
	}
	h.sameAfterKill("at the end")
}

// TestFlushRecordIsSmall flushes a few items beside many that are held, and many beside a few. The record names what is
// fewer, by ranges if it can.
func TestFlushRecordIsSmall(t *testing.T) {
	const n = 5000
	for _, tt := range []struct {
		what         string
		held, queued int
		each         bool // one is held, then one is queued
		most         int  // bytes
	}{
		{"few queued", n, 3, false, 60},
		{"few held", 3, n, false, 60},
		{"each second", n, n, true, 3*n + 60},
	} {
		e, _ := newQuiet(t)
		put := func(delay time.Duration) {
			t.Helper()
			p := PutRequest{Data: []byte("item"), Extra: &PutExtra{Delay: delay}}
			if _, err := e.Put(Now(), []byte("q"), p); err != nil {
				t.Fatal(err)
			}
		}
		for i := range tt.held + tt.queued {
			isHeld := i < tt.held
			if tt.each {
				isHeld = i%2 == 0
			}
			if !isHeld {
				put(time.Hour)
				continue
			}
			put(0)
			if _, _, err := leaseNext(e, "q", time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		mustCommit(t, e, Ticket{Written: e.journal.End()})
		before := len(unwritten(e))
		if _, err := e.Flush(Now(), []byte("q"), ""); err != nil {
			t.Fatal(err)
		}
		if size := len(unwritten(e)) - before; size == 0 || size > tt.most {
			t.Errorf("%s: the flush records %d bytes, want %d at most", tt.what, size, tt.most)
		}
		if got := e.shardOf([]byte("q")).queues["q"].aside.Tally(aside.Leased).Count; got != int64(tt.held) {
			t.Errorf("%s: %d leases are left, want %d", tt.what, got, tt.held)
		}
	}
}
