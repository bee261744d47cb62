package engine

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestBacklogUnwritable has nothing be written to the backlog. Meanwhile the engine hands out what is in memory, in
// order, to fetches that wait and to others. It goes on with puts as long as it can take them. When the disk is well,
// all goes on.
func TestBacklogUnwritable(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EMFILE} {
		for _, kind := range []segmenttest.OpKind{segmenttest.OpCreate, segmenttest.OpWriteAt} {
			for before := range 3 { // items that are on disk when it begins to fail
				t.Run(fmt.Sprintln(errno, kind, before), func(t *testing.T) { testUnwritable(t, errno, kind, before*10) })
			}
		}
	}
}

func testUnwritable(t *testing.T, errno syscall.Errno, kind segmenttest.OpKind, before int) {
	e, fsys := newQuiet(t, tiny)
	want := putMany(t, e, "q", 0, before)
	spoolAll(e)
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == kind && strings.Contains(op.Path, "/backlog/") {
			return segmenttest.Fault{Err: errno}
		}
		return segmenttest.Fault{}
	})
	want = append(want, putMany(t, e, "q", before, 20)...)
	var got []string
	put, next := true, before+20
	for round := 0; ; round++ {
		if put = put && next < before+50; put {
			if err := tryPut(e, "q", fmt.Sprintf("%030d", next)); err == nil {
				want = append(want, fmt.Sprintf("%030d", next))
				next++
			} else if put = false; errno != syscall.ENOSPC {
				t.Fatal(err)
			}
		}
		data, ok := fetchSoon(t, e, round%2 == 0)
		if !ok {
			break
		}
		got = append(got, data)
		verify(t, e)
	}
	fsys.SetFault(nil)
	e.retryJournal()
	e.spool.tend()
	want = append(want, putMany(t, e, "q", 1000, 20)...)
	spoolAll(e)
	if got = append(got, drain(t, e, "q")...); !slices.Equal(got, want) {
		t.Errorf("got %d items, want %d in order", len(got), len(want))
	}
}

// TestTakenBackLeaves has what could not be written come back into memory, for a fetch. It leaves again when the disk is
// well, though nobody puts anything.
func TestTakenBackLeaves(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if strings.Contains(op.Path, "/backlog/") {
			return segmenttest.Fault{Err: syscall.EIO}
		}
		return segmenttest.Fault{}
	})
	want := putMany(t, e, "q", 0, 40)
	if data, _ := fetchSoon(t, e, true); data != want[0] {
		t.Errorf("the first item is %q, want %q", data, want[0])
	}
	fsys.SetFault(nil)
	for range 3 { // seconds
		e.spool.tend()
		spoolAll(e)
	}
	q := e.shardOf([]byte("q")).queues["q"]
	if n := q.inMemory() + q.backlog.leaving.Bytes; n > q.opts.MaxMemorySize+30 {
		t.Errorf("%d bytes are in memory, want %d", n, q.opts.MaxMemorySize)
	}
	if got := drain(t, e, "q"); !slices.Equal(got, want[1:]) {
		t.Errorf("got %d items, want %d in order", len(got), len(want)-1)
	}
	e.spool.tend()
	spoolAll(e)
	if q.backlog != nil {
		t.Error("the queue is empty, and has a backlog")
	}
}

// fetchSoon takes the next item of queue "q" while the spool tries, and tries again after a second. It reports false if
// there is none.
func fetchSoon(t *testing.T, e *Engine, waits bool) (data string, ok bool) {
	t.Helper()
	var got copied
	var f FetchRequest
	if waits {
		f.Waiter = &Waiter{Notify: looksItself{}}
	}
	_, err := e.Fetch(Now(), []byte("q"), f, &got)
	for tries := 0; err == ErrComing; tries++ {
		if tries == 5 {
			t.Fatal("the next item does not come")
		}
		spoolAll(e)
		e.spool.tend()
		spoolAll(e)
		if waits {
			if f.Waiter.Read.IsZero() {
				continue
			}
			if _, ok := e.Collect(Now(), f.Waiter.Read, f, &got); !ok {
				t.Fatal("the item has gone")
			}
			return string(got.item.Data), true
		}
		_, err = e.Fetch(Now(), []byte("q"), f, &got)
	}
	if err == ErrEmpty && waits {
		e.CancelWait(f.Waiter)
	}
	return string(got.item.Data), err == nil
}

// looksItself hears of the end of a wait that its owner looks at.
type looksItself struct{}

func (looksItself) WaitEnded(*Waiter) {}

// TestUnwritableStaysKnown has the backlog of one queue not be written, and then the spool look at another one that has
// nothing to write. That says nothing of the disk.
func TestUnwritableStaysKnown(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	putMany(t, e, "idle", 0, 20)
	spoolAll(e)
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if strings.Contains(op.Path, "/backlog/") {
			return segmenttest.Fault{Err: syscall.EIO}
		}
		return segmenttest.Fault{}
	})
	putMany(t, e, "q", 0, 20)
	e.spool.spill(e.spool.spills.Take())
	if !e.spool.failing.Load() {
		t.Fatal("the backlog was written")
	}
	e.spool.spill(e.shardOf([]byte("idle")).queues["idle"])
	if !e.spool.failing.Load() {
		t.Error("the disk counts as well, although nothing was written")
	}
	fsys.SetFault(nil)
	e.spool.tend()
	spoolAll(e)
	if e.spool.failing.Load() {
		t.Error("the disk does not count as well, although all was written")
	}
}
