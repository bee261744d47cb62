package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kestrelmq/kestrel/engine/internal/trim"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// rewriteRun is random traffic on an engine whose limits are small, with all that is written to its
// journal counted.
type rewriteRun struct {
	*rapid.T
	*rand.Rand
	e       *Engine
	queues  int
	sizes   []int
	refs    []ReadRef
	written int64 // bytes, to files of the journal
	clients int64 // bytes that clients had written: bodies, and what a frame takes
}

// operationBytes is how many bytes of the journal an operation takes at most, beside the body of an item. They are for
// a frame, a mark, a queue's record, and the ends of a segment.
const operationBytes = 400

// newRewriteRun draws an engine and the sizes of items: around each of its limits.
func newRewriteRun(t *rapid.T) *rewriteRun {
	fsys := newFS()
	o := testOptions(fsys, func(q *QueueOptions) { q.Sync = SyncNever })
	o.JournalSize = rapid.SampledFrom([]int64{16 << 10, 64 << 10, 128 << 10}).Draw(t, "journal size")
	o.SegmentSize = max(4096, o.JournalSize/rapid.SampledFrom([]int64{2, 4, 8, 32}).Draw(t, "segments"))
	o.MemoryLimit = o.JournalSize * rapid.SampledFrom([]int64{4, 16, 64, 1 << 10}).Draw(t, "memory")
	limits := []int64{
		0, 200, tinyBytes, smallBytes, o.SegmentSize, o.JournalSize / rewriteShare, o.JournalSize / 2, o.JournalSize,
	}
	o.Settings.Default.MaxMemorySize = rapid.SampledFrom(append(limits, 128<<20)).Draw(t, "queue memory")
	r := &rewriteRun{T: t}
	for range rapid.IntRange(1, 3).Draw(t, "kinds of items") {
		limit := int(rapid.SampledFrom(limits).Draw(t, "limit"))
		parts := rapid.SampledFrom([]int{1, 1, 3, 20}).Draw(t, "parts")
		r.sizes = append(r.sizes, max(limit/parts+rapid.IntRange(-40, 40).Draw(t, "beyond"), 0))
	}
	r.queues = rapid.SampledFrom([]int{1, 4, 30, 300}).Draw(t, "queues")
	r.Rand = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "traffic"), 0))
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpWriteAt && path.Base(path.Dir(op.Path)) == "journal" {
			r.written += int64(op.Size)
		}
		return segmenttest.Fault{}
	})
	var err error
	if r.e, err = open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.e.Close() })
	return r
}

// traffic does so many things that clients do, and what the background does meanwhile.
func (r *rewriteRun) traffic(n int) {
	weights := make([]int, 7)
	for i := range weights {
		weights[i] = rapid.SampledFrom([]int{0, 1, 1, 10}).Draw(r.T, "weight")
	}
	weights[0]++
	pause := rapid.SampledFrom([]int{1, 10, 100}).Draw(r.T, "pause")
	for range n {
		r.operation(r.pick(weights))
		if r.IntN(pause) == 0 {
			r.background()
		}
	}
}

// pick returns an index of weights, each as often as it says.
func (r *rewriteRun) pick(weights []int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	at := r.IntN(total)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	panic("not reached")
}

// operation does what a client does.
func (r *rewriteRun) operation(kind int) {
	e, name := r.e, fmt.Append(nil, "q", r.IntN(r.queues))
	var ticket Ticket
	switch kind {
	case 0:
		size := r.sizes[r.IntN(len(r.sizes))]
		var err error
		ticket, err = e.Put(Now(), name, PutRequest{Data: []byte(strings.Repeat("x", size))})
		if err == nil {
			r.clients += int64(size)
		}
	case 1, 2:
		var got copied
		access := []Access{Take, OpenRead}[kind-1]
		f, err := e.Fetch(Now(), name, FetchRequest{Access: access}, &got)
		if err == nil && access == OpenRead {
			r.refs = append(r.refs, f.Read)
		}
		ticket = f.Ticket
	case 3, 4:
		if len(r.refs) == 0 {
			return
		}
		at := r.IntN(len(r.refs))
		if kind == 3 {
			ticket, _ = e.Confirm(Now(), r.refs[at])
		} else {
			e.Abort(Now(), r.refs[at])
		}
		r.refs = append(r.refs[:at], r.refs[at+1:]...)
	case 5:
		if r.IntN(50) == 0 {
			ticket, _ = e.Flush(Now(), name, "")
		}
	case 6:
		if r.IntN(50) == 0 {
			ticket = e.Delete(Now(), name)
		}
	}
	r.clients += operationBytes
	if err := e.Commit(ticket); err != nil {
		r.Fatal(err)
	}
}

// background does a round of what runs in the background.
func (r *rewriteRun) background() {
	r.e.journal.SyncSealed()
	r.e.boundJournal()
	r.e.spool.tend()
	spoolSome(r.e, 1000)
	r.e.relieve()
	if err := r.e.trimJournal(); err != nil {
		r.Fatal(err)
	}
	r.e.journal.Prepare()
	r.e.writeLeftOver()
	r.e.journal.Mark()
}

// TestRewriting has clients do what they like, with items of sizes around all limits. The journal
// is not given more than four times what they have put. When they stop, it comes to rest; and it is
// not much longer than what pins it.
//
// Its control is an Affords that does not look at the debt.
func TestRewriting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRewriteRun(t)
		o := r.e.opts
		for range 3 {
			r.traffic(amount(150, 300, 1000))
			if most := 4*r.clients + o.JournalSize; r.written > most {
				t.Fatalf("%d bytes were written to the journal for %d of clients, want %d at most",
					r.written, r.clients, most)
			}
			r.rest()
			use := r.e.measureUse(r.e.journal.Segments())
			largest := int64(0)
			for _, size := range r.sizes {
				largest = max(largest, int64(size))
			}
			limit := use.Limit(o.JournalSize) + r.e.debt.Bytes + o.SegmentSize + 2*largest
			if n := journalBytes(r.e); n > limit {
				t.Fatalf("the journal has %d bytes, want %d at most, %d for open reads", n, limit, use.Reads)
			}
		}
		if err := r.e.Verify(); err != nil {
			t.Fatal(err)
		}
		for i := range r.queues {
			r.e.Delete(Now(), fmt.Append(nil, "q", i))
		}
		for i := range r.e.shards {
			if left := &r.e.shards[i].pins; left.Before(math.MaxUint64) {
				t.Fatalf("reads pin %v, want nothing: all queues are deleted", left)
			}
		}
	})
}

// rest has the background go on until it writes nothing any more.
func (r *rewriteRun) rest() {
	const rounds = 100
	for range rounds {
		before := r.written
		for range 3 {
			r.background()
		}
		if r.written == before {
			return
		}
	}
	before := r.written
	r.background()
	r.Fatalf("after %d rounds in which no client did anything, the next writes %d bytes",
		rounds, r.written-before)
}

// TestReadsBeyondJournal has consumers keep more open, or give back more, than the size of the
// journal, while others go on and when nobody does anything.
func TestReadsBeyondJournal(t *testing.T) {
	const size = 20 << 10
	for _, end := range []string{"open", "returned"} {
		t.Run(end, func(t *testing.T) {
			fsys := newFS()
			var written int64
			fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
				if op.Kind == segmenttest.OpWriteAt {
					written += int64(op.Size)
				}
				return segmenttest.Fault{}
			})
			o := testOptions(fsys)
			o.JournalSize, o.SegmentSize = 64<<10, 8<<10
			e := openQuiet(t, o)
			background := func() {
				e.journal.SyncSealed()
				bound(t, e)
				e.journal.Mark()
			}
			put := func(name string) {
				mustPut(t, e, name, strings.Repeat("x", size))
				background()
			}
			for range 10 {
				put("q")
			}
			refs := openAll(t, e, "q", 10)
			if end == "returned" {
				e.AbortAll(Now(), refs)
			}
			for range 10 {
				background()
			}
			before := written
			for range 10 {
				background()
			}
			if written > before {
				t.Errorf("%d bytes were written while nobody did anything", written-before)
			}
			for range 100 {
				put("others")
				mustGet(t, e, "others")
			}
			if n, most := written-before, int64(4*100*size); n > most {
				t.Errorf("%d bytes were written, want %d at most", n, most)
			}
			pinned := int64(10 * (size + keepOverhead))
			if n, most := journalBytes(e), o.JournalSize+3*pinned; n > most {
				t.Errorf("the journal has %d bytes, want %d at most", n, most)
			}
			if got := len(queued(kill(t, e), "q")); got != 10 {
				t.Errorf("after a kill %d items are there, want 10", got)
			}
			ticket, _ := e.ConfirmAll(Now(), refs)
			mustCommit(t, e, ticket)
			if end == "returned" {
				drain(t, e, "q")
			}
			for range 4 {
				background()
			}
			if n := journalBytes(e); n > o.JournalSize {
				t.Errorf("the journal has %d bytes for nothing", n)
			}
		})
	}
}

// openAll opens so many items of a queue.
func openAll(t *testing.T, e *Engine, name string, items int) (refs []ReadRef) {
	t.Helper()
	for range items {
		spoolAll(e)
		ref, _ := mustOpen(t, e, name)
		refs = append(refs, ref)
	}
	return refs
}

// TestManyReadsOfAQueue rewrites so many reads of one queue that others are let in several times.
func TestManyReadsOfAQueue(t *testing.T) {
	e, _ := newQuiet(t)
	const items = 3*readBatch + 10
	for range items {
		mustPut(t, e, "q", "item")
	}
	refs := openAll(t, e, "q", items)
	q := e.shardOf([]byte("q")).queues["q"]
	l, at := trim.Plan{Target: e.journal.Segment(), Left: 1 << 30}, readCursor{}
	rounds := 1
	for ; e.keepOldReads(q, &l, &at); rounds++ {
		switch rounds {
		case 1:
			e.Abort(Now(), refs[0]) // it is in a list that has been walked
		case 2:
			mustCommitted(t, e)(e.Confirm(Now(), at.after)) // the walk begins at the head again
		}
	}
	if rounds < 4 || rounds > 9 {
		t.Errorf("%d reads were looked at in %d rounds, %d in each", items, rounds, readBatch)
	}
	for got := range q.shard.pins.All {
		if got.Segment < l.Target && got.Reads > 1 {
			t.Errorf("%d reads are left in segment %d", got.Reads, got.Segment)
		}
	}
}

// TestTrimSyncs has an open read recorded again, and then drops the segment that its item lay in. The checkpoint before
// says nothing of the new record: a power cut finds that all the same.
func TestTrimSyncs(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys)
	o.SegmentSize = 4096
	e := openQuiet(t, o)
	mustPut(t, e, "q", "a")
	mustOpen(t, e, "q")
	for range 100 {
		mustPut(t, e, "other", strings.Repeat("x", 100))
		mustGet(t, e, "other")
	}
	at, err := e.checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	e.checkpointed = at
	q := e.shardOf([]byte("q")).queues["q"]
	q.shard.mu.Lock()
	e.keepOldReads(q, &trim.Plan{Target: math.MaxUint64, Left: 1 << 20}, &readCursor{})
	q.shard.mu.Unlock()
	before := len(e.journal.Segments())
	if err := e.trimJournal(); err != nil || len(e.journal.Segments()) >= before {
		t.Fatalf("of %d segments %d are left: %v", before, len(e.journal.Segments()), err)
	}
	image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	wantItems(t, openQuiet(t, testOptions(image)), "q", "a")
}
