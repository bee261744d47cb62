package engine

import (
	"errors"
	"testing"
)

func mustRestore(t testing.TB, e *Engine, name string, it Item) {
	t.Helper()
	ticket, err := e.Restore(Now(), []byte(name), it)
	if err != nil {
		t.Fatalf("Restore(%q, %q) = %v", name, it.Data, err)
	}
	mustCommit(t, e, ticket)
}

// TestRestore tests that items come back as they were, before and after the process dies, and that
// no option of the queue stands in their way.
func TestRestore(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) {
		o.MaxItems, o.MaxItemSize, o.FanoutOnly, o.EnqueueClientID = 0, 0, true, "somebody"
	})
	items := []Item{
		{Data: []byte("a"), Added: 1700000000000},
		{Data: []byte("b"), Added: 5, Expiry: 7, Flags: 9},
		{Data: nil, Added: 1700000000001, Expiry: 4102444800000},
	}
	ticket, err := e.Create(1234, []byte("jobs+child"))
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	if n := e.NextID([]byte("jobs")); n != 1 {
		t.Errorf("NextID of no queue = %d, want 1", n)
	}
	for _, it := range items {
		mustRestore(t, e, "jobs", it)
	}
	for range 2 {
		if n := e.NextID([]byte("jobs")); n != 4 {
			t.Errorf("NextID = %d, want 4", n)
		}
		got := contents(e, "jobs", false)
		if len(got) != len(items) {
			t.Fatalf("%d items, want %d", len(got), len(items))
		}
		for i, it := range items {
			it.ID = uint64(i + 1)
			if g := got[i]; string(g.Data) != string(it.Data) || g.ID != it.ID ||
				g.Added != it.Added || g.Expiry != it.Expiry || g.Flags != it.Flags {
				t.Errorf("item %d = %+v, want %+v", i, g, it)
			}
		}
		wantItems(t, e, "jobs+child", "")
		if s, ok := e.QueueStats(Now(), []byte("jobs+child")); !ok || s.Created != 1234 {
			t.Errorf("jobs+child: created %d, %v, want 1234", s.Created, ok)
		}
		e = kill(t, e)
	}
}

func TestRestoreRefuses(t *testing.T) {
	o := testOptions(newFS())
	o.MemoryLimit = 4096
	e := openQuiet(t, o)
	for _, tt := range []struct {
		queue string
		size  int
		want  error
	}{
		{"a.b", 1, ErrBadName},
		{"q", MaxItemSize + 1, ErrItemTooLarge},
		{"q", 5000, ErrOutOfMemory},
	} {
		it := Item{Data: make([]byte, tt.size)}
		if _, err := e.Restore(Now(), []byte(tt.queue), it); !errors.Is(err, tt.want) {
			t.Errorf("Restore(%q, %d bytes) = %v, want %v", tt.queue, tt.size, err, tt.want)
		}
	}
	if _, err := e.Create(Now(), []byte("a~b")); !errors.Is(err, ErrBadName) {
		t.Errorf("Create = %v, want %v", err, ErrBadName)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Create(Now(), []byte("q")); err != ErrClosed {
		t.Errorf("Create = %v, want %v", err, ErrClosed)
	}
	if _, err := e.Restore(Now(), []byte("q"), Item{}); err != ErrClosed {
		t.Errorf("Restore = %v, want %v", err, ErrClosed)
	}
}
