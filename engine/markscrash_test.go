package engine

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// overwritten is added to the number in a body that takes the place of another one.
const overwritten = 1000

// marksLedger is what marksScript has asked for, by id. Of what is doubtful the last was not acknowledged.
type marksLedger struct {
	put, gone, doubtful map[uint64]bool
	over, overDoubtful  map[uint64]bool   // items with another body
	leases              map[uint64]uint64 // receipts of those that were acknowledged, and not ended
	hidden              map[uint64]bool   // items that came back and are delayed
	files               int
	at                  string // where the machine stopped, for messages
}

// marksScript puts items, and overwrites and removes some in the middle. It has checkpoints write files of what is
// gone, and runs be written again. It leases and takes some, and notes what was acknowledged, until the machine stops.
func marksScript(t *testing.T, fsys *segmenttest.FS) *marksLedger {
	l := &marksLedger{
		put: make(map[uint64]bool), gone: make(map[uint64]bool), doubtful: make(map[uint64]bool),
		over: make(map[uint64]bool), overDoubtful: make(map[uint64]bool), leases: make(map[uint64]uint64),
		hidden: make(map[uint64]bool),
	}
	put, gone, doubtful := l.put, l.gone, l.doubtful
	e, err := open(markOptions(fsys))
	if err != nil {
		return l
	}
	defer e.Close()
	sure := func(id uint64, now map[uint64]bool, ticket Ticket, err error) {
		if doubtful[id] = true; err == nil && e.Commit(ticket) == nil {
			delete(doubtful, id)
			now[id] = true
		}
	}
	puts := func(first, n uint64) {
		var all []PutRequest
		for id := first; id < first+n; id++ {
			all = append(all, PutRequest{Data: fmt.Appendf(nil, "%030d", id), Extra: &PutExtra{Key: fmt.Append(nil, id)}})
			doubtful[id] = true
		}
		s, err := e.PutAll(Now(), []byte("q"), all)
		for id := first; id < first+n; id++ {
			sure(id, put, s.Ticket, err)
		}
		awaitRuns(e)
		e.spool.endRun(e.shardOf([]byte("q")).queues["q"])
		awaitRuns(e)
	}
	removes := func(step, first, last uint64) {
		tickets := make(map[uint64]Ticket)
		for id := first; id <= last && !fsys.Stopped(); id += step {
			ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: id})
			if doubtful[id] = true; err == nil {
				tickets[id] = ticket
			}
		}
		for id, ticket := range tickets {
			sure(id, gone, ticket, nil)
		}
	}
	overwrite := func(id uint64) {
		p := PutRequest{Data: fmt.Appendf(nil, "%030d", id+overwritten), Extra: &PutExtra{Key: fmt.Append(nil, id)}}
		ticket, err := e.Put(Now(), []byte("q"), p)
		if l.overDoubtful[id] = true; err == nil && e.Commit(ticket) == nil {
			delete(l.overDoubtful, id)
			l.over[id] = true
		}
	}
	checkpoint := func() {
		if fsys.Stopped() {
			return
		}
		if err := e.trimJournal(); err != nil && !fsys.Stopped() {
			t.Fatal(err)
		}
		if _, err := e.checkpoint(); err == nil {
			l.files++
		}
		awaitRuns(e)
	}
	for first := uint64(1); first < 120; first += 20 {
		if puts(first, 20); fsys.Stopped() {
			return l
		}
	}
	removes(4, 20, 100)
	for id := uint64(23); id < 100 && !fsys.Stopped(); id += 16 { // 23 39 55 71 87, which stay
		overwrite(id)
	}
	checkpoint()
	removes(4, 21, 100)
	checkpoint()
	removes(4, 22, 100) // most of some runs is gone
	awaitRuns(e)
	checkpoint()
	l.leaseSome(t, e, sure)
	awaitRuns(e)
	checkpoint()
	for n := 0; n < 60 && !fsys.Stopped(); {
		var got copied
		f, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &got)
		if err == ErrComing {
			spoolAll(e)
			continue
		}
		if n++; err != nil {
			break
		}
		id, err := strconv.ParseUint(string(got.item.Data), 10, 64)
		sure(id%overwritten, gone, f.Ticket, err)
	}
	awaitRuns(e)
	checkpoint()
	return l
}

// leaseSome leases the first eight items: three stay leased, of the others some are confirmed and some come back.
func (l *marksLedger) leaseSome(t *testing.T, e *Engine, sure func(uint64, map[uint64]bool, Ticket, error)) {
	stopped := e.opts.FS.(*segmenttest.FS).Stopped
	for n := 0; n < 8 && !stopped(); {
		it, about, err := leaseNext(e, "q", time.Hour)
		if err == ErrComing {
			spoolAll(e)
			continue
		}
		n++
		if stopped() {
			l.doubtful[it.ID] = true // the lease may be known, or not
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		switch n % 4 {
		case 0, 1:
			l.leases[it.ID] = about.Receipt
		case 2:
			ticket, err := e.ConfirmLease(Now(), []byte("q"), about.Receipt)
			sure(it.ID, l.gone, ticket, err)
		default: // it comes back, and may be taken later
			how := Return{How: Abort, Delay: time.Hour, Delayed: true}
			if n == 7 {
				how.Delay = 0
			}
			ticket, err := e.ReturnLease(Now(), []byte("q"), about.Receipt, how)
			if err = errors.Join(err, e.Commit(ticket)); err != nil {
				l.doubtful[it.ID] = true
			}
			l.hidden[it.ID] = how.Delay > 0
		}
	}
}

// aside reports whether the item was leased, or came back with a delay, and that was acknowledged.
func (l *marksLedger) aside(id uint64) bool {
	return !l.doubtful[id] && (l.hidden[id] || l.leases[id] != 0)
}

// checkAside looks at what must be leased or delayed, and ends the leases.
func (l *marksLedger) checkAside(t *testing.T, e *Engine) {
	t.Helper()
	for id := range l.put {
		if !l.aside(id) {
			continue
		}
		var got copied
		about := Delivery{}
		_, err := e.Look(Now(), []byte("q"), &LookRequest{Which: Which{ID: id}, Delivery: &about, Wait: true}, &got)
		if err != nil || about.Due < Now() || about.Deliveries == 0 || string(got.item.Data) != fmt.Sprintf("%030d", id) {
			t.Fatalf("%s: item %d, which is aside, is %q, %+v, %v", l.at, id, got.item.Data, about, err)
		}
		if receipt := l.leases[id]; receipt != 0 {
			if _, err := e.ConfirmLease(Now(), []byte("q"), receipt); err != nil {
				t.Fatalf("%s: the lease of item %d: %v", l.at, id, err)
			}
		}
	}
}

// checkDrained takes everything out, and compares it with what was asked for.
func (l *marksLedger) checkDrained(t *testing.T, e *Engine) {
	t.Helper()
	found := make(map[uint64]bool)
	for _, body := range drain(t, e, "q") {
		n, err := strconv.ParseUint(body, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		id, other := n%overwritten, n > overwritten
		if found[id] || l.gone[id] || l.aside(id) || !l.put[id] && !l.doubtful[id] {
			t.Fatalf("%s: %d came, twice = %t, gone = %t, aside = %t", l.at, id, found[id], l.gone[id], l.aside(id))
		}
		if other != l.over[id] && !l.overDoubtful[id] {
			t.Fatalf("%s: %d came with another body = %t, want %t", l.at, id, other, l.over[id])
		}
		found[id] = true
	}
	for id := range l.put {
		if !found[id] && !l.gone[id] && !l.aside(id) && !l.doubtful[id] {
			t.Fatalf("%s: %d is lost", l.at, id)
		}
	}
}

// wantKeys fails the test unless every item that is there is found by its key, and none that is gone.
func wantKeys(t *testing.T, e *Engine, l *marksLedger) {
	t.Helper()
	for id := range l.put {
		found, ok := e.Find(Now(), []byte("q"), fmt.Append(nil, id))
		if l.doubtful[id] {
			continue
		}
		if ok == l.gone[id] || ok && found != id {
			t.Fatalf("%s: key %d finds item %d, %t, and it is gone = %t", l.at, id, found, ok, l.gone[id])
		}
	}
}

// TestMarksCrash stops the machine at every call that changes the disk. After the death of the process, and after power
// cuts, it finds every item that was acknowledged and is not gone, and no other. Each has its newest body and its lease
// or delay.
func TestMarksCrash(t *testing.T) {
	calls, stride := 0, amount(sampled(9, 3), 1, 1)
	for n := 1; ; n += stride {
		fsys := segmenttest.New()
		fsys.StopInWrite(n, n*7%60)
		l := marksScript(t, fsys)
		if !fsys.Stopped() {
			t.Logf("stopped at %d calls, in steps of %d", calls, stride)
			if calls*stride < 100 || len(l.gone) < 100 || l.files < 5 || len(l.over) != 5 || len(l.leases) != 4 {
				t.Errorf("%d calls, %d items gone, %d checkpoints, %d overwritten, %d leased",
					calls, len(l.gone), l.files, len(l.over), len(l.leases))
			}
			return
		}
		calls++
		images := map[string]*segmenttest.FS{
			"kill": fsys.Kill(), "nothing kept": fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose}),
			"torn":               fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Tear, Seed: uint64(n)}),
			"names out of order": fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Tear, Seed: uint64(n), ReorderMetadata: true}),
		}
		for what, image := range images {
			l.at = fmt.Sprintf("call %d, %s", n, what)
			e, err := open(markOptions(image))
			if err != nil {
				t.Fatal(err)
			}
			if w := e.Withheld(); len(w) > 0 {
				t.Fatalf("%s: withheld are %+v", l.at, w)
			}
			wantKeys(t, e, l)
			l.checkAside(t, e)
			l.checkDrained(t, e)
			verify(t, e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
