package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// TestItemContext tests the contexts of handlers. One has another derived from it, one is first used after its item is
// lost, and one after its item has ended.
func TestItemContext(t *testing.T) {
	type key struct{}
	parent, stop := context.WithCancelCause(context.WithValue(context.Background(), key{}, "v"))
	defer stop(nil)
	d := new(Delivery)
	c := &itemContext{parent: parent, d: d}
	child, end := context.WithCancel(c)
	defer end()
	if c.Value(key{}) != "v" || c.Err() != nil || child.Err() != nil {
		t.Errorf("an open item: value %v, %v, child %v", c.Value(key{}), c.Err(), child.Err())
	}
	d.mu.Lock()
	d.lose()
	d.mu.Unlock()
	<-child.Done()
	if !errors.Is(context.Cause(c), ErrLost) || !errors.Is(context.Cause(child), ErrLost) {
		t.Errorf("a lost item: cause %v, of the child %v, want ErrLost", context.Cause(c), context.Cause(child))
	}

	late := &itemContext{parent: parent, d: d}
	if <-late.Done(); !errors.Is(context.Cause(late), ErrLost) {
		t.Errorf("looked at after the loss: cause %v, want ErrLost", context.Cause(late))
	}
	over := &itemContext{parent: parent, d: new(Delivery)}
	over.end()
	if <-over.Done(); !errors.Is(over.Err(), context.Canceled) {
		t.Errorf("looked at after the handler: %v, want Canceled", over.Err())
	}
	why := errors.New("the worker stops")
	stopped := &itemContext{parent: parent, d: new(Delivery)}
	stop(why)
	if <-stopped.Done(); context.Cause(stopped) != why {
		t.Errorf("the worker stops: cause %v", context.Cause(stopped))
	}
}

// TestConfirmedThoughRefused has a server refuse the get that goes with a confirm: it confirms first, so the worker
// reports nothing.
func TestConfirmedThoughRefused(t *testing.T) {
	for name, how := range map[string]struct {
		refusal string
		reports bool
	}{
		"for its status": {"SERVER_ERROR\r\n", false},
		"for a quota":    {"SERVER_ERROR over quota: operations\r\n", true},
		"bad request":    {"CLIENT_ERROR no\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan string, 100)
			r := rigged(t, func(n int, conn net.Conn) {
				if n > 0 {
					silent(n, conn)
					return
				}
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					asked <- lines.Text()
					if strings.Contains(lines.Text(), "/close") {
						io.WriteString(conn, how.refusal)
						return
					}
					io.WriteString(conn, "VALUE work 0 1\r\na\r\nEND\r\n")
				}
			})
			failed := make(chan error, 1)
			stop := work(t, &Worker{Client: dial(t, Options{}, r.addr), Queue: "work",
				Handle: func(context.Context, *Delivery) error { return nil },
				Failed: func(_ *Delivery, err error) { failed <- err }})
			if first, second := <-asked, <-asked; first != "get work/t=20000/open" || second != "get work/close/open" {
				t.Errorf("the worker asks %q, then %q", first, second)
			}
			if how.reports {
				if err := <-failed; !errors.Is(err, ErrUnknownOutcome) {
					t.Errorf("reported %v, want ErrUnknownOutcome", err)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-failed:
				t.Errorf("reported %v, want nothing", err)
			default:
			}
		})
	}
}
