package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// fanOut returns an engine with a queue "p" that has so many children.
func fanOut(t *testing.T, o Options, children int) *Engine {
	t.Helper()
	e := openQuiet(t, o)
	for i := range children {
		ticket, err := e.Create(Now(), fmt.Appendf(nil, "p+%d", i))
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	return e
}

// TestFanoutMemoryOfChunks tests that a put to many children takes either all the memory that it needs or none. The
// item is then in all of them or in none.
func TestFanoutMemoryOfChunks(t *testing.T) {
	const children = 100
	need := int64(children+1) * item.MinChunkSize
	for _, tt := range []struct {
		limit int64
		want  error
	}{{need - 1, ErrOutOfMemory}, {need + 1000, nil}} {
		o := testOptions(newFS(), func(o *QueueOptions) { o.Sync = SyncNever })
		e := fanOut(t, o, children)
		mustGet(t, e, "p") // makes it
		e.opts.MemoryLimit = e.memory.Load() + tt.limit
		for i, data := range []string{"a", "b"} { // the second needs no memory
			ticket, err := e.Put(Now(), []byte("p"), PutRequest{Data: []byte(data)})
			if i == 0 && err != tt.want {
				t.Errorf("limit %d: Put = %v, want %v", tt.limit, err, tt.want)
			}
			mustCommit(t, e, ticket)
		}
		got := memoryBeyondQueues(e)
		if want := map[bool]int64{true: need}[tt.want == nil]; got != want {
			t.Errorf("limit %d: %d bytes of memory are in use, want %d", tt.limit, got, want)
		}
		want := map[bool]string{true: "a b"}[tt.want == nil]
		for _, name := range []string{"p", "p+0", "p+42", "p+99"} {
			wantItems(t, e, name, want)
		}
	}
}

// TestFanoutLimit tests that a queue gets no more children than the option says, whatever refers to
// them, and that those of an earlier process stay.
func TestFanoutLimit(t *testing.T) {
	o := testOptions(newFS())
	o.MaxFanoutChildren = 3
	e := fanOut(t, o, 3)
	put := func(e *Engine, name string) error {
		ticket, err := e.Put(Now(), []byte(name), PutRequest{Data: []byte("x")})
		mustCommit(t, e, ticket)
		return err
	}
	if err := put(e, "p+3"); !errors.Is(err, ErrTooManyChildren) {
		t.Errorf("Put to a fourth child = %v, want %v", err, ErrTooManyChildren)
	}
	var got copied
	if _, err := e.Fetch(Now(), []byte("p+3"), FetchRequest{Access: Peek}, &got); err != ErrTooManyChildren {
		t.Errorf("Fetch from a fourth child = %v, want %v", err, ErrTooManyChildren)
	}
	if n := e.Stats().Queues; n != 3 {
		t.Errorf("%d queues, want 3", n)
	}
	for _, name := range []string{"p", "other+1", "p+1"} {
		if err := put(e, name); err != nil {
			t.Errorf("Put to %q = %v", name, err)
		}
	}
	wantItems(t, e, "p+1", "x x")
	mustCommit(t, e, e.Delete(Now(), []byte("p+1")))
	if err := put(e, "p+3"); err != nil {
		t.Errorf("Put to a third child = %v", err)
	}

	o.FS, o.MaxFanoutChildren = kill(t, e).opts.FS, 1
	e = openQuiet(t, o)
	if err := put(e, "p"); err != nil {
		t.Errorf("Put after a restart = %v", err)
	}
	wantItems(t, e, "p+3", "x x")
	if err := put(e, "p+4"); err != ErrTooManyChildren {
		t.Errorf("Put to one more child after a restart = %v, want %v", err, ErrTooManyChildren)
	}
}

// TestFanoutSweep tests that a put to many children removes few expired items of each.
func TestFanoutSweep(t *testing.T) {
	const children, expired = 8, 300
	e := fanOut(t, testOptions(newFS(), func(o *QueueOptions) { o.Sync = SyncNever }), children)
	now := Now()
	for range expired {
		ticket, err := e.Put(now, []byte("p"), PutRequest{Data: []byte("x"), Expiry: now + 1})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	removed := func() (n int64) {
		for _, q := range e.Queues(now) {
			if n += q.Expired; q.Expired == 0 {
				t.Errorf("nothing was removed from %q", q.Name)
			}
		}
		return n
	}
	ticket, err := e.Put(now+100, []byte("p"), PutRequest{Data: []byte("y")})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	if n := removed(); n > sweepBatch {
		t.Errorf("one put removed %d expired items, want %d at most", n, sweepBatch)
	}
}
