package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// hiddenScript puts items, has them hidden, read back and written again, takes those that are due, and notes what
// was acknowledged, until the machine stops.
func hiddenScript(t *testing.T, fsys *segmenttest.FS) (put, taken, doubtful map[string]bool) {
	put, taken, doubtful = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	h := &hiding{T: t, fsys: fsys, now: 1700000000000, damaged: true}
	o := testOptions(fsys, func(o *QueueOptions) { o.MaxMemorySize = 100 })
	o.readBack, o.SegmentSize = time.Second, 1024
	e, err := open(o)
	if err != nil {
		return put, taken, doubtful
	}
	h.Engine = e
	h.precise = func() (Time, time.Duration) { return h.now, 0 }
	h.spool.now = h.steady
	defer e.Close()
	puts := func(n int, first time.Duration) {
		for i := range n {
			body := fmt.Sprintf("due %d", h.now.After(first)+Time(i))
			ticket, err := h.Put(h.now, []byte("q"), PutRequest{Data: []byte(body), Extra: &PutExtra{
				Delay: first + time.Duration(i)*time.Millisecond, Key: []byte(body)[4:],
			}})
			if doubtful[body] = true; err == nil && h.Commit(ticket) == nil {
				delete(doubtful, body)
				put[body] = true
			}
		}
	}
	takes := func(n int) {
		for tries := 0; n > 0 && tries < 50 && !fsys.Stopped(); tries++ {
			var got copied
			f, err := h.Fetch(h.now, []byte("q"), FetchRequest{}, &got)
			if err != nil {
				h.work()
				continue
			}
			n--
			body := string(got.item.Data)
			if doubtful[body] = true; h.Commit(f.Ticket) == nil {
				delete(doubtful, body)
				taken[body] = true
			}
		}
	}
	puts(12, 10*time.Second)
	h.work()
	puts(4, 2000*time.Second)
	h.work()
	h.now = h.now.After(9500 * time.Millisecond)
	h.spool.unhideFrame(h.queue()) // some are read back
	h.work()
	h.now = h.now.After(time.Second)
	takes(11)
	h.now = h.now.After(time.Minute)
	h.work() // what is left of a run is written again
	if err := e.trimJournal(); err != nil && !fsys.Stopped() {
		t.Fatal(err)
	}
	h.now = h.now.After(2000 * time.Second)
	takes(3)
	h.work()
	return put, taken, doubtful
}

// TestHiddenCrash stops the machine at every call that changes the disk, and finds, after the death of the process
// and after power cuts, every item that was acknowledged and not taken, and no other.
func TestHiddenCrash(t *testing.T) {
	calls := 0
	for n := 1; ; n++ {
		fsys := segmenttest.New()
		fsys.StopInWrite(n, n*7%600)
		put, taken, doubtful := hiddenScript(t, fsys)
		if !fsys.Stopped() {
			t.Logf("stopped at each of %d calls", calls)
			if calls < 50 || len(taken) != 14 {
				t.Errorf("%d calls, %d items taken", calls, len(taken))
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
			h := &hiding{T: t, fsys: image, now: 1700000000000 + 10_000_000, damaged: true}
			h.open()
			if w := h.Withheld(); len(w) > 0 {
				t.Fatalf("call %d, %s: withheld are %+v", n, what, w)
			}
			for body := range put {
				if _, ok := h.Find(h.now, []byte("q"), []byte(body)[4:]); !doubtful[body] && ok == taken[body] {
					t.Fatalf("call %d, %s: the key of %q is found = %t, and the item was taken = %t", n, what, body, ok, ok)
				}
			}
			found := make(map[string]bool)
			for h.queue() != nil {
				body := h.next()
				if body == "" {
					break
				}
				if found[body] || taken[body] || !put[body] && !doubtful[body] {
					t.Fatalf("call %d, %s: %q came, twice = %t, and was taken = %t", n, what, body, found[body], taken[body])
				}
				found[body] = true
			}
			for body := range put {
				if !found[body] && !taken[body] && !doubtful[body] {
					t.Fatalf("call %d, %s: %q is lost", n, what, body)
				}
			}
			verify(t, h.Engine)
			if err := h.Engine.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
