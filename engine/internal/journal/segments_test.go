package journal

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestRetryBacksOff has a disk make no segment for an hour, while the journal is tried again every tenth of a
// second, as the engine does. What nobody asked for is bounded: a few calls at first, and then one try a minute.
// The journal works again a minute behind the disk at most, and at once when room has come.
func TestRetryBacksOff(t *testing.T) {
	const tries = 75 // 11 within the first two minutes, and one a minute
	for _, tt := range []struct {
		name    string
		err     error
		waiting bool // a write waits for the segment
		came    bool // somebody notes that room has come
	}{
		{"the next segment", syscall.ENOSPC, false, false},
		{"a write that needs the next segment", syscall.ENOSPC, true, false},
		{"the same by another error", syscall.EIO, true, false},
		{"room comes", syscall.ENOSPC, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := segmenttest.New()
				j := newTest(t, fsys, func(o *Options) { o.Report = func(string, error) {} })
				refuse := segmenttest.FailAllFrom(segmenttest.OpRename, 0, tt.err)
				changes := 0
				fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
					if op.Kind.Mutates() {
						changes++
					}
					return refuse(op)
				})
				j.Prepare()
				put(j, 1, strings.Repeat("x", 3000))
				if tt.waiting {
					put(j, 2, strings.Repeat("x", 3000))
				}
				if err := j.Write(j.End()); (err != nil) != tt.waiting {
					t.Fatalf("Write = %v", err)
				}
				retry := func(d time.Duration) {
					for range d / (100 * time.Millisecond) {
						<-time.After(100 * time.Millisecond)
						j.Retry()
						j.AskPrepare()
						if len(j.rotated) > 0 { // what PrepareSegments does
							<-j.rotated
							j.Prepare()
						}
					}
				}
				retry(time.Hour)
				const perTry = 7 // create, allocate, header, sync, rename, remove, and a sync of the directory
				if most := tries * perTry; changes > most {
					t.Errorf("%d calls changed the disk in an hour without a client, want %d at most", changes, most)
				}
				if j.Prepared() {
					t.Fatal("the segment was made")
				}
				fsys.SetFault(nil)
				patience := maxPrepareDelay
				if tt.came {
					j.NoteRoom()
					patience = 200 * time.Millisecond
				}
				if retry(patience); !j.Prepared() || j.Failing() || j.Full() {
					t.Errorf("%v behind the disk: prepared %t, failing %t, full %t", patience, j.Prepared(), j.Failing(), j.Full())
				}
			})
		})
	}
}
