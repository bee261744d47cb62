package engine

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestRemoveWhileWriting removes all that is being written to a new run, so that the queue leaves read-behind meanwhile.
// What is put and opened then is in no run, and must not be taken for a part of that one, should it grow.
func TestRemoveWhileWriting(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile bool // the queue is in read-behind again before the write ends
		record    bool // all that is left of the backlog is tidied up before that
		flush     bool // before that, too
	}{{"then", false, false, false}, {"meanwhile", true, false, false}, {"then, recorded", false, true, false}, {"then, flushed", false, true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := &hookFS{FS: segmenttest.New()}
			e := openQuiet(t, testOptions(fsys, tiny))
			putMany(t, e, "q", 0, 20)
			q := e.shardOf([]byte("q")).queues["q"]
			var ref ReadRef
			var want string
			puts := func() {
				mustPut(t, e, "q", "opened")
				ref, want = mustOpen(t, e, "q")
				putMany(t, e, "q", 100, 20)
			}
			fsys.write = func(call func() error) error {
				fsys.write = nil
				for id := uint64(1); id <= 20; id++ {
					ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: id})
					if err != nil {
						t.Fatal(err)
					}
					mustCommit(t, e, ticket)
				}
				if q.backlog.inReadBehind {
					t.Fatal("the queue is in read-behind still")
				}
				if tt.meanwhile {
					puts()
				}
				if tt.flush {
					mustPut(t, e, "q", "flushed")
					if _, err := e.Flush(Now(), []byte("q"), ""); err != nil {
						t.Fatal(err)
					}
				}
				if tt.record {
					e.spool.record(q)
				}
				return call()
			}
			spill := func() {
				for e.spool.spills.Take() != nil {
					e.spool.spill(q)
				}
			}
			if spill(); !tt.meanwhile {
				puts()
				spill()
			}
			e.spool.tend()
			e.spool.record(q)
			turnOver(t, e)
			verify(t, e)
			again := openQuiet(t, testOptions(fsys.Kill(), tiny))
			if got := mustGet(t, again, "q"); got != want {
				t.Errorf("after a kill the first item is %q, want %q, which was open", got, want)
			}
			mustCommitted(t, e)(e.Confirm(Now(), ref))
			drain(t, e, "q")
			awaitRuns(e)
			verify(t, e)
			if left := runFiles(fsys.FS); len(left) > 0 {
				t.Errorf("%q are left of an empty queue", left)
			}
		})
	}
}

// TestRemovedBacklog removes all items of a backlog by their ids, again and again, and fetches none. The files go.
func TestRemovedBacklog(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	for round := range uint64(3) {
		putMany(t, e, "q", 0, 40)
		awaitRuns(e)
		for n := range uint64(40) {
			id := 40*round + n + 1
			if round%2 == 1 { // what is in memory goes last
				id = 40*round + 40 - n
			}
			ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
		}
		awaitRuns(e)
		if left := runFiles(fsys); len(left) > 0 {
			t.Errorf("round %d: %q are left of an empty queue", round, left)
		}
		verify(t, e)
	}
	turnOver(t, e)
	wantItems(t, openQuiet(t, testOptions(fsys.Kill(), tiny)), "q", "")
}

// TestRemoveWhileWriteFails removes items by their ids, and delays one, while they are being written to a run and the
// write fails. They are not among those that come back.
func TestRemoveWhileWriteFails(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	e := openQuiet(t, testOptions(fsys, tiny))
	want := putMany(t, e, "q", 0, 20)
	removed := []uint64{4, 5, 9, 20}
	fsys.write = func(func() error) error {
		fsys.write = nil
		for _, id := range removed {
			ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
		}
		later := Changes{SetDelay: true, Delay: time.Hour}
		ticket, err := e.Change(Now(), []byte("q"), &LookRequest{Which: Which{ID: 7}}, later)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		return syscall.EIO
	}
	q := e.shardOf([]byte("q")).queues["q"]
	for e.spool.spills.Take() != nil {
		e.spool.spill(q)
	}
	verify(t, e)
	for _, id := range []uint64{20, 9, 7, 5, 4} {
		want = slices.Delete(want, int(id)-1, int(id))
	}
	again := openQuiet(t, testOptions(fsys.Kill(), tiny))
	e.spool.tend()
	for _, e := range []*Engine{e, again} {
		if got := drain(t, e, "q"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestAwaitedOfQueueBefore awaits an item, and then deletes its queue and makes it anew. The item of that id is another.
func TestAwaitedOfQueueBefore(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	name, look := []byte("q"), &LookRequest{Which: Which{ID: 10}}
	fill := func(from int) {
		putMany(t, e, "q", from, 20)
		spoolAll(e)
	}
	fill(0)
	var got copied
	if _, err := e.Look(Now(), name, look, &got); err != ErrComing {
		t.Fatal(err)
	}
	if err := e.Await(look); err != nil {
		t.Fatal(err)
	}
	e.Delete(Now(), name)
	fill(100)
	look.Wait = true
	if _, err := e.Look(Now(), name, look, &got); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%030d", 109); string(got.item.Data) != want {
		t.Errorf("the item is %q, want %q", got.item.Data, want)
	}
}

// TestRemovedChunk removes whole chunks of items by their ids before the others around them are written to a run. Nobody
// finds the removed ones there again: removed once more, they would count as gone twice.
func TestRemovedChunk(t *testing.T) {
	e, _ := newQuiet(t, tiny)
	want := putMany(t, e, "q", 0, 20)
	for again := range 2 {
		for id := uint64(6); id <= 15; id++ {
			ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: id})
			if is := []error{nil, ErrNoSuchItem}[again]; err != is {
				t.Errorf("removal %d of item %d = %v, want %v", again+1, id, err, is)
			}
			mustCommit(t, e, ticket)
		}
		awaitRuns(e)
	}
	verify(t, e)
	want = slices.Delete(want, 5, 15)
	turnOver(t, e)
	for _, e := range []*Engine{e, kill(t, e)} {
		if got := drain(t, e, "q"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
