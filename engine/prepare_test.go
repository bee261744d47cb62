package engine

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestPrepareWhileSyncing has the disk take its time to sync what the journal has left: whoever puts
// meanwhile finds every next segment made.
//
// Its control is a maintain that makes them, between syncs.
func TestPrepareWhileSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan struct{})
		fsys := &hookFS{FS: segmenttest.New(), writeOut: func(call func() error) error {
			<-disk
			return call()
		}}
		o := testOptions(fsys)
		o.Settings.Default.Sync = SyncNever
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			synctest.Wait()
			if !e.journal.Prepared() {
				t.Errorf("after %d segments the next is not made", i)
			}
			mustPut(t, e, "q", strings.Repeat("x", 3000)) // more than half a segment
		}
		if got := len(e.journal.Segments()); got != 5 {
			t.Errorf("the journal has %d segments, want 5", got)
		}
		synctest.Wait()
		if got := e.journal.OpenFiles(); got != 6 { // the tail, the next, and those that wait for a sync
			t.Errorf("%d segments are open, want 6: the disk did not take its time", got)
		}
		close(disk)
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPrepareBacksOff has a disk without room for another segment, and an engine that nobody uses. What it writes is
// bounded, and it takes puts again as soon as the disk has more room.
func TestPrepareBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &spaceFS{hookFS: &hookFS{FS: segmenttest.New()}, total: 100 << 30}
		fsys.free.Store(90 << 30)
		e, err := Open(testOptions(fsys))
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, e)
		synctest.Wait()
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpRename, 0, syscall.ENOSPC))
		mustPut(t, e, "q", strings.Repeat("x", 3000))
		mustPut(t, e, "q", strings.Repeat("x", 3000)) // in the segment that was prepared
		after(2 * time.Minute)
		if !e.journal.Full() {
			t.Fatal("the journal has room")
		}
		before := fsys.MutatingCalls()
		if after(time.Hour); fsys.MutatingCalls()-before > 60*10 {
			t.Errorf("an idle engine made %d calls in an hour that change the disk", fsys.MutatingCalls()-before)
		}
		fsys.SetFault(nil)
		fsys.free.Add(e.opts.SegmentSize - 1) // others come and go
		if after(time.Second); !e.journal.Full() {
			t.Error("the journal was tried although the disk has no more room")
		}
		fsys.free.Add(1)
		if after(2 * maintainInterval); e.journal.Full() {
			t.Error("the journal was not tried although the disk has room")
		}
	})
}
