package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// hiddenLedger is what hiddenScript has asked for, by body. Of what is doubtful the last was not acknowledged.
type hiddenLedger struct {
	*hiding
	put, taken, doubtful map[string]bool
	key                  map[string]string // of each body
	over                 map[string]string // the body that takes the place of this one
	overDoubtful         map[string]bool   // and that was not acknowledged
	lease                map[string]uint64 // receipts
	count                map[string]int    // deliveries that were given back
	at                   string            // where the machine stopped, for messages
}

// note notes whether what was asked for a body was acknowledged.
func (l *hiddenLedger) note(body string, is map[string]bool, ticket Ticket, err error) {
	if l.doubtful[body] = true; errors.Join(err, l.Commit(ticket)) == nil {
		delete(l.doubtful, body)
		is[body] = true
	}
}

func (l *hiddenLedger) puts(n int, first time.Duration) {
	for i := range n {
		body := fmt.Sprintf("due %d", l.now.After(first)+Time(i))
		l.key[body] = body[4:]
		ticket, err := l.Put(l.now, []byte("q"), PutRequest{Data: []byte(body), Extra: &PutExtra{
			Delay: first + time.Duration(i)*time.Millisecond, Key: []byte(l.key[body]),
		}})
		l.note(body, l.put, ticket, err)
	}
}

// overwrite puts a body in the place of another one.
func (l *hiddenLedger) overwrite(old string, delay time.Duration) {
	if l.fsys.Stopped() {
		return
	}
	body := fmt.Sprintf("due %d instead", l.now.After(delay))
	l.key[body], l.over[old] = l.key[old], body
	ticket, err := l.Put(l.now, []byte("q"), PutRequest{Data: []byte(body), Extra: &PutExtra{
		Delay: delay, Key: []byte(l.key[old]), OnDuplicate: OnlyReplace,
	}})
	if l.note(body, l.put, ticket, err); l.doubtful[body] {
		l.overDoubtful[old], l.doubtful[old] = true, true
		return
	}
	l.taken[old] = true
}

// next takes or leases the next item; "" if the machine has stopped.
func (l *hiddenLedger) next(request FetchRequest) (string, Ticket) {
	for tries := 0; tries < 50 && !l.fsys.Stopped(); tries++ {
		var got copied
		f, err := l.Fetch(l.now, []byte("q"), request, &got)
		if err == nil {
			return string(got.item.Data), f.Ticket
		}
		l.work()
	}
	return "", Ticket{}
}

func (l *hiddenLedger) takes(n int) {
	for range n {
		body, ticket := l.next(FetchRequest{})
		if body == "" {
			return
		}
		l.note(body, l.taken, ticket, nil)
	}
}

// leases leases the next item for longer than the test looks.
func (l *hiddenLedger) leases() (body string, receipt uint64) {
	about := Delivery{}
	body, ticket := l.next(FetchRequest{Access: Lease, Lease: 20_000 * time.Second, Delivery: &about})
	if body == "" {
		return "", 0
	}
	if l.Commit(ticket) != nil {
		l.doubtful[body] = true
		return "", 0
	}
	l.lease[body] = about.Receipt
	return body, about.Receipt
}

// hiddenScript puts items, has them hidden, overwritten, read back and written again, and leases and takes those that
// are due. It notes what was acknowledged, until the machine stops.
func hiddenScript(t *testing.T, fsys *segmenttest.FS) *hiddenLedger {
	l := &hiddenLedger{
		hiding: &hiding{T: t, fsys: fsys, now: 1700000000000, damaged: true},
		put:    make(map[string]bool), taken: make(map[string]bool), doubtful: make(map[string]bool),
		key: make(map[string]string), over: make(map[string]string), overDoubtful: make(map[string]bool),
		lease: make(map[string]uint64), count: make(map[string]int),
	}
	o := testOptions(fsys, func(o *QueueOptions) { o.MaxMemorySize = 100 })
	o.readBack, o.SegmentSize = time.Second, 1024
	e, err := open(o)
	if err != nil {
		return l
	}
	l.Engine = e
	l.precise = func() (Time, time.Duration) { return l.now, 0 }
	l.spool.now = l.precise.Now
	defer e.Close()
	l.puts(12, 10*time.Second)
	l.work()
	l.puts(4, 2000*time.Second)
	l.work()
	l.overwrite("due 1700000010011", 2100*time.Second) // the last of the first, which is on disk
	l.overwrite("due 1700002000001", 1500*time.Second)
	l.work()
	l.now = l.now.After(9500 * time.Millisecond)
	l.spool.unhideFrame(l.queue()) // some are read back
	l.work()
	l.now = l.now.After(time.Second)
	l.takes(8)
	l.leases()
	if body, receipt := l.leases(); body != "" {
		ticket, err := l.ReturnLease(l.now, []byte("q"), receipt, Return{How: Abort, Delay: 2000 * time.Second, Delayed: true})
		if delete(l.lease, body); errors.Join(err, l.Commit(ticket)) == nil {
			l.count[body] = 1
		} else {
			l.doubtful[body] = true
		}
	}
	l.takes(1)
	l.now = l.now.After(time.Minute)
	l.work() // what is left of a run is written again, and what came back is hidden
	if err := e.trimJournal(); err != nil && !fsys.Stopped() {
		t.Fatal(err)
	}
	l.now = l.now.After(2000 * time.Second)
	l.takes(3)
	l.work()
	return l
}

// check opens what the crash has left, and finds what was acknowledged and is not gone, and nothing else.
func (l *hiddenLedger) check(t *testing.T, image *segmenttest.FS) {
	t.Helper()
	h := &hiding{T: t, fsys: image, now: 1700000000000 + 10_000_000, damaged: true}
	h.open()
	if w := h.Withheld(); len(w) > 0 {
		t.Fatalf("%s: withheld are %+v", l.at, w)
	}
	for body := range l.put {
		if l.over[body] != "" || l.doubtful[body] {
			continue
		}
		if _, ok := h.Find(h.now, []byte("q"), []byte(l.key[body])); ok == l.taken[body] {
			t.Fatalf("%s: the key of %q is found = %t, and the item was taken = %t", l.at, body, ok, ok)
		}
	}
	found := make(map[string]bool)
	for h.queue() != nil {
		about := Delivery{}
		body := h.nextWith(FetchRequest{Delivery: &about})
		if body == "" {
			break
		}
		if found[body] || l.taken[body] || l.isLeased(body) || !l.put[body] && !l.doubtful[body] {
			t.Fatalf("%s: %q came, twice = %t, and was taken = %t", l.at, body, found[body], l.taken[body])
		}
		if want := l.count[body] + 1; about.Deliveries != want && !l.doubtful[body] {
			t.Fatalf("%s: %q was delivered %d times, want %d", l.at, body, about.Deliveries, want)
		}
		found[body] = true
	}
	for body := range l.put {
		if l.isLeased(body) {
			if _, err := h.ConfirmLease(h.now, []byte("q"), l.lease[body]); err != nil {
				t.Fatalf("%s: the lease of %q: %v", l.at, body, err)
			}
		} else if !found[body] && !l.taken[body] && !l.doubtful[body] {
			t.Fatalf("%s: %q is lost", l.at, body)
		}
	}
	for old := range l.overDoubtful {
		if found[old] == found[l.over[old]] {
			t.Fatalf("%s: of %q, and %q that takes its place, both come, or none", l.at, old, l.over[old])
		}
	}
	verify(t, h.Engine)
	if err := h.Engine.Close(); err != nil {
		t.Fatal(err)
	}
}

func (l *hiddenLedger) isLeased(body string) bool { return l.lease[body] != 0 && !l.doubtful[body] }

// TestHiddenCrash stops the machine at every call that changes the disk. After the death of the process, and after
// power cuts, it finds every item that was acknowledged and not taken, and no other. Each has its newest body, its
// lease and its count.
func TestHiddenCrash(t *testing.T) {
	calls, stride := 0, sampled(4, 1)
	for n := 1; ; n += stride {
		fsys := segmenttest.New()
		fsys.StopInWrite(n, n*7%600)
		l := hiddenScript(t, fsys)
		if !fsys.Stopped() {
			t.Logf("stopped at %d calls, in steps of %d", calls, stride)
			if calls*stride < 50 || len(l.taken) != 8+1+3+2 || len(l.lease) != 1 || len(l.count) != 1 || len(l.over) != 2 {
				t.Errorf("%d calls, %d items gone, %d leased, %d given back, %d overwritten",
					calls, len(l.taken), len(l.lease), len(l.count), len(l.over))
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
			l.check(t, image)
		}
	}
}
