package engine

import (
	"strings"
	"testing"
	"testing/synctest"

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
