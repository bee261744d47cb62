package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestLoan has a handler look after its item, or not: only items that it looks after are read for by the slot.
func TestLoan(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	const n = 40
	for i := range n {
		put(t, c, "work", fmt.Sprint(i))
	}
	var loans []bool
	done := make(chan struct{})
	stop := work(t, &Worker{
		Client: c, Queue: "work",
		Handle: func(ctx context.Context, d *Delivery) error {
			loans = append(loans, d.how.Load() == asLoan)
			switch len(loans) % 4 {
			case 0:
				d.Lost()
			case 2:
				ctx.Err()
			}
			if len(loans)%2 == 0 && d.how.Load() != watched {
				t.Errorf("item %s: the slot does not read, though somebody looks", d.Data)
			}
			if len(loans) == n {
				close(done)
			}
			return nil
		},
		Failed: func(d *Delivery, err error) { t.Errorf("item %s: %v", d.Data, err) },
	})
	<-done
	if err := stop(); err != nil {
		t.Error(err)
	}
	lent := 0
	for _, loan := range loans {
		if loan {
			lent++
		}
	}
	if lent < n/2-1 {
		t.Errorf("%d of %d items came on loan, want those at least that follow one which nobody looks after", lent, len(loans))
	}
	if s := c.Stats(within(t))[0]; s.Items > 0 || len(s.Queues) > 0 && s.Queues[0].Returned > 1 {
		t.Errorf("afterwards, with %d handled: %+v", len(loans), s)
	}
}

// TestLoanLost ends the server behind the back of a handler that does not look. The confirm says so, and the item comes
// again.
func TestLoanLost(t *testing.T) {
	k := serve(t)
	c := dial(t, Options{Backoff: Backoff{First: time.Millisecond, Most: 5 * time.Millisecond}}, k.addr)
	put(t, c, "work", "a", "b")
	began, stopped, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
	failed := make(chan error, 1)
	seen := make(map[string]int)
	work(t, &Worker{
		Client: c, Queue: "work",
		Handle: func(_ context.Context, d *Delivery) error {
			switch seen[string(d.Data)]++; {
			case seen["b"] == 1:
				if d.how.Load() != asLoan {
					t.Error("the second item is not on loan")
				}
				close(began)
				<-stopped
			case seen["b"] == 2:
				close(again)
			}
			return nil
		},
		Failed: func(_ *Delivery, err error) { failed <- err },
	})
	<-began
	k.stop()
	close(stopped)
	if err := <-failed; !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("the confirm fails with %v, want that the item is lost, or the outcome unknown", err)
	}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-again:
	case <-within(t).Done():
		t.Fatal("the item does not come again")
	}
}

// TestLoanCloses closes the client while a handler has the connection, and does not return.
func TestLoanCloses(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "work", "a", "b")
	began, finish := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	w := &Worker{
		Client: c, Queue: "work",
		Handle: func(_ context.Context, d *Delivery) error {
			if string(d.Data) == "b" {
				close(began)
				<-finish
			}
			return nil
		},
		Failed: func(*Delivery, error) {},
	}
	go func() { ended <- w.Run(context.Background()) }()
	<-began
	c.Close() // does not wait for the handler
	close(finish)
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("Run of a closed client = %v, want ErrClosed", err)
	}
}

// TestLoanEndedTwice has somebody else confirm each item while its handler returns. One of the two confirms it, and no
// confirm is of the item that comes next: a handler must have had that first.
func TestLoanEndedTwice(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	const n = 500
	var items [][]byte
	for i := range n {
		items = append(items, fmt.Append(nil, i))
	}
	if err := c.PutAll(within(t), "work", items, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	done := make(chan struct{})
	var others sync.WaitGroup
	stop := work(t, &Worker{
		Client: c, Queue: "work",
		Handle: func(_ context.Context, d *Delivery) error {
			seen[string(d.Data)]++
			others.Go(func() {
				if err := d.Confirm(context.Background()); err != nil && !errors.Is(err, ErrEnded) {
					t.Errorf("item %s: %v", d.Data, err)
				}
			})
			if len(seen) == n {
				close(done)
			}
			return nil
		},
		Failed: func(d *Delivery, err error) { t.Errorf("item %s: %v", d.Data, err) },
	})
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("%d of %d items came to the handler; the others were confirmed before", len(seen), n)
	}
	stop()
	others.Wait()
	for item, times := range seen {
		if times != 1 {
			t.Errorf("item %s came %d times", item, times)
		}
	}
}

// withLoan has a worker handle two items. Handle gets the second, which is on loan.
func withLoan(t *testing.T, handle func(*Delivery) error) {
	t.Helper()
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "work", "a", "b")
	done := make(chan struct{})
	stop := work(t, &Worker{
		Client: c, Queue: "work",
		Handle: func(_ context.Context, d *Delivery) error {
			if string(d.Data) == "a" {
				return nil
			}
			defer close(done)
			return handle(d)
		},
		Failed: func(d *Delivery, err error) { t.Errorf("item %s: %v", d.Data, err) },
	})
	<-done
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestLoanAskedOnce ends a delivery twice. The get went out with the first confirm: the second call has asked for nothing,
// so its caller must not say that it did.
func TestLoanAskedOnce(t *testing.T) {
	withLoan(t, func(d *Delivery) error {
		if _, _, err := d.confirmAndNext(context.Background()); err != nil {
			return err
		}
		_, asked, err := d.confirmAndNext(context.Background())
		if !errors.Is(err, ErrEnded) || asked {
			t.Errorf("the second confirm: %v, asked for the next item: %t; want ErrEnded, false", err, asked)
		}
		return nil
	})
}

// TestLoanIsTaken tests that a handler takes the loan and ends the delivery in one step. If there were a moment between
// them, somebody else could confirm in it. Of the two confirms the second would be of the item that comes next.
func TestLoanIsTaken(t *testing.T) {
	withLoan(t, func(d *Delivery) error {
		d.mu.Lock() // as somebody else who ends it
		ended := make(chan error, 1)
		go func() {
			_, _, err := d.confirmAndNext(context.Background())
			ended <- err
		}()
		for range 10_000 {
			runtime.Gosched()
		}
		if how := d.how.Load(); how != asLoan {
			t.Errorf("the loan is taken (%d) while the delivery is still open", how)
		}
		d.mu.Unlock()
		return <-ended
	})
}
