package engine

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

const (
	producers    = 4
	perProducer  = 500 // items of each for each queue
	consumers    = 3   // of each queue
	stressImages = 20  // power cuts
)

// How far an item of the stress test has come.
const (
	itemNew   int32 = iota // its put is not acknowledged yet
	itemPut                // acknowledged
	itemGoing              // somebody has it, or is about to confirm it
	itemGone               // … and that was acknowledged
)

// TestStress has many goroutines put, get, open, confirm, abort, flush, delete and reload, with all
// the background work. Every item comes exactly once, and those of one producer in order where
// nobody aborts. A power cut at any moment leaves what was acknowledged, and nothing that was
// removed.
func TestStress(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys)
	o.SegmentSize, o.SweepInterval = 64<<10, time.Millisecond
	aging := o.Settings.Default
	aging.MaxAge, aging.OpenReadTimeout, aging.ExpireTo = time.Millisecond, time.Millisecond, "dead"
	o.Settings.Queues = map[string]QueueOptions{"lossy": aging}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ordered, aborted := newStressQueue(t, e, "ordered"), newStressQueue(t, e, "aborted")
	toggled, lossy := newStressQueue(t, e, "toggled"), newStressQueue(t, e, "lossy")
	var clients, disturbers sync.WaitGroup
	for p := range producers {
		for _, q := range []*stressQueue{ordered, aborted, toggled, lossy} {
			clients.Go(func() { q.produce(p) })
		}
	}
	for i := range consumers {
		clients.Go(ordered.take)
		clients.Go(toggled.take)
		clients.Go(func() { aborted.openAndEnd(rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	var stop atomic.Bool
	for _, disturb := range []func() error{
		func() error { return lossy.Delete() },
		func() error { return e.Commit(e.Delete(Now(), []byte("dead"))) },
		func() error { return lossy.Flush() },
		func() error { _, err := lossy.TryGet(); return err },
		func() error { _, err := lossy.TryOpen(); return err },
		func() error { _, err := lossy.Peek(); return err },
		func() error { e.Queues(Now()); e.Stats(); return e.Verify() },
		func() error { _, ticket := e.FlushAllExpired(Now()); return e.Commit(ticket) },
		toggleJournal(e, o.Settings, "toggled"),
	} {
		disturbers.Go(func() {
			for !stop.Load() {
				if err := disturb(); err != nil && err != ErrEmpty {
					t.Errorf("disturbance: %v", err)
				}
				runtime.Gosched()
			}
		})
	}
	for range stressImages {
		checkStressImage(t, fsys, ordered, aborted)
	}
	clients.Wait()
	stop.Store(true)
	disturbers.Wait()
	if err := e.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	verify(t, e)
	again := openQuiet(t, testOptions(fsys))
	for _, q := range []*stressQueue{ordered, aborted, toggled} {
		wantItems(t, again, string(q.name), "")
	}
	e.Delete(Now(), lossy.name)
	e.Delete(Now(), []byte("dead"))
	if got := memoryBeyondQueues(e); got != 0 {
		t.Errorf("%d bytes are in use without any item", got)
	}
}

// toggleJournal returns a function that takes a queue out of the journal, or into it again.
func toggleJournal(e *Engine, s Settings, name string) func() error {
	return func() error {
		o := s.For(name)
		o.KeepJournal = !o.KeepJournal
		s.Queues = maps.Clone(s.Queues)
		s.Queues[name] = o
		return e.Reload(s)
	}
}

// stressQueue is one queue of the stress test and the items that go through it.
type stressQueue struct {
	*Queue
	t      *testing.T
	states [producers][perProducer]atomic.Int32
	left   atomic.Int64    // items not gone yet
	ctx    context.Context // done when there are none
	done   context.CancelFunc
}

func newStressQueue(t *testing.T, e *Engine, name string) *stressQueue {
	q, err := e.Queue(name)
	if err != nil {
		t.Fatal(err)
	}
	sq := &stressQueue{Queue: q, t: t}
	sq.left.Store(producers * perProducer)
	sq.ctx, sq.done = context.WithCancel(context.Background())
	return sq
}

func (q *stressQueue) produce(p int) {
	for i := range perProducer {
		if err := q.Put(fmt.Appendf(nil, "%d %d", p, i), PutOptions{}); err != nil {
			q.t.Errorf("Put = %v", err)
		}
		q.states[p][i].CompareAndSwap(itemNew, itemPut) // else a consumer was faster
	}
}

// going notes that an item is about to be gone for good.
func (q *stressQueue) going(it Item) (p, i int) {
	if n, err := fmt.Sscan(string(it.Data), &p, &i); n != 2 {
		q.t.Errorf("item %q of queue %s: %v", it.Data, q.name, err)
	}
	if was := q.states[p][i].Swap(itemGoing); was >= itemGoing {
		q.t.Errorf("queue %s handed out item %d of producer %d twice", q.name, i, p)
	}
	return p, i
}

// gone notes that it is.
func (q *stressQueue) gone(p, i int) {
	q.states[p][i].Store(itemGone)
	if q.left.Add(-1) == 0 {
		q.done()
	}
}

// take gets items until all are gone. Those of one producer come in order.
func (q *stressQueue) take() {
	var next [producers]int
	for {
		it, err := q.Get(q.ctx)
		if err == context.Canceled {
			return
		}
		if err != nil {
			q.t.Errorf("Get = %v", err)
		}
		p, i := q.going(it)
		if i < next[p] {
			q.t.Errorf("item %d of producer %d came after item %d", i, p, next[p]-1)
		}
		next[p] = i + 1
		q.gone(p, i)
	}
}

// openAndEnd holds up to four items open and ends them in any order, until all are gone.
func (q *stressQueue) openAndEnd(rng *rand.Rand) {
	var open []*Read
	for {
		if len(open) < 4 && rng.IntN(2) == 0 {
			var r *Read
			var err error
			if len(open) == 0 {
				r, err = q.Open(q.ctx)
			} else { // do not wait while others may wait for what is open here
				r, err = q.TryOpen()
			}
			switch err {
			case nil:
				open = append(open, r)
			case ErrEmpty:
			case context.Canceled:
				return
			default:
				q.t.Errorf("Open = %v", err)
			}
		}
		if len(open) == 0 {
			continue
		}
		n := rng.IntN(len(open))
		r := open[n]
		open = append(open[:n], open[n+1:]...)
		if rng.IntN(3) == 0 {
			if err := r.Abort(); err != nil {
				q.t.Errorf("Abort = %v", err)
			}
			continue
		}
		p, i := q.going(r.Item)
		if err := r.Confirm(); err != nil {
			q.t.Errorf("Confirm = %v", err)
		}
		q.gone(p, i)
	}
}

// checkStressImage checks what a power cut leaves now that loses all that was not synced.
func checkStressImage(t *testing.T, fsys *segmenttest.FS, ordered, aborted *stressQueue) {
	before := map[*stressQueue][][]int32{ordered: ordered.snapshot(), aborted: aborted.snapshot()}
	image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	after := aborted.snapshot()
	e, err := open(testOptions(image))
	if err != nil {
		t.Errorf("open the image: %v", err)
		return
	}
	defer e.Close()
	for q, states := range before {
		found := make(map[string]int)
		for _, data := range queued(e, string(q.name)) {
			found[data]++
		}
		for p := range producers {
			for i, state := range states[p] {
				n := found[fmt.Sprint(p, " ", i)]
				if n > 1 || n == 1 && state == itemGone {
					t.Errorf("queue %s has item %d of producer %d %d times, in state %d",
						q.name, i, p, n, state)
				}
				// Of a get nobody knows when it begins.
				if n == 0 && q == aborted && state == itemPut && after[p][i] == itemPut {
					t.Errorf("queue %s has lost item %d of producer %d", q.name, i, p)
				}
			}
		}
	}
}

func (q *stressQueue) snapshot() (states [][]int32) {
	for p := range producers {
		states = append(states, nil)
		for i := range perProducer {
			states[p] = append(states[p], q.states[p][i].Load())
		}
	}
	return states
}
