package embedded

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

// TestLine checks that workers who wait get messages in the order in which they came, and that one who has
// gone gets none.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Memory(Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		q := backend.Queue{Account: "a", Name: "q"}
		got := make(chan string, 4)
		gone, leave := context.WithCancel(t.Context())
		for w := range 4 {
			ctx := t.Context()
			if w == 1 {
				ctx = gone
			}
			go func() {
				m := backend.Match{Limit: 1, Wait: time.Minute, Detail: backend.IDs}
				var list []backend.Message
				var err error
				if w%2 == 0 {
					list, err = s.UpdateMessages(ctx, q, backend.Attributes{Hide: time.Hour, TTL: 2 * time.Hour}, m)
				} else {
					list, err = s.DeleteMessages(ctx, q, m)
				}
				if err != nil {
					got <- fmt.Sprint(w, " ", err)
					return
				}
				got <- fmt.Sprint(w, " ", list[0].ID)
			}()
			synctest.Wait()
		}
		leave()
		if first := <-got; first != "1 context canceled" {
			t.Errorf("the worker that left: %s", first)
		}
		for i, want := range []string{"0 m0", "2 m1", "3 m2"} {
			if _, err := s.Put(t.Context(), backend.Key{Queue: q, ID: fmt.Sprint("m", i)}, nil, backend.Attributes{}); err != nil {
				t.Fatal(err)
			}
			if worker := <-got; worker != want {
				t.Errorf("message %d: %s, want %s", i, worker, want)
			}
		}
		m, err := s.Message(t.Context(), backend.Key{Queue: q, ID: "m0"}, backend.Times)
		if err != nil || m.Hide != time.Hour || m.TTL != 2*time.Hour {
			t.Errorf("m0 is %+v, %v", m, err)
		}
	})
}
