package engine

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// newQueue is a handle on queue "q" of an engine with its background work, for a synctest bubble.
func newQueue(t *testing.T, change ...func(*QueueOptions)) *Queue {
	t.Helper()
	e, err := Open(testOptions(newFS(), change...))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, e)
	q, err := e.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func put(t *testing.T, q *Queue, data string) {
	t.Helper()
	if err := q.Put([]byte(data), PutOptions{}); err != nil {
		t.Fatalf("Put(%q) = %v", data, err)
	}
}

func TestQueue(t *testing.T) {
	q := newQueue(t)
	if _, err := q.e.Queue("a.b"); !errors.Is(err, ErrBadName) {
		t.Errorf("Queue(a.b) = %v, want ErrBadName", err)
	}
	if q.Name() != "q" {
		t.Errorf("Name = %q, want q", q.Name())
	}
	if _, ok := q.Stats(); ok {
		t.Error("a handle made the queue")
	}
	for _, f := range []func() (any, error){
		func() (any, error) { return q.TryGet() },
		func() (any, error) { return q.Peek() },
		func() (any, error) { return q.TryOpen() },
	} {
		if _, err := f(); err != ErrEmpty {
			t.Errorf("error on an empty queue is %v, want ErrEmpty", err)
		}
	}
	expiry := time.Now().Add(time.Hour)
	if err := q.Put([]byte("a"), PutOptions{Flags: 3, Expiry: expiry}); err != nil {
		t.Fatal(err)
	}
	it, err := q.Peek()
	want := Item{ID: 1, Data: []byte("a"), Flags: 3, Added: it.Added, Expiry: At(expiry)}
	if err != nil || !reflect.DeepEqual(it, want) {
		t.Errorf("Peek = %+v, %v", it, err)
	}
	r, err := q.TryOpen()
	if err != nil || string(r.Item.Data) != "a" {
		t.Fatalf("TryOpen = %v, %v", r, err)
	}
	if err := r.Abort(); err != nil {
		t.Errorf("Abort = %v", err)
	}
	if err := r.Abort(); err != ErrReadEnded {
		t.Errorf("second Abort = %v, want ErrReadEnded", err)
	}
	r, err = q.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Confirm(); err != nil {
		t.Errorf("Confirm = %v", err)
	}
	if err := r.Confirm(); err != ErrReadEnded {
		t.Errorf("second Confirm = %v, want ErrReadEnded", err)
	}
	put(t, q, "b")
	if err := q.Flush(); err != nil {
		t.Errorf("Flush = %v", err)
	}
	if err := q.Put([]byte("c"), PutOptions{Expiry: time.Now().Add(-time.Second)}); err != nil {
		t.Fatal(err)
	}
	if n, err := q.FlushExpired(); n != 1 || err != nil {
		t.Errorf("FlushExpired = %d, %v, want 1", n, err)
	}
	if s, ok := q.Stats(); !ok || s.Puts != 3 || s.Items != 0 {
		t.Errorf("Stats = %+v, %v", s, ok)
	}
	if err := q.Delete(); err != nil {
		t.Errorf("Delete = %v", err)
	}
	put(t, q, "d") // a handle outlives its queue
	if it, err := q.TryGet(); string(it.Data) != "d" || err != nil {
		t.Errorf("TryGet = %q, %v, want d", it.Data, err)
	}
}

func TestGetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, start := newQueue(t), time.Now()
		go func() {
			<-time.After(3 * time.Second)
			q.Put([]byte("a"), PutOptions{})
		}()
		it, err := q.Get(context.Background())
		if string(it.Data) != "a" || err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("Get = %q, %v after %s, want a after 3s", it.Data, err, time.Since(start))
		}
	})
}

func TestGetDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, start := newQueue(t), time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
		defer cancel()
		_, err := q.Get(ctx)
		if err != context.DeadlineExceeded || time.Since(start) != 250*time.Millisecond {
			t.Errorf("Get = %v after %s, want that the deadline passed after 250ms",
				err, time.Since(start))
		}
		if _, err := q.Open(ctx); err != context.DeadlineExceeded {
			t.Errorf("Open with a context that is done = %v", err)
		}
		put(t, q, "a")
		if s, _ := q.Stats(); s.Waiters != 0 || s.Items != 1 {
			t.Errorf("%d waiters and %d items are left, want 0 and 1", s.Waiters, s.Items)
		}
	})
}

// TestWaitEnds lists what ends a wait without an item.
func TestWaitEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(q *Queue, cancel func())
		want error
	}{
		{"cancelled", func(_ *Queue, cancel func()) { cancel() }, context.Canceled},
		{"queue deleted", func(q *Queue, _ func()) { q.Delete() }, ErrDeleted},
		{"engine closed", func(q *Queue, _ func()) { q.e.Close() }, ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, results := newQueue(t), make(chan error)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go func() { _, err := q.Get(ctx); results <- err }()
				go func() { _, err := q.Open(ctx); results <- err }()
				synctest.Wait()
				if s, _ := q.Stats(); s.Waiters != 2 {
					t.Errorf("%d wait, want 2", s.Waiters)
				}
				tt.end(q, cancel)
				for range 2 {
					if err := <-results; err != tt.want {
						t.Errorf("wait ended with %v, want %v", err, tt.want)
					}
				}
			})
		})
	}
}

// TestGetAlias: nobody waits for an alias, not even with a context that is never done.
func TestGetAlias(t *testing.T) {
	o := testOptions(newFS())
	o.Settings.Aliases = map[string][]string{"x": {"q"}}
	e := openQuiet(t, o)
	x, err := e.Queue("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Get(context.Background()); err != ErrEmpty {
		t.Errorf("Get of an alias = %v, want ErrEmpty", err)
	}
}

// TestGetCancelledAsItemComes has an item come, and the context end, before the waiting goroutine
// runs: it gets the item.
func TestGetCancelledAsItemComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan string)
		go func() {
			it, err := q.Get(ctx)
			if err != nil {
				t.Error(err)
			}
			result <- string(it.Data)
		}()
		synctest.Wait()
		// With the shard locked, CancelWait cannot run between the two.
		sh := q.e.shardOf(q.name)
		sh.mu.Lock()
		cancel()
		sh.targets = append(sh.targets[:0], sh.queues["q"])
		q.e.add(sh, Now(), &PutRequest{Data: []byte("a")}, Now(), record.Destination{}, new(Stored))
		sh.mu.Unlock()
		if got := <-result; got != "a" {
			t.Errorf("Get = %q, want the item", got)
		}
	})
}

// TestGetAfterTimeout has the item of a wait go back to the queue before its owner collects it, as
// a short open-read timeout may do. The owner waits again and gets it.
func TestGetAfterTimeout(t *testing.T) {
	e, _ := newQuiet(t)
	q, err := e.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	var once bool
	ctx := &hookContext{Context: context.Background(), hook: func() {
		// Called as the wait begins: hand an item over and take it back.
		if once {
			return
		}
		once = true
		put(t, q, "a")
		sh := e.shardOf(q.name)
		sh.mu.Lock()
		e.giveBack(sh.queues["q"].open.First(), Return{How: Lost})
		sh.mu.Unlock()
	}}
	it, err := q.Get(ctx)
	if string(it.Data) != "a" || err != nil {
		t.Errorf("Get = %q, %v, want a", it.Data, err)
	}
}

// hookContext calls hook when somebody begins to wait for it.
type hookContext struct {
	context.Context
	hook func()
}

func (c *hookContext) Done() <-chan struct{} {
	c.hook()
	return nil
}

// TestOpenWithoutCommit: a read whose item's put cannot be committed goes to nobody, and its item is in line again.
func TestOpenWithoutCommit(t *testing.T) {
	fsys := newFS()
	e := openQuiet(t, testOptions(fsys))
	failSync(t, e, fsys, "q", "a")
	q, err := e.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	for i, open := range []func() (*Read, error){q.TryOpen, func() (*Read, error) { return q.Open(t.Context()) }} {
		if r, err := open(); r != nil || !errors.Is(err, ErrJournal) {
			t.Fatalf("open %d = %v, %v, want ErrJournal", i, r, err)
		}
		if s, _ := q.Stats(); s.OpenReads != 0 || s.Items != 1 {
			t.Fatalf("after open %d %d reads are open and %d items queued, want 0 and 1", i, s.OpenReads, s.Items)
		}
	}
	if err := e.moveJournal(); err != nil {
		t.Error(err)
	}
}

// TestDueWithinAMillisecond lets delays begin and end anywhere in a millisecond: an item is never early, and a reader
// that waits has it within a millisecond.
func TestDueWithinAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		for i := range 40 {
			time.Sleep(time.Duration(i) * 137 * time.Microsecond)
			delay := 5*time.Millisecond + time.Duration(i)*73*time.Microsecond
			due := time.Now().Add(delay)
			if err := q.Put([]byte("x"), PutOptions{Delay: delay}); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(due); late < 0 || late > time.Millisecond {
				t.Errorf("a delay of %v ends %v late, want 0 to 1 ms", delay, late)
			}
		}
	})
}

func TestQueueLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		if _, err := q.TryLease(DefaultLease); err != ErrNoLease {
			t.Errorf("TryLease without a default = %v, want ErrNoLease", err)
		}
		if _, err := q.TryLease(time.Second); err != ErrEmpty {
			t.Errorf("TryLease of an empty queue = %v, want ErrEmpty", err)
		}
		go q.Put([]byte("a"), PutOptions{})
		l, err := q.Lease(t.Context(), time.Second)
		if err != nil || string(l.Item.Data) != "a" || l.Deliveries != 1 || l.Receipt == 0 {
			t.Fatalf("Lease = %+v, %v", l, err)
		}
		if err := l.Return(Return{How: Abort}); err != nil {
			t.Errorf("Return = %v", err)
		}
		if err := l.Extend(time.Second); err != ErrNotHeld {
			t.Errorf("Extend of a lease that has ended = %v, want ErrNotHeld", err)
		}
		if l, err = q.TryLease(time.Second); err != nil || l.Deliveries != 2 {
			t.Fatalf("TryLease = %+v, %v, want the second delivery", l, err)
		}
		before := l.Due
		if err := l.Extend(time.Minute); err != nil || l.Due.Std().Sub(before.Std()) != 59*time.Second {
			t.Errorf("Extend = %v, due %v after %v", err, l.Due.Std(), before.Std())
		}
		if err := q.Leased(l.Receipt).Confirm(); err != nil {
			t.Errorf("Confirm by receipt = %v", err)
		}
		if err := l.Confirm(); err != ErrNotHeld {
			t.Errorf("Confirm of what is gone = %v, want ErrNotHeld", err)
		}
		for i, tt := range []struct {
			opts PutOptions
			want error
		}{
			{PutOptions{Key: "K"}, nil},
			{PutOptions{Key: "K", OnDuplicate: OnlyNew}, ErrKeyExists},
			{PutOptions{Key: "L", OnDuplicate: OnlyReplace}, ErrNoSuchItem},
			{PutOptions{Key: "a/b"}, ErrBadKey},
		} {
			if err := q.Put([]byte("x"), tt.opts); !errors.Is(err, tt.want) {
				t.Errorf("put %d: %v, want %v", i, err, tt.want)
			}
		}
	})
}
