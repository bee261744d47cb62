package engine

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestMoveFailsHalfway has a move of the journal fail halfway. A queue has let go of the old journal, and is not in
// the new one yet. Until the next move, a start has everything from the old one.
func TestMoveFailsHalfway(t *testing.T) {
	fsys := newFS()
	o := moveOptions(fsys)
	fails := false
	o.yield = func() { // what leaves the old journal lets others in
		if fails {
			fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
		}
	}
	e := openQuiet(t, o)
	mustPut(t, e, "deep", "leased")
	if _, _, err := leaseNext(e, "deep", time.Hour); err != nil {
		t.Fatal(err)
	}
	putMany(t, e, "deep", 0, 60)
	spoolAll(e)
	want := stateOf(e)
	failSync(t, e, fsys, "other", "x")
	fails = true
	if err := e.moveJournal(); !errors.Is(err, syscall.EIO) {
		t.Errorf("moveJournal = %v, want that the backlog could not be synced", err)
	}
	fails = false
	fsys.SetFault(nil)
	q := e.shardOf([]byte("deep")).queues["deep"]
	if q.aside.Segment(0) != 0 {
		t.Error("the move failed before the queue had let go of the old journal")
	}
	verify(t, e)
	for crash, got := range afterCrashes(t, fsys) {
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s leaves\n%s\nwant\n%s", crash, got, want)
		}
	}
	if err := e.moveJournal(); err != nil {
		t.Fatal(err)
	}
	verify(t, e)
	for crash, got := range afterCrashes(t, fsys) {
		if !strings.HasPrefix(got, want) {
			t.Errorf("after the next move %s leaves\n%s\nwant\n%s", crash, got, want)
		}
	}
}
