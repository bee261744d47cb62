package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// work runs a worker in the background. Stop ends it and returns what Run returned.
func work(t testing.TB, w *Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return stop
}

func TestWorker(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr, serve(t).addr)
	const n = 200
	var mu sync.Mutex
	seen := make(map[string]int)
	all := make(chan struct{})
	var running, most atomic.Int64
	stop := work(t, &Worker{Client: c, Queue: "work", Handlers: 4, Handle: func(_ context.Context, d *Delivery) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		mu.Lock()
		defer mu.Unlock()
		if seen[string(d.Data)]++; len(seen) == n {
			close(all)
		}
		return nil
	}})
	for i := range n {
		put(t, c, "work", fmt.Sprint(i))
	}
	select {
	case <-all:
	case <-within(t).Done():
		t.Fatalf("only %d of %d items were handled", len(seen), n)
	}
	if err := stop(); err != nil {
		t.Errorf("Run = %v", err)
	}
	for item, times := range seen {
		if times != 1 {
			t.Errorf("item %s was handled %d times", item, times)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d handlers ran at the same time, want 4 at most", most.Load())
	}
	for _, s := range c.Stats(within(t)) {
		if s.Items != 0 {
			t.Errorf("%d items are left on %s", s.Items, s.Server)
		}
	}
}

// TestWorkerGivesBack tests that an item whose handler fails or panics comes again, not at once.
func TestWorkerGivesBack(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "work", "x")
	done := make(chan struct{})
	var failures []error
	times, began := 0, time.Now()
	stop := work(t, &Worker{
		Client: c, Queue: "work", Backoff: Backoff{First: 20 * time.Millisecond, Most: time.Second},
		Handle: func(context.Context, *Delivery) error {
			switch times++; times {
			case 1:
				return errors.New("not yet")
			case 2:
				panic("a fault")
			}
			close(done)
			return nil
		},
		Failed: func(d *Delivery, err error) { failures = append(failures, fmt.Errorf("%s: %w", d.Data, err)) },
	})
	select {
	case <-done:
	case <-within(t).Done():
		t.Fatal("the item does not come again")
	}
	if waited := time.Since(began); waited < (20+40)*3/4*time.Millisecond {
		t.Errorf("two failures were over after %v: there is no back-off", waited)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	var p *PanicError
	if len(failures) != 2 || failures[0].Error() != "x: not yet" || !errors.As(failures[1], &p) || len(p.Stack) == 0 {
		t.Errorf("Failed was called with %v", failures)
	}
}

// TestWorkerDrains tests that a worker that stops waits for its handlers, and for no longer than it
// should.
func TestWorkerDrains(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "work", "quick", "slow")
	began := make(chan struct{}, 2)
	finish := make(chan struct{})
	stop := work(t, &Worker{
		Client: c, Queue: "work", Handlers: 2, DrainTimeout: 50 * time.Millisecond,
		Handle: func(ctx context.Context, d *Delivery) error {
			began <- struct{}{}
			if string(d.Data) == "slow" {
				<-ctx.Done()
				return ctx.Err()
			}
			<-finish
			return nil
		},
		Failed: func(*Delivery, error) {},
	})
	<-began
	<-began
	time.AfterFunc(10*time.Millisecond, func() { close(finish) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if item, err := c.Get(within(t), "work", 0); string(item.Data) != "slow" {
		t.Errorf("Get = %q, %v: want the item whose handler was cut off", item.Data, err)
	}
	if _, err := c.Get(within(t), "work", 0); !errors.Is(err, ErrEmpty) {
		t.Errorf("Get = %v, want ErrEmpty: the other item was handled", err)
	}
}

// TestWorkerLosesServer tests that a handler whose item is lost hears of it, and that the worker goes
// on when the server is back.
func TestWorkerLosesServer(t *testing.T) {
	k := serve(t)
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: 5 * time.Millisecond}}, k.addr)
	put(t, c, "work", "x")
	began, lost, done := make(chan struct{}), make(chan error, 1), make(chan struct{})
	times := 0
	work(t, &Worker{
		Client: c, Queue: "work", Backoff: Backoff{First: time.Millisecond, Most: time.Millisecond},
		Handle: func(ctx context.Context, _ *Delivery) error {
			if times++; times == 1 {
				close(began)
				<-ctx.Done()
				lost <- context.Cause(ctx)
				return ctx.Err()
			}
			close(done)
			return nil
		},
		Failed: func(*Delivery, error) {},
	})
	<-began
	k.stop()
	if err := <-lost; !errors.Is(err, ErrLost) {
		t.Errorf("the handler's context ended with %v, want ErrLost", err)
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-within(t).Done():
		t.Fatal("the item does not come again")
	}
}

// TestWorkerEndedByHandler has handlers confirm and abort items themselves, which is no failure.
func TestWorkerEndedByHandler(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	const n = 50
	for i := range n {
		put(t, c, "work", fmt.Sprint(i))
	}
	done := make(chan struct{})
	times := 0
	stop := work(t, &Worker{
		Client: c, Queue: "work",
		Handle: func(ctx context.Context, d *Delivery) error {
			if times++; times == n+1 {
				close(done)
			}
			if times == 3 {
				return d.Abort(ctx) // comes again, at once
			}
			return d.Confirm(ctx)
		},
		Failed: func(d *Delivery, err error) { t.Errorf("item %s: %v", d.Data, err) },
	})
	select {
	case <-done:
	case <-within(t).Done():
		t.Fatal("the items do not all come")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if s := c.Stats(within(t))[0]; s.Items != 0 || s.Queues[0].Returned > 2 {
		t.Errorf("afterwards: %+v", s)
	}
}

func TestWorkerErrors(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	if err := (&Worker{Client: c, Queue: "a/b"}).Run(within(t)); !errors.Is(err, ErrBadName) {
		t.Errorf("Run with a bad name = %v", err)
	}
	ended := make(chan error)
	go func() { ended <- (&Worker{Client: c, Queue: "work"}).Run(within(t)) }()
	c.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("Run of a closed client = %v, want ErrClosed", err)
	}
}

// TestWorkerHandlerExits has a handler end its goroutine, as the FailNow of a test does. The item goes back, and the
// worker goes on.
func TestWorkerHandlerExits(t *testing.T) {
	for _, lease := range []time.Duration{0, time.Minute} {
		c := dial(t, Options{}, serve(t).addr)
		handled := make(chan bool)
		failed := make(chan error, 1)
		first := true
		stop := work(t, &Worker{
			Client: c, Queue: "work", Lease: lease, Backoff: Backoff{First: time.Millisecond, Most: time.Millisecond},
			Handle: func(context.Context, *Delivery) error {
				if first {
					first = false
					runtime.Goexit()
				}
				close(handled)
				return nil
			},
			Failed: func(_ *Delivery, err error) { failed <- err },
		})
		put(t, c, "work", "item")
		select {
		case err := <-failed:
			if !errors.Is(err, errHandlerExit) {
				t.Errorf("lease %v: the item went back with %v", lease, err)
			}
		case <-within(t).Done():
			t.Fatalf("lease %v: the item did not go back", lease)
		}
		select {
		case <-handled:
		case <-within(t).Done():
			t.Fatalf("lease %v: the worker has stopped", lease)
		}
		if err := stop(); err != nil {
			t.Errorf("lease %v: Run = %v", lease, err)
		}
	}
}
