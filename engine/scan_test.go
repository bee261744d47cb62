package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestScanMeetsWhatComesBack gives all items of a queue another expiry, piece by piece, and returns a lease between two
// pieces, of an item before the Scan. The Scan meets the item, as it meets those that were ready from the start.
func TestScanMeetsWhatComesBack(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		const items, ready = 1000, 200
		e, _ := newQuiet(t)
		for range items {
			mustPut(t, e, "q", "x")
		}
		var receipts []uint64
		for range items {
			var about Delivery
			f := FetchRequest{Access: Lease, Lease: time.Hour, Delivery: &about}
			if _, err := e.Fetch(Now(), []byte("q"), f, &copied{}); err != nil {
				t.Fatal(err)
			}
			receipts = append(receipts, about.Receipt)
		}
		back := func(id int) {
			t.Helper()
			if _, err := e.ReturnLease(Now(), []byte("q"), receipts[id-1], Return{How: Release}); err != nil {
				t.Fatal(err)
			}
		}
		for id := 1; id <= ready; id++ {
			back(id)
		}
		w := e.Changing([]byte("q"), "", Match{Hidden: hidden}, Changes{SetExpiry: true, Expiry: Now().After(time.Hour)})
		for piece := 0; w.Do(Now(), nil, 1); piece++ {
			w.Wait()
			if piece == 0 {
				back(700)
			}
		}
		n, _, err := w.Result()
		if want := map[bool]int{false: ready + 1, true: items}[hidden]; err != nil || n != want {
			t.Errorf("hidden %t: %d items are met, want %d: %v", hidden, n, want, err)
		}
		verify(t, e)
	}
}

// counting is a Receiver that counts items.
type counting struct{ items int }

func (c *counting) Receive(Item) bool {
	c.items++
	return true
}

// TestListReadsFramesOnce lists a queue of several runs. It looks for no place in a run that it reads from its start.
// For that it would read the header of every frame before the frames.
func TestListReadsFramesOnce(t *testing.T) {
	o := testOptions(segmenttest.New(), tiny)
	e := openQuiet(t, o)
	const items = 60
	for i := range items {
		mustPut(t, e, "q", strings.Repeat("x", 200))
		if awaitRuns(e); i%20 == 19 { // a start begins a new run
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = openQuiet(t, o)
		}
	}
	w, got := e.List([]byte("q"), Match{}), &counting{}
	for w.Do(Now(), got, 1000) {
		w.Wait()
	}
	all := e.shardOf([]byte("q")).queues["q"].backlog.runs
	if got.items != items || len(all) < 2 {
		t.Fatalf("%d items of %d runs are listed, want %d of several", got.items, len(all), items)
	}
	for i, r := range all[1:] {
		if len(r.places) > 0 {
			t.Errorf("the headers of %d frames of run %d are read ahead", len(r.places), i+1)
		}
	}
}

// listing is a Receiver that notes ids.
type listing []uint64

func (l *listing) Receive(it Item) bool {
	*l = append(*l, it.ID)
	return true
}

// TestListBeforeRemovedEnd lists a queue on disk in which what is behind a hidden item, up to the end of a frame and
// beyond, was removed. The hidden item is met all the same, although it has to be read as well.
func TestListBeforeRemovedEnd(t *testing.T) {
	const items, delayed = 30, 12
	for last := uint64(delayed); last < 20; last++ {
		h := newHiding(t, segmenttest.New())
		var want listing
		for id := uint64(1); id <= items; id++ {
			delay := time.Duration(0)
			if id == delayed {
				delay = time.Hour
			}
			h.put(delay)
			if id <= delayed || id > last {
				want = append(want, id)
			}
			awaitRuns(h.Engine)
		}
		q := h.queue()
		if q.aside.hidden.OnDisk(delayed) == nil || q.backlog.onDisk == 0 {
			t.Fatal("nothing is hidden, or on disk")
		}
		for id := uint64(delayed + 1); id <= last; id++ {
			ticket, err := h.Remove(h.now, []byte("q"), "", Which{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, h.Engine, ticket)
		}
		var got listing
		w := h.List([]byte("q"), Match{Hidden: true})
		for w.Do(h.now, &got, 1) {
			w.Wait()
		}
		if _, _, err := w.Result(); err != nil || !slices.Equal(got, want) {
			t.Errorf("removed up to %d: the list has %v, want %v: %v", last, got, want, err)
		}
	}
}
