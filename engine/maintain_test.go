package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// openBusy opens an engine with its background work on a new file system, in a synctest bubble: its
// tickers go by the bubble's clock.
func openBusy(t *testing.T, change func(*Options)) (*Engine, *segmenttest.FS) {
	t.Helper()
	fsys := segmenttest.New()
	o := testOptions(fsys)
	change(&o)
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, e)
	synctest.Wait() // for the first segment to be prepared
	return e, fsys
}

// after lets time pass in a bubble, and what is due then happen.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// afterCut is what queue "q" holds after a power cut that loses all that was not synced.
func afterCut(t *testing.T, fsys *segmenttest.FS) string {
	t.Helper()
	e, err := open(testOptions(fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return strings.Join(queued(e, "q"), " ")
}

func TestPeriodicSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(o *Options) {
			o.Settings.Default.Sync = SyncEvery(2 * time.Second)
		})
		mustPut(t, e, "q", "a")
		after(1999 * time.Millisecond)
		if got := afterCut(t, fsys); got != "" {
			t.Errorf("after 1.999s a power cut leaves %q, want that nothing was synced yet", got)
		}
		mustPut(t, e, "q", "b")
		after(time.Millisecond)
		if got := afterCut(t, fsys); got != "a b" {
			t.Errorf("after 2s a power cut leaves %q, want a b", got)
		}
		mustGet(t, e, "q")
		after(2 * time.Second)
		if got := afterCut(t, fsys); got != "b" {
			t.Errorf("2s after a get a power cut leaves %q, want b", got)
		}
	})
}

// TestPeriodicSyncShortens puts to a queue with a long period and then to one with a short one.
func TestPeriodicSyncShortens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(o *Options) {
			o.Settings.Default.Sync = SyncEvery(time.Minute)
			short := o.Settings.Default
			short.Sync = SyncEvery(time.Second)
			o.Settings.Queues = map[string]QueueOptions{"short": short}
		})
		mustPut(t, e, "q", "a")
		after(time.Second)
		mustPut(t, e, "short", "b")
		after(time.Second)
		if got := afterCut(t, fsys); got != "a" {
			t.Errorf("a power cut leaves %q, want a", got)
		}
	})
}

// TestPeriodicSyncAfterFailure tests that, while writes fail, what had been written is synced when it is due. What
// could not be written is synced as soon as it can be.
func TestPeriodicSyncAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(o *Options) {
			o.Settings.Default.Sync = SyncEvery(2 * time.Second)
		})
		mustPut(t, e, "q", "a")
		after(time.Second)
		if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("b")}); err != nil {
			t.Fatal(err)
		}
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, syscall.EIO))
		after(2 * time.Second)
		if got := afterCut(t, fsys); got != "a" {
			t.Errorf("while writes fail a power cut leaves %q, want what was written: a", got)
		}
		fsys.SetFault(nil)
		after(maintainInterval)
		if got := afterCut(t, fsys); got != "a b" {
			t.Errorf("a power cut leaves %q, want a b", got)
		}
	})
}

func TestSyncNeverIsSyncedAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(o *Options) { o.Settings.Default.Sync = SyncNever })
		mustPut(t, e, "q", "a")
		after(time.Hour)
		if got := afterCut(t, fsys); got != "" {
			t.Errorf("a power cut leaves %q: somebody syncs", got)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if got := afterCut(t, fsys); got != "a" {
			t.Errorf("after Close a power cut leaves %q, want a", got)
		}
	})
}

// TestSyncNeverIsSyncedByRotation: what lies in a segment that is sealed survives a power cut,
// though nobody asked for a sync.
func TestSyncNeverIsSyncedByRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(o *Options) { o.Settings.Default.Sync = SyncNever })
		large := strings.Repeat("x", 3000)
		mustPut(t, e, "q", large)
		synctest.Wait()
		if got := afterCut(t, fsys); got != "" {
			t.Errorf("a power cut leaves %.10q of the first segment: somebody syncs", got)
		}
		mustPut(t, e, "q", large)
		synctest.Wait()
		if got := len(e.journal.Segments()); got != 2 {
			t.Fatalf("the journal has %d segments, want that it went on to another", got)
		}
		if got := afterCut(t, fsys); got != large {
			t.Errorf("a power cut leaves %.10q…, %d bytes, want the item in the sealed segment",
				got, len(got))
		}
	})
}

// TestSyncSealedFails: a sync of sealed segments that fails is a failed sync like any other.
func TestSyncSealedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(o *Options) { o.Settings.Default.Sync = SyncNever })
		large := strings.Repeat("x", 3000)
		mustPut(t, e, "q", large)
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
		mustPut(t, e, "q", large)
		synctest.Wait()
		if err := tryPut(e, "q", "x"); !errors.Is(err, ErrJournal) {
			t.Errorf("Put = %v, want ErrJournal", err)
		}
		if err := e.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("Close = %v, want EIO", err)
		}
	})
}

// TestIdleJournalIsMarked looks for the frame that says how far an idle journal was synced.
func TestIdleJournalIsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(*Options) {})
		mustPut(t, e, "q", "a")
		writes := fsys.Calls(segmenttest.OpWriteAt)
		after(2 * markInterval)
		if got := fsys.Calls(segmenttest.OpWriteAt) - writes; got != 1 {
			t.Errorf("%d writes while idle, want 1", got)
		}
		after(time.Hour)
		if got := fsys.Calls(segmenttest.OpWriteAt) - writes; got != 1 {
			t.Errorf("%d writes while idle, want 1", got)
		}
	})
}

func TestOpenReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openBusy(t, func(o *Options) {
			o.Settings.Default.OpenReadTimeout = 3 * time.Second
		})
		mustPut(t, e, "q", "a")
		mustPut(t, e, "q", "b")
		ra, _ := mustOpen(t, e, "q")
		mustOpen(t, e, "q")
		woken := make(wakeUp, 1)
		w := &Waiter{Notify: woken}
		e.Fetch(Now(), []byte("q"), FetchRequest{Waiter: w}, nil)
		after(3*time.Second - time.Millisecond)
		if len(woken) > 0 {
			t.Error("a read ended too early")
		}
		after(maintainInterval)
		if _, ok := e.Confirm(Now(), ra); ok || len(woken) != 1 {
			t.Errorf("waiter was notified %d times, overdue read lives = %v, want 1 and false",
				len(woken), ok)
		}
		<-woken
		wantItems(t, e, "q", "b") // the waiter took the oldest
		var got copied
		mustCommitted(t, e)(e.Collect(Now(), w.Read, FetchRequest{Access: Take}, &got))
		if string(got.item.Data) != "a" {
			t.Errorf("the waiter got %q, want a", got.item.Data)
		}
	})
}

func TestBackgroundSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openBusy(t, func(o *Options) {
			o.SweepInterval = 10 * time.Second
			o.Settings.Default.MaxAge = 5 * time.Second
			o.Settings.Default.MaxExpireSweep = 2
		})
		for _, data := range []string{"a", "b", "c"} {
			mustPut(t, e, "q", data)
		}
		after(9 * time.Second)
		wantItems(t, e, "q", "a b c")
		after(time.Second + maintainInterval)
		wantItems(t, e, "q", "c")
		after(10 * time.Second)
		wantItems(t, e, "q", "")
	})
}

// TestBackgroundIsWritten tests that the work of the background is written without a request. So it stays done when
// the process dies, and does not gather in memory.
func TestBackgroundIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openBusy(t, func(o *Options) {
			o.SweepInterval = time.Second
			old := o.Settings.Default
			old.MaxAge, old.ExpireTo = 2*time.Second, "late"
			brief := o.Settings.Default
			brief.MaxQueueAge = 2 * time.Second
			o.Settings.Queues = map[string]QueueOptions{"old": old, "brief": brief}
		})
		mustPut(t, e, "old", "a")
		mustPut(t, e, "brief", "b")
		mustGet(t, e, "brief")
		after(4 * time.Second)
		wantItems(t, e, "late", "a")
		after(maintainInterval)
		k := kill(t, e)
		wantItems(t, k, "old", "")
		wantItems(t, k, "late", "a")
		if _, ok := k.QueueStats(Now(), []byte("brief")); ok {
			t.Error("the queue that had expired is back")
		}
	})
}

func TestNoBackgroundSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openBusy(t, func(o *Options) {
			o.Settings.Default.MaxAge = time.Second
			o.Settings.Default.MaxQueueAge = time.Second
		})
		mustPut(t, e, "q", "a")
		mustPut(t, e, "empty", "a")
		mustGet(t, e, "empty")
		after(time.Hour)
		wantItems(t, e, "q", "a")
		if got := e.Stats().Queues; got != 2 {
			t.Errorf("%d queues, want 2: a sweep interval of zero means never", got)
		}
	})
}

func TestQueueExpiry(t *testing.T) { // reference §4.9
	for _, tt := range []struct {
		name  string
		use   func(t *testing.T, e *Engine)
		stays bool
	}{
		{"empty", func(t *testing.T, e *Engine) { mustGet(t, e, "q") }, false},
		{"used a moment ago", func(t *testing.T, e *Engine) {
			mustGet(t, e, "q")
			after(9 * time.Second)
			mustPut(t, e, "q", "a")
			mustGet(t, e, "q")
		}, false},
		{"with an item", func(t *testing.T, e *Engine) { mustPut(t, e, "q", "a") }, true},
		{"with an open read", func(t *testing.T, e *Engine) {
			mustPut(t, e, "q", "a")
			mustOpen(t, e, "q")
		}, true},
		{"with a leased item", func(t *testing.T, e *Engine) {
			mustPut(t, e, "q", "a")
			f, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: Lease, Lease: time.Hour}, &copied{})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, f.Ticket)
		}, true},
		{"with a waiter", func(t *testing.T, e *Engine) {
			c := &collector{}
			c.Notify = c
			e.Fetch(Now(), []byte("q"), FetchRequest{Waiter: &c.Waiter}, nil)
		}, true},
		{"with a child", func(t *testing.T, e *Engine) {
			mustGet(t, e, "q")
			mustPut(t, e, "q+c", "a")
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, fsys := openBusy(t, func(o *Options) {
					o.SweepInterval = time.Second
					o.Settings.Default.MaxQueueAge = 10 * time.Second
				})
				start := time.Now()
				tt.use(t, e)
				after(9*time.Second - time.Since(start))
				if _, ok := e.QueueStats(Now(), []byte("q")); !ok {
					t.Error("the queue expired too early")
				}
				after(3 * time.Second)
				if _, ok := e.QueueStats(Now(), []byte("q")); ok != tt.stays {
					t.Errorf("queue exists = %v, want %v", ok, tt.stays)
				}
				if s := e.Stats(); !tt.stays && (s.Deleted != 1 || s.Expired != 1) {
					t.Errorf("Stats = %+v, want 1 deleted and 1 expired", s)
				}
				mustPut(t, e, "commit", "x")
				killed := openQuiet(t, testOptions(fsys.Kill()))
				if _, ok := killed.QueueStats(Now(), []byte("q")); ok != tt.stays {
					t.Errorf("after a kill the queue exists = %v, want %v", ok, tt.stays)
				}
			})
		})
	}
}

// TestBackgroundTrim has segments dropped, and prepared, as the journal goes on.
func TestBackgroundTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(*Options) {})
		for range 100 {
			mustPut(t, e, "q", strings.Repeat("x", 1000))
			mustGet(t, e, "q")
			synctest.Wait()
		}
		if got := len(e.journal.Segments()); got > 3 {
			t.Errorf("the journal has %d segments", got)
		}
		if !e.journal.Prepared() {
			t.Error("no segment is prepared")
		}
		if got := fsys.Calls(segmenttest.OpAllocate); got > 10 {
			t.Errorf("%d files were made for 25 segments, want that they are used again", got)
		}
	})
}

// TestFailureIsReported looks for what an operator reads when the journal fails, and works again.
func TestFailureIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e, fsys := openBusy(t, func(o *Options) {
			o.Logger = slog.New(slog.NewTextHandler(&out, nil))
		})
		mustPut(t, e, "q", "a")
		ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("b")})
		if err != nil {
			t.Fatal(err)
		}
		fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, syscall.EIO))
		if err := e.Commit(ticket); !errors.Is(err, ErrJournal) {
			t.Errorf("Commit = %v, want ErrJournal", err)
		}
		after(time.Hour)
		fsys.SetFault(nil)
		after(time.Second)
		for _, want := range []string{
			"level=ERROR msg=\"journal fails: puts are refused\" err=", "input/output error",
			"level=INFO msg=\"journal works again: puts are accepted\"",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("log lacks %q", want)
			}
		}
		if got := strings.Count(out.String(), "\n"); got != 2 {
			t.Errorf("log has %d lines, want 2:\n%s", got, out.String())
		}
	})
}

// TestFailureIsReportedOnce has a sync of background work fail: an operator reads once that the journal fails, and why.
func TestFailureIsReportedOnce(t *testing.T) {
	for name, sync := range map[string]SyncPolicy{"mark": SyncAlways, "sealed segment": SyncNever} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				e, fsys := openBusy(t, func(o *Options) {
					o.Logger = slog.New(slog.NewTextHandler(&out, nil))
					o.Settings.Default.Sync = sync
				})
				mustPut(t, e, "q", "a")
				failed := false
				fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
					if failed || op.Kind != segmenttest.OpDatasync || !strings.Contains(op.Path, "0000000001.") {
						return segmenttest.Fault{}
					}
					failed = true
					return segmenttest.Fault{Err: syscall.EIO}
				})
				if sync == SyncNever { // the first segment is left
					mustPut(t, e, "q", strings.Repeat("b", 3000))
					mustPut(t, e, "q", strings.Repeat("c", 3000))
				}
				after(10 * markInterval)
				if got := strings.Count(out.String(), "level=ERROR"); got != 1 || !strings.Contains(out.String(), "journal fails") {
					t.Errorf("log has %d errors, want one:\n%s", got, out.String())
				}
			})
		})
	}
}

// TestPeriodicSyncGoesOn has a put come in the middle of a sync, which has forgotten what is due and not yet gathered
// what to write. That put is synced before it is due. Nothing is left to do then, but what is put later is to be
// synced in its time.
func TestPeriodicSyncGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(o *Options) {
			o.Settings.Default.Sync = SyncEvery(2 * time.Second)
		})
		mustPut(t, e, "q", "a")
		after(2 * time.Second)
		e.journal.SyncWithin(2 * time.Second) // as that put does
		after(2 * time.Second)
		mustPut(t, e, "q", "b")
		after(2 * time.Second)
		if got := afterCut(t, fsys); got != "a b" {
			t.Errorf("after its period a power cut leaves %q, want a b", got)
		}
	})
}
