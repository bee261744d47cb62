package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// expiring returns an engine whose queue "q" holds little in memory. Its items expire into the queue "dead". It also
// returns an instant at which the items of putNumbers have not expired yet.
func expiring(t *testing.T, f *hookFS) (*Engine, Time) {
	o := testOptions(nil)
	o.FS = f
	to := DefaultQueueOptions()
	to.MaxMemorySize, to.ExpireTo = 2000, "dead"
	o.Settings.Queues = map[string]QueueOptions{"q": to}
	e := openQuiet(t, o)
	now := Now()
	e.spool.now = func() Time { return now }
	return e, now
}

// putNumbers puts n items that expire a moment later, and calls each after each of them.
func putNumbers(t *testing.T, e *Engine, now Time, n int, each func(i int)) (all []string) {
	t.Helper()
	for i := range n {
		all = append(all, fmt.Sprintf("%0100d", i))
		p := PutRequest{Data: []byte(all[i]), Expiry: now + 1}
		ticket, err := e.Put(now, []byte("q"), p)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		each(i)
	}
	return all
}

// TestFlushMovesEverywhere: a flush moves what has expired in its order, wherever it lies: read back,
// on disk alone, about to be written, or put last.
func TestFlushMovesEverywhere(t *testing.T) {
	for _, spill := range []int{-1, 0, 40, 80, 99} {
		e, now := expiring(t, &hookFS{FS: segmenttest.New()})
		want := putNumbers(t, e, now, 100, func(i int) {
			if i == spill {
				for q := e.spool.spills.Take(); q != nil; q = e.spool.spills.Take() {
					e.spool.spill(q)
				}
			}
		})
		ticket, err := e.Flush(now+1000, []byte("q"), "")
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		spoolAll(e)
		verify(t, e)
		if got := drain(t, e, "dead"); !slices.Equal(got, want) {
			t.Errorf("spilled after item %d: %d items arrived, or not in order, want %d", spill, len(got), len(want))
		}
	}
}

// TestFlushWhileSpilling flushes while items are being written to the backlog: they have expired, and
// arrive where the others do.
func TestFlushWhileSpilling(t *testing.T) {
	f := &hookFS{FS: segmenttest.New()}
	e, now := expiring(t, f)
	want := putNumbers(t, e, now, 100, func(int) {})
	c := e.Flushing([]byte("q"), "")
	writes := 0
	f.write = func(call func() error) error {
		if writes++; writes == 1 {
			c.Do(now+1000, 1<<20)
		}
		return call()
	}
	for q := e.spool.spills.Take(); q != nil; q = e.spool.spills.Take() {
		e.spool.spill(q)
	}
	f.write = nil
	for c.Do(now+1000, 1<<20) {
		c.Wait()
	}
	spoolAll(e)
	verify(t, e)
	if got := drain(t, e, "dead"); !slices.Equal(got, want) || writes == 0 {
		t.Errorf("%d items arrived, or not in order, want %d; %d writes", len(got), len(want), writes)
	}
	if s, _ := e.QueueStats(now, []byte("q")); s.Expired != 100 || s.Items != 0 {
		t.Errorf("%d items expired, want 100; %d are left", s.Expired, s.Items)
	}
}

// TestDeleteBehindDelete deletes a queue twice before the first is synced. The second must wait for the same sync, or a
// power cut brings back a queue that its reply said is gone.
func TestDeleteBehindDelete(t *testing.T) {
	e, _ := newQuiet(t)
	mustPut(t, e, "q", "a")
	first, second := e.Delete(Now(), []byte("q")), e.Delete(Now(), []byte("q"))
	if second.Synced < first.Synced || e.Committed(second) {
		t.Errorf("tickets of two deletes are %+v and %+v, want the second no earlier", first, second)
	}
	mustCommit(t, e, second)
}

// TestConfirmBehindDelete confirms a read whose queue was deleted a moment ago. The confirm must wait for the sync of
// the delete, or a power cut brings the item back.
func TestConfirmBehindDelete(t *testing.T) {
	e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync = SyncAlways })
	mustPut(t, e, "q", "a")
	ref, _ := mustOpen(t, e, "q")
	deleted := e.Delete(Now(), []byte("q"))
	confirmed, _ := e.Confirm(Now(), ref)
	mustCommit(t, e, confirmed)
	if !e.Committed(deleted) {
		t.Errorf("the confirm waits for %+v, and the delete for %+v", confirmed, deleted)
	}
	again := openQuiet(t, testOptions(fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})))
	wantItems(t, again, "q", "")
}

// TestFlushBesideClose closes the engine while a flush has items to read back from the disk. It opens no run behind the
// close, says why it ends, and what it has not moved is there at the next start.
func TestFlushBesideClose(t *testing.T) {
	f := &hookFS{FS: segmenttest.New()}
	e, now := expiring(t, f)
	want := putNumbers(t, e, now, 100, func(int) {})
	spoolAll(e)
	c := e.Flushing([]byte("q"), "")
	for c.Do(now+1000, 1<<20) && !c.last.IsZero() { // what is in memory
		c.Wait()
	}
	if !c.waits {
		t.Fatal("the flush has nothing to read back")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if files := f.OpenFiles(); len(files) > 0 {
		t.Errorf("files are left open: %q", files)
	}
	for c.Do(now+1000, 1<<20) {
		c.Wait()
	}
	if _, _, err := c.Result(); !errors.Is(err, ErrClosed) {
		t.Errorf("Result = %v, want ErrClosed", err)
	}
	again := openQuiet(t, e.opts)
	verify(t, again)
	if _, err := again.Flush(now+1000, []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	spoolAll(again)
	if got := drain(t, again, "dead"); !slices.Equal(got, want) {
		t.Errorf("%d items arrived behind the next start, or not in order, want %d", len(got), len(want))
	}
}
