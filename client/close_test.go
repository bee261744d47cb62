package client

import (
	"errors"
	"testing"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// TestCloseBesidePut closes the client while a put has no connection yet, or no answer: Close is why the put fails.
func TestCloseBesidePut(t *testing.T) {
	for _, connected := range []bool{false, true} {
		c := dial(t, Options{}, rigged(t, silent).addr)
		server := c.Members().Write[0]
		l := &lane{client: c, server: server, room: make(chan struct{})}
		if connected {
			if err := l.connect(); err != nil {
				t.Fatal(err)
			}
		}
		c.cancel(ErrClosed)
		k := &call{n: 1, done: make(chan struct{})}
		l.serve(memcache.AppendSet(nil, []byte("work"), 0, 0, []byte("x")), []*call{k})
		if err := k.errs[0]; !errors.Is(err, ErrClosed) || errors.Is(err, ErrUnknownOutcome) && !connected {
			t.Errorf("connected %v: a put beside Close fails with %v", connected, err)
		}
		l.hangUp()
	}
}
