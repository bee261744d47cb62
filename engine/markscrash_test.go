package engine

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// marksScript puts items, removes some from the middle, has checkpoints write files of what is gone and runs be
// written again, takes some, and notes what was acknowledged, until the machine stops.
func marksScript(t *testing.T, fsys *segmenttest.FS) (put, gone, doubtful map[uint64]bool, files int) {
	put, gone, doubtful = make(map[uint64]bool), make(map[uint64]bool), make(map[uint64]bool)
	e, err := open(markOptions(fsys))
	if err != nil {
		return put, gone, doubtful, 0
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
		settleRuns(e)
		e.spool.endRun(e.shardOf([]byte("q")).queues["q"])
		settleRuns(e)
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
	checkpoint := func() {
		if fsys.Stopped() {
			return
		}
		if err := e.trimJournal(); err != nil && !fsys.Stopped() {
			t.Fatal(err)
		}
		if _, err := e.checkpoint(); err == nil {
			files++
		}
		settleRuns(e)
	}
	for first := uint64(1); first < 120; first += 20 {
		if puts(first, 20); fsys.Stopped() {
			return put, gone, doubtful, 0
		}
	}
	removes(4, 20, 100)
	checkpoint()
	removes(4, 21, 100)
	checkpoint()
	removes(4, 22, 100) // most of some runs is gone
	settleRuns(e)
	checkpoint()
	for n := 0; n < 70 && !fsys.Stopped(); {
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
		sure(id, gone, f.Ticket, err)
	}
	settleRuns(e)
	checkpoint()
	return put, gone, doubtful, files
}

// wantKeys fails the test unless every item that is there is found by its key, and none that is gone.
func wantKeys(t *testing.T, e *Engine, put, gone, doubtful map[uint64]bool) {
	t.Helper()
	for id := range put {
		found, ok := e.Find(Now(), []byte("q"), fmt.Append(nil, id))
		if doubtful[id] {
			continue
		}
		if ok == gone[id] || ok && found != id {
			t.Fatalf("key %d finds item %d, %t, and it is gone = %t", id, found, ok, gone[id])
		}
	}
}

// TestMarksCrash stops the machine at every call that changes the disk, and finds, after the death of the process
// and after power cuts, every item that was acknowledged and is not gone, and no other.
func TestMarksCrash(t *testing.T) {
	calls, stride := 0, amount(3, 1, 1)
	for n := 1; ; n += stride {
		fsys := segmenttest.New()
		fsys.StopInWrite(n, n*7%60)
		put, gone, doubtful, files := marksScript(t, fsys)
		if !fsys.Stopped() {
			t.Logf("stopped at %d calls, in steps of %d", calls, stride)
			if calls*stride < 100 || len(gone) < 100 || files < 4 {
				t.Errorf("%d calls, %d items gone, %d checkpoints", calls, len(gone), files)
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
			e, err := open(markOptions(image))
			if err != nil {
				t.Fatal(err)
			}
			if w := e.Withheld(); len(w) > 0 {
				t.Fatalf("call %d, %s: withheld are %+v", n, what, w)
			}
			wantKeys(t, e, put, gone, doubtful)
			found := make(map[uint64]bool)
			for _, body := range drain(t, e, "q") {
				id, err := strconv.ParseUint(body, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if found[id] || gone[id] || !put[id] && !doubtful[id] {
					t.Fatalf("call %d, %s: %d came, twice = %t, and was gone = %t", n, what, id, found[id], gone[id])
				}
				found[id] = true
			}
			for id := range put {
				if !found[id] && !gone[id] && !doubtful[id] {
					t.Fatalf("call %d, %s: %d is lost", n, what, id)
				}
			}
			verify(t, e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
