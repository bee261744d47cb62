package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/list"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// These tests count what is done with a shard locked: pieces, bytes or allocations. What a client can make as large as it
// likes must not be in it.

// TestGoneIsNotCopied tests that a checkpoint, and the rewriting of a run, take the ids that are gone of a backlog
// without going through them. A set of many ids takes one piece of memory for each of its blocks.
func TestGoneIsNotCopied(t *testing.T) {
	const blocks, blockIDs = 64, 1 << 16
	q := &queue{nextID: blocks*blockIDs + 1, backlog: &backlog{count: 1, nextID: 3}}
	r := &run{written: runs.State{Count: blocks * blockIDs, FirstID: 5, LastID: blocks*blockIDs - 9}}
	for id := uint64(1); id < q.nextID; id += 2 {
		q.backlog.gone.Add(id)
	}
	q.backlog.unsized = q.backlog.gone.Clone()
	if n := testing.AllocsPerRun(5, func() { q.goneInLine() }); n > 8 {
		t.Errorf("what is gone takes %v pieces of memory", n)
	}
	job := thinJob{q: q, b: q.backlog, run: r}
	if n := testing.AllocsPerRun(5, func() { q.backlog.beginThin(&job) }); n > 8 {
		t.Errorf("what is gone of a run takes %v pieces of memory", n)
	}
	if got, want := job.gone.Len(), q.backlog.gone.Count(r.written.IDs()); got != want || job.gone.Count(idset.Between(0, 4)) > 0 {
		t.Errorf("of a run %d items are gone, want %d", got, want)
	}
}

// TestHidePieces tests that a piece of the gathering for a file of delayed items copies few bytes with the shard
// locked, and no large item. All items come back as they were.
func TestHidePieces(t *testing.T) {
	h := newHiding(t, segmenttest.New(), func(o *Options) {
		o.Settings.Default.MaxMemorySize = 64 << 20
		o.SegmentSize = 8 << 20
	})
	const size = 100 << 10
	sizes := slices.Concat(slices.Repeat([]int{size}, 8), []int{1 << 20, 10, 1 << 20}, slices.Repeat([]int{1}, 3*hidePiece))
	want := make(map[string]int)
	for i, n := range sizes {
		body := append(fmt.Appendf(nil, "%5d", i), make([]byte, n)...)
		want[string(body)]++
		p := PutRequest{Data: body, Extra: &PutExtra{Delay: time.Hour}}
		if _, err := h.Put(h.now, []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	job, _ := h.spool.beginHide(h.queue(), func(*hideJob) bool { return true })
	larges := 0
	for more := true; more; {
		before := h.spool.hideBatch.Tally()
		more = h.spool.gather(job)
		got := h.spool.hideBatch.Tally()
		if bytes := got.Bytes - before.Bytes; bytes > hideBytes+size+10 || got.Count-before.Count > hidePiece {
			t.Errorf("a piece copies %d bytes of %d items", bytes, got.Count-before.Count)
		}
		if job.large.ID != 0 {
			larges++
			if h.spool.hideBatch.Has(job.large.ID) || !job.large.HasOwnMemory() {
				t.Errorf("an item of %d bytes is copied with the shard locked, or left to be copied", len(job.large.Data))
			}
			h.spool.hideBatch.Add(job.large)
			job.large = hidden.Entry{}
		}
	}
	if larges != 2 {
		t.Errorf("%d large items were left to be copied, want 2", larges)
	}
	h.spool.dropJob(job)
	h.spool.endBatch()
	h.spool.hideMu.Lock()
	if hid, err := h.spool.hideDelayed(h.queue(), true); !hid || err != nil {
		t.Fatalf("hideDelayed = %t, %v", hid, err)
	}
	h.spool.hideMu.Unlock()
	if got := h.disk(); got != int64(len(sizes)) {
		t.Errorf("%d items are on disk alone, want %d", got, len(sizes))
	}
	h.now = h.now.After(2 * time.Hour)
	for range sizes {
		body := h.next()
		if want[body]--; want[body] < 0 {
			t.Fatalf("an item of %d bytes, %.10q, came that was not put", len(body), body)
		}
	}
}

// TestAccountsListPieces tests that queues may come and go between the pieces of a long list of an account. A caller
// that makes a queue changes the table of accounts with the queue's shard locked.
func TestAccountsListPieces(t *testing.T) {
	const piece = 1024 // of accountname.Table
	const queues = 3*piece + 10
	pieces := 0
	var e *Engine
	o := testOptions(newFS())
	o.yield = func() {
		pieces++
		mustPut(t, e, fmt.Sprint("new", pieces), "x")
		e.Delete(Now(), fmt.Appendf(nil, "q%d", pieces))
	}
	e = openQuiet(t, o)
	e.opts.yield = func() {} // of other walks
	for i := range queues {
		mustPut(t, e, fmt.Sprint("q", i), "x")
	}
	listed := make(map[string]int)
	for _, name := range e.AccountQueues(Now(), []byte(DefaultAccount)) {
		listed[name]++
	}
	if pieces != 3 {
		t.Errorf("%d queues are listed in %d pieces, want 4", queues, pieces+1)
	}
	for i := range queues {
		name := fmt.Sprint("q", i)
		if n := listed[name]; n > 1 || n == 0 && (i == 0 || i > pieces) {
			t.Errorf("queue %s is listed %d times", name, n)
		}
	}
	pieces = 0
	for i := range queues {
		mustPut(t, e, string(AppendAccountQueue(nil, fmt.Append(nil, "a", i), []byte("q"))), "x")
	}
	if got := len(e.Accounts(Now())); got != queues+1 || pieces < 3 {
		t.Errorf("%d accounts are listed in %d pieces, want %d in 4", got, pieces+1, queues+1)
	}
}

// TestAccountHasItemsIsBounded tests what an event loop does that asks whether an account has items. It removes few
// expired items, in however many queues they are, and leaves the others to the background.
func TestAccountHasItemsIsBounded(t *testing.T) {
	for _, into := range []string{"", "elsewhere"} {
		e, _ := newQuiet(t, func(o *QueueOptions) { o.ExpireTo = into })
		now := Now()
		const queues, items = 20, moveBatch - 1
		for i := range queues * items {
			if _, err := e.Put(now, fmt.Append(nil, "a/q", i%queues), PutRequest{Data: []byte("x"), Expiry: now + 1}); err != nil {
				t.Fatal(err)
			}
		}
		expired := func() (n int64) {
			for _, s := range e.Queues(now) {
				n += s.Expired
			}
			return n
		}
		most := int64(sweepBatch)
		if into != "" {
			most = moveBatch
		}
		for before, round := int64(0), 0; ; round++ {
			has := e.AccountHasItems(now+2, []byte("a"))
			n := expired()
			if n-before > most {
				t.Errorf("into %q: one look removes %d expired items, want at most %d", into, n-before, most)
			}
			if !has {
				break
			}
			if before = n; round > 2*queues*items/moveBatch {
				t.Fatal("the account does not become empty")
			}
			spoolSome(e, 1<<20) // what a look has left
			before = expired()
		}
		if n := expired(); n != queues*items {
			t.Errorf("into %q: %d items have expired, want %d", into, n, queues*items)
		}
	}
}

// TestStillOpenPieces tests a look at many open reads. Once for each piece, not once for each read, it moves what is
// due in their queue to its place. It finds the reads that have lapsed.
func TestStillOpenPieces(t *testing.T) {
	h := newHiding(t, segmenttest.New(), func(o *Options) { o.Settings.Default.MaxMemorySize = 16 << 20 })
	const reads, delayed = holdersBatch + 100, 10 * dueBatch
	for range reads {
		mustPut(t, h.Engine, "q", "x")
	}
	var refs []ReadRef
	for i := range reads {
		lease := time.Hour
		if i == 3 || i == reads-1 {
			lease = time.Minute
		}
		f, err := h.Fetch(h.now, []byte("q"), FetchRequest{Access: OpenRead, Lease: lease}, &copied{})
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, f.Read)
	}
	for range delayed {
		h.put(10 * time.Second)
	}
	want := append(slices.Clone(refs[:3]), refs[4:reads-1]...)
	h.now = h.now.After(20 * time.Second)
	if got := len(h.StillOpen(h.now, slices.Clone(refs))); got != reads {
		t.Errorf("%d reads are open, want %d", got, reads)
	}
	if woken := h.queue().aside.Tally(aside.Ready).Count; woken != 2*dueBatch {
		t.Errorf("a look in two pieces takes %d items to their places, want %d", woken, 2*dueBatch)
	}
	h.now = h.now.After(time.Minute)
	for h.queue().aside.Tally(aside.Ready).Count < delayed {
		h.Engine.wakeQueues()
	}
	if got := h.StillOpen(h.now, slices.Clone(refs)); !slices.Equal(got, want) {
		t.Errorf("%d reads are open, want %d", len(got), len(want))
	}
}

// crowd is many waits for one queue, and how many of them have ended with each error.
type crowd struct {
	ended map[error]int
	most  int // that have ended since it was set to zero
}

func (c *crowd) WaitEnded(w *Waiter) {
	c.ended[w.Err]++
	c.most++
}

const crowded = 2*serveBatch + 10

func (c *crowd) wait(t *testing.T, e *Engine, f FetchRequest, want error) {
	t.Helper()
	c.ended = make(map[error]int)
	for range crowded {
		f.Waiter = &Waiter{Notify: c}
		if _, err := e.Fetch(Now(), []byte("q"), f, &copied{}); err != want {
			t.Fatal(err)
		}
	}
}

// TestRefuseWaitsInPieces tests that a reload which refuses the clients of many waits ends them in pieces. One that has
// not been looked at gets no item.
func TestRefuseWaitsInPieces(t *testing.T) {
	var c crowd
	var e *Engine
	pieces := 0
	o := testOptions(newFS())
	o.yield = func() {
		if pieces++; c.most > serveBatch {
			t.Errorf("%d waits are ended with the shard locked, want at most %d", c.most, serveBatch)
		}
		c.most = 0
		if pieces == 1 {
			mustPut(t, e, "q", "for nobody who waits")
			c.most = 0
		}
	}
	e = openQuiet(t, o)
	c.wait(t, e, FetchRequest{}, ErrEmpty)
	s := Settings{Default: DefaultQueueOptions()}
	s.Default.DequeueClientID = "another"
	if err := e.Reload(s); err != nil {
		t.Fatal(err)
	}
	n := 0
	for err, times := range c.ended {
		if refused := (*NotAdmittedError)(nil); !errors.As(err, &refused) {
			t.Errorf("%d waits end with %v", times, err)
		}
		n += times
	}
	if spoolAll(e); n != crowded {
		t.Errorf("%d waits end, want %d", n, crowded)
	}
	wantItems(t, e, "q", "for nobody who waits")
}

// TestCloseEndsWaitsInPieces tests that Close ends the waits and watches of a queue in pieces.
func TestCloseEndsWaitsInPieces(t *testing.T) {
	var c, watching crowd
	o := testOptions(newFS())
	o.yield = func() {
		if n := c.most + watching.most; n > serveBatch {
			t.Errorf("%d waits are ended with the shard locked, want at most %d", n, serveBatch)
		}
		c.most, watching.most = 0, 0
	}
	e := openQuiet(t, o)
	c.wait(t, e, FetchRequest{}, ErrEmpty)
	watching.ended = make(map[error]int)
	for range crowded {
		if err := e.Watch(Now(), []byte("q"), &Waiter{Notify: &watching}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if c.ended[ErrClosed] != crowded || watching.ended[ErrClosed] != crowded || c.most+watching.most > serveBatch {
		t.Errorf("waits end with %v, watches with %v, and %d without a pause", c.ended, watching.ended, c.most+watching.most)
	}
}

// TestEndImmediateAlone tests that the waits for what did not come end without a look at the others. One that stays is
// no place for a walk to pass.
func TestEndImmediateAlone(t *testing.T) {
	e, _ := newQuiet(t)
	mustGet(t, e, "q") // makes it
	sh, q := e.lockQueue([]byte("q"))
	q.sweeping = true
	sh.mu.Unlock()
	var long, c crowd
	long.wait(t, e, FetchRequest{}, ErrComing)
	var wall list.Link[Waiter]
	q.waiters.PushBack(&wall, nil)
	c.wait(t, e, FetchRequest{Immediate: true}, ErrComing)
	for turns := 0; q.sweeping && turns < 10; turns++ {
		if c.most = 0; e.spool.freeHead(q) || c.most > serveBatch {
			t.Errorf("%d waits are ended with the shard locked, want at most %d", c.most, serveBatch)
		}
	}
	q.waiters.Remove(&wall)
	if c.ended[ErrEmpty] != crowded || len(long.ended) > 0 {
		t.Errorf("waits for what did not come end with %v, others with %v", c.ended, long.ended)
	}
}

// TestWalksYield tests that walks past all queues let others have the processor.
func TestWalksYield(t *testing.T) {
	const queues = 4*processor.Turn + 10
	yields := 0
	o := testOptions(newFS(), func(o *QueueOptions) { o.OpenReadTimeout, o.MaxMemorySize = time.Hour, 1 })
	o.yield = func() { yields++ }
	e := openQuiet(t, o)
	for i := range queues {
		name := fmt.Sprint("q", i)
		for range 3 {
			mustPut(t, e, name, "item")
		}
		mustOpen(t, e, name)
		if _, err := e.Put(Now(), []byte(name), PutRequest{Extra: &PutExtra{Delay: time.Minute}}); err != nil {
			t.Fatal(err)
		}
	}
	awaitRuns(e)
	for _, tt := range []struct {
		name string
		walk func()
	}{
		{"measureUse", func() { e.measureUse(e.journal.Segments()) }},
		{"oldestSegment", func() { e.oldestSegment(e.journal.Segment()) }},
		{"expireQueues", func() { e.expireQueues(Now()) }},
		{"FlushAllExpired", func() { e.FlushAllExpired(Now()) }},
		{"endOverdueReads", func() { e.endOverdueReads(Now()) }},
		{"tend", func() { e.spool.tend() }},
		{"checkpoint", func() {
			for range e.recordState() {
			}
		}},
		{"wakeQueues", func() {
			e.precise = func() (Time, time.Duration) { return Now().After(time.Hour), 0 }
			e.wakeQueues()
		}},
		{"Reload", func() { e.Reload(Settings{Default: e.OptionsFor("q")}) }},
		{"Close", func() { e.Close() }},
	} {
		yields = 0
		if tt.walk(); yields < queues/clearingPiece {
			t.Errorf("%s passes %d queues without a pause", tt.name, queues)
		}
	}
}

// TestFailWaitsInPieces tests that many failing waits end in pieces, each with its error. They wait for a backlog that
// cannot be read, or for something on its way that does not come.
func TestFailWaitsInPieces(t *testing.T) {
	for _, failed := range []bool{true, false} {
		e, _ := newQuiet(t, func(o *QueueOptions) { o.MaxMemorySize = 100 })
		const items = 40
		for range items {
			mustPut(t, e, "q", "an item of some bytes")
		}
		awaitRuns(e)
		q := e.shardOf([]byte("q")).queues["q"]
		for q.window.Count > 0 {
			mustGet(t, e, "q")
		}
		var c, watching crowd
		c.wait(t, e, FetchRequest{Immediate: !failed}, ErrComing)
		want := ErrEmpty
		if failed {
			watching.ended = make(map[error]int)
			for range 3 {
				if err := e.Watch(Now(), []byte("q"), &Waiter{Notify: &watching}); err != nil {
					t.Fatal(err)
				}
			}
			b := q.backlog
			e.spool.failed(q, b, b.epoch, errors.New("damage"))
			want = b.failed
			if n := watching.ended[want]; n != 3 {
				t.Errorf("%d watchers hear of the failure, want 3", n)
			}
		}
		for id := uint64(items); id > 0 && !failed; id-- {
			e.Remove(Now(), []byte("q"), "", Which{ID: id}) // some have been taken
		}
		for turns := 0; c.ended[want] < crowded; turns++ {
			if c.most > serveBatch {
				t.Errorf("failed %t: %d waits are ended with the shard locked, want at most %d", failed, c.most, serveBatch)
			}
			if c.most = 0; turns > 100 {
				t.Fatalf("failed %t: %d waits have ended, %v, want %d", failed, c.ended[want], c.ended, crowded)
			}
			spoolSome(e, 1)
		}
	}
}

// TestTakeInPieces tests that a frame of many items of which some are gone comes into the window in pieces, between which
// the shard is unlocked. What is taken meanwhile comes once, and in order.
func TestTakeInPieces(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.MaxMemorySize = 4 << 20 })
	e.opts.SegmentSize = 1 << 20
	const items = 4 * takePiece
	puts := make([]PutRequest, items)
	for i := range puts {
		puts[i].Data = fmt.Append(nil, i+1)
	}
	if _, err := e.PutAll(Now(), []byte("q"), puts); err != nil {
		t.Fatal(err)
	}
	q := e.shardOf([]byte("q")).queues["q"]
	e.spillAll(q, true)
	for q.backlog.leaving.Count > 0 {
		e.spool.spill(e.spool.spills.Take())
	}
	if q.window.Count > 0 {
		e.unload(q)
	}
	for id := uint64(2); id <= items; id += 3 {
		if _, err := e.Remove(Now(), []byte("q"), "", Which{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	pieces, before := 0, int64(0)
	real := e.spool.now
	e.spool.now = func() Time {
		q.shard.mu.Lock()
		if came := q.window.Count - before; came > takePiece {
			t.Errorf("%d items come into the window with the shard locked, want at most %d", came, takePiece)
		}
		q.shard.mu.Unlock()
		if q.window.Count > 0 {
			got = append(got, mustGet(t, e, "q"))
		}
		pieces++
		before = q.window.Count
		return real()
	}
	e.spool.fill(q)
	e.spool.now = real
	spoolSome(e, 1<<20)
	got = append(got, drain(t, e, "q")...)
	want := []string(nil)
	for i := range items {
		if (i+1)%3 != 2 {
			want = append(want, fmt.Sprint(i+1))
		}
	}
	if !slices.Equal(got, want) || pieces < 5 {
		t.Errorf("%d items come in %d pieces, want %d in 5", len(got), pieces, len(want))
	}
}

// TestPutPieces tests that one request for items with keys or delays has the shard unlocked in between when many queues
// take each of them.
func TestPutPieces(t *testing.T) {
	const children, puts = 15, 64
	for _, tt := range []struct {
		name  string
		extra *PutExtra
		want  int
	}{
		{"plain", nil, puts},
		{"keys", &PutExtra{Key: []byte("k")}, puts / 8},
		{"delayed", &PutExtra{Delay: time.Hour}, puts / 8},
	} {
		e, _ := newQuiet(t)
		mustPut(t, e, "q", "x")
		for i := range children {
			mustPut(t, e, fmt.Sprint("q+", i), "x")
		}
		requests := slices.Repeat([]PutRequest{{Data: []byte("x"), Extra: tt.extra}}, puts)
		var some Stored
		err := e.putSome(e.shardOf([]byte("q")), Now(), []byte("q"), requests, nil, &some)
		if some.Count != tt.want || err != nil {
			t.Errorf("%s: %d items are put with the shard locked, %v, want %d", tt.name, some.Count, err, tt.want)
		}
		if s, err := e.PutAll(Now(), []byte("q"), requests); s.Count != puts || err != nil {
			t.Errorf("%s: %d items are put, %v, want %d", tt.name, s.Count, err, puts)
		}
	}
}

// TestDisposePieces tests that all that a flush or a deletion leaves goes, in pieces. The shard is unlocked between them,
// however much a caller asks for.
func TestDisposePieces(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		e, _ := newQuiet(t)
		const items = 3 * clearingPiece
		for range items {
			p := PutRequest{Data: []byte("x"), Extra: &PutExtra{Delay: time.Hour}}
			if _, err := e.Put(Now(), []byte("q"), p); err != nil {
				t.Fatal(err)
			}
		}
		sh, q := e.lockQueue([]byte("q"))
		var left rubbish
		if deleted {
			_, left = e.delete(q)
		} else {
			left = clearNow(e, q)
		}
		sh.mu.Unlock()
		pieces := 0
		for ; !left.empty(); pieces++ {
			before := q.aside.Len()
			if n := left.dispose(clearingPiece); n > clearingPiece/4 || before-q.aside.Len() > clearingPiece {
				t.Errorf("deleted %t: the shard is locked for %d steps, and %d items go", deleted, n, before-q.aside.Len())
			}
		}
		if q.aside.Len() > 0 || pieces < 3 {
			t.Errorf("deleted %t: %d items are left after %d pieces", deleted, q.aside.Len(), pieces)
		}
	}
}
