package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestMoveBesideChanges has items come back, some of them delayed, between the pieces in which a queue leaves the old journal
// for the new one. What they would record is of the old journal: the new one must have them all the same.
func TestMoveBesideChanges(t *testing.T) {
	const n = 2*readBatch + 10
	var e *Engine
	var refs []ReadRef
	fsys, between := segmenttest.New(), 0
	o := testOptions(fsys, func(q *QueueOptions) { q.MaxDeliveries = 10 })
	delay := &PutExtra{Delay: time.Hour}
	o.yield = func() {
		if len(refs) == 0 {
			return // the queue is not there yet
		}
		if between++; between > 6 {
			return
		}
		for _, how := range []Return{{How: Abort}, {How: Abort, Delay: time.Hour, Delayed: true}} {
			last := len(refs) - 1
			if _, _, err := e.Return(Now(), refs[last:], how); err != nil {
				t.Error(err)
			}
			refs = refs[:last]
		}
	}
	e = openQuiet(t, o)
	for range n {
		ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("delayed"), Extra: delay})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	for i := range 20 {
		mustPut(t, e, "q", fmt.Sprint(i))
	}
	var open []ReadRef
	for range 20 {
		ref, _ := mustOpen(t, e, "q")
		open = append(open, ref)
	}
	failSync(t, e, fsys, "other", "fails")
	refs = open
	e.retryJournal()
	if e.journal.Failing() {
		t.Fatal("the journal was not moved")
	}
	if between < 3 {
		t.Fatalf("the queue crossed in %d pieces, want more", between)
	}
	verify(t, e)
	between = min(between, 6)
	o.FS, o.yield = fsys.Kill(), nil
	e = openQuiet(t, o)
	q := e.shardOf([]byte("q")).queues["q"]
	if hidden, line := q.aside.Tally(aside.Delayed).Count, q.items()-q.aside.Tally(aside.Delayed).Count; int(hidden) != n+between || int(line) != 20-between {
		t.Errorf("after a kill %d items are delayed, and %d are not, want %d and %d", hidden, line, n+between, 20-between)
	}
	verify(t, e)
}

// TestMoveInPieces has the journal move beside queues with much: a long line, leases, delayed items, and many that came
// back. A little gathers at a time, and all of it is in the new journal.
func TestMoveInPieces(t *testing.T) {
	const each, size = 300, 1000
	fsys := segmenttest.New()
	o := testOptions(fsys, func(q *QueueOptions) { q.MaxDeliveries = 10 })
	o.SegmentSize, o.JournalSize = 256<<10, 64<<20
	var sizes []int
	o.committer = func(log *segment.Log) journal.Committer { return batches{log, &sizes} }
	e := openQuiet(t, o)
	body := func(i int) string { return fmt.Sprintf("%0*d", size, i) }
	for i := range 4 * each {
		p := PutRequest{Data: []byte(body(i))}
		if i%4 == 0 {
			p.Extra = &PutExtra{Delay: time.Hour}
		}
		ticket, err := e.Put(Now(), []byte("q"), p)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	for range each {
		if _, _, err := leaseNext(e, "q", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	var back []ReadRef
	for range each {
		ref, _ := mustOpen(t, e, "q")
		back = append(back, ref)
	}
	for _, ref := range back {
		if _, _, err := e.Return(Now(), []ReadRef{ref}, Return{How: Abort}); err != nil {
			t.Fatal(err)
		}
	}
	failSync(t, e, fsys, "other", "fails")
	sizes = nil
	e.retryJournal()
	if e.journal.Failing() {
		t.Fatal("the journal was not moved")
	}
	verify(t, e)
	batch, total := int(o.SegmentSize/4), 0
	for _, n := range sizes {
		if total += n; n > batch+2*checkpointBatch+2*smallBytes {
			t.Errorf("a batch of the move has %d bytes, want %d at most", n, batch+2*checkpointBatch+2*smallBytes)
		}
	}
	if total < 3*each*size {
		t.Errorf("the move wrote %d bytes of %d items", total, 3*each)
	}
	o.FS, o.committer = fsys.Kill(), nil
	e = openQuiet(t, o)
	q := e.shardOf([]byte("q")).queues["q"]
	if leased, delayed := q.leased(), q.items()-2*each; leased != each || delayed != each {
		t.Errorf("after a kill %d items are leased, and %d delayed, want %d each", leased, delayed, each)
	}
	n := each // so many were leased, of those that are not delayed
	for _, data := range drain(t, e, "q") {
		if want := body(n + n/3 + 1); data != want {
			t.Fatalf("item %d is %.20q..., want %.20q...", n, data, want)
		}
		n++
	}
	if n != 3*each {
		t.Errorf("%d items come, want %d", n-each, 2*each)
	}
}
