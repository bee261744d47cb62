package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// changing is a Source that a test changes.
type changing chan Members

func (s changing) Watch(ctx context.Context, report func(Members)) error {
	for {
		select {
		case m := <-s:
			report(m)
		case <-ctx.Done():
			return nil
		}
	}
}

func TestParseAddress(t *testing.T) {
	for _, tt := range []struct {
		address string
		want    []string
	}{
		{"kestrel://a:1,b:2", []string{"a:1", "b:2"}},
		{"kestrel://a", []string{"a:22133"}},
		{"kestrel://a/", []string{"a:22133"}},
		{"10.0.0.5:22133,10.0.0.6", []string{"10.0.0.5:22133", "10.0.0.6:22133"}},
		{"[::1]:5,[fe80::1]", []string{"[::1]:5", "[fe80::1]:22133"}},
		{"", nil}, {"kestrel://", nil}, {"http://a", nil}, {"a:b", nil}, {"a:0", nil}, {"a:70000", nil},
		{"a,,b", nil}, {"kestrel://user:secret@a", nil}, {"kestrel:///dir", nil}, {"a/b", nil}, {":22133", nil},
	} {
		got, err := ParseAddress(tt.address)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("ParseAddress(%q) = %q, %v, want %q", tt.address, got, err, tt.want)
		}
	}
	for _, address := range []string{
		"kestrel://user:secret@a/b", "user:secret@a:1", "http://user:secret@a", "kestrel:/user:secret@a", "kestrel://u:sec@ret@a",
	} {
		if _, err := ParseAddress(address); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("ParseAddress(%q) = %v: the password", address, err)
		}
	}
	if _, err := Dial(context.Background(), "http://a", Options{}); err == nil {
		t.Error("Dial takes an address with another scheme")
	}
}

// TestMembersChange takes a server out of the write set, then out of the read set, and empties both.
func TestMembersChange(t *testing.T) {
	a, b := serve(t), serve(t)
	source := make(changing, 1)
	both := []string{a.addr, b.addr}
	source <- Members{Write: both, Read: both}
	c := dial(t, Options{Source: source}, "")
	k := consume(t, c, "work")
	put(t, dial(t, Options{}, a.addr), "work", "from a")
	held := next(t, k, "from a")

	change := func(m Members) {
		t.Helper()
		source <- m
		want := m.clone()
		if len(want.Write) == 0 {
			want.Write = []string{b.addr}
		}
		if len(want.Read) == 0 {
			want.Read = []string{b.addr}
		}
		for end := time.Now().Add(patience); fmt.Sprint(c.Members()) != fmt.Sprint(want); {
			if time.Now().After(end) {
				t.Fatalf("the members are %v, want %v", c.Members(), want)
			}
		}
	}
	change(Members{Write: both[1:], Read: both})
	for range 50 {
		put(t, c, "work", "x")
	}
	if s := b.engine.Stats(); s.TotalItems != 50 {
		t.Errorf("the server of the write set has %d items, want 50", s.TotalItems)
	}

	put(t, dial(t, Options{}, a.addr), "work", "stays")
	change(Members{Write: both[1:], Read: both[1:]})
	for range 50 {
		d := next(t, k, "x")
		if d.Server != b.addr {
			t.Fatalf("an item came from %s, which has left", d.Server)
		}
		if err := d.Confirm(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := held.Confirm(within(t)); err != nil {
		t.Errorf("Confirm on a server that has left = %v", err)
	}
	change(Members{})
	put(t, c, "work", "y")
	d := next(t, k, "y")
	if err := d.Confirm(within(t)); err != nil {
		t.Fatal(err)
	}
	change(Members{Write: both, Read: both})
	next(t, k, "stays")
}

// TestLeftServerIsLeft confirms a lease on a server that has left, while a Get waits there: then the client has no
// connection to it any more.
func TestLeftServerIsLeft(t *testing.T) {
	a, b := serve(t), serve(t)
	source := make(changing, 1)
	source <- Members{Write: []string{a.addr}, Read: []string{a.addr}}
	c := dial(t, Options{Source: source}, "")
	put(t, c, "work", "held")
	k, err := c.ConsumeLeased("work", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	held := next(t, k, "held")
	got := make(chan error, 1)
	go func() {
		_, err := c.Get(context.Background(), "other", patience)
		got <- err
	}()
	eventually(t, "the Get waits", func() bool {
		q, ok := a.engine.QueueStats(engine.Now(), []byte("other"))
		return ok && q.Waiters > 0
	})
	source <- Members{Write: []string{b.addr}, Read: []string{b.addr}}
	eventually(t, "the server has left", func() bool { return !c.Members().has(a.addr) })
	direct := dial(t, Options{}, a.addr)
	put(t, direct, "other", "late")
	direct.Close()
	if err := <-got; err != nil {
		t.Fatalf("a Get that was under way = %v", err)
	}
	if err := held.Confirm(within(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no connection is left", func() bool { return a.server.Connections() == 0 })
}

// failing is a Source that gives up.
type failing struct{}

func (failing) Watch(context.Context, func(Members)) error { return errors.New("no such path") }

func TestSourceFails(t *testing.T) {
	if _, err := Dial(within(t), "", Options{Source: failing{}}); err == nil || err.Error() != "find the servers: no such path" {
		t.Errorf("Dial = %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, "", Options{Source: make(changing)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Dial = %v, want DeadlineExceeded", err)
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{First: 100 * time.Millisecond, Most: time.Second}
	for n, want := range []time.Duration{1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 6: 1000, 100: 1000} {
		if want == 0 {
			continue
		}
		want *= time.Millisecond
		for range 100 {
			if got := b.After(n); got > want || got < want*3/4 {
				t.Fatalf("after(%d) = %v, want %v or up to a quarter less", n, got, want)
			}
		}
	}
}
