package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func mustRestore(t testing.TB, e *Engine, name string, it Item) {
	t.Helper()
	ticket, err := e.Restore(Now(), []byte(name), it, Standing{})
	if err != nil {
		t.Fatalf("Restore(%q, %q) = %v", name, it.Data, err)
	}
	mustCommit(t, e, ticket)
}

// TestRestore tests that items come back as they were, both now and after a kill. No option of the queue stands in
// their way.
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

// TestRestoreStanding: items that are not plain come back as they stood, before and after the process dies.
func TestRestoreStanding(t *testing.T) {
	from, _ := sideways(t, segmenttest.New())
	e, err := open(from)
	if err != nil {
		t.Fatal(err)
	}
	keyed := PutRequest{Data: []byte("keyed"), Flags: 7, Extra: &PutExtra{Key: []byte("k"), Delay: time.Hour}}
	dead := PutRequest{Data: []byte("dead"), Extra: &PutExtra{Key: []byte("d"), origin: "from", why: Rejected}}
	for _, p := range []PutRequest{keyed, dead} {
		if _, err := e.Put(Now(), []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	want := standings(t, from)
	if len(want) != 6 {
		t.Fatalf("there are %q", want)
	}

	to := testOptions(segmenttest.New(), func(o *QueueOptions) { o.MaxDeliveries = 9 })
	e, err = open(to)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Inspect(from)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time all keys and receipts are taken
		err = s.EachStanding("q", func(it Item, stands Standing) bool {
			_, err := e.Restore(Now(), []byte("q"), it, stands)
			return err == nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if id, ok := e.Find(Now(), []byte("q"), []byte("k")); !ok || id != 5 {
		t.Errorf("the key is that of item %d, %v, want 5", id, ok)
	}
	if err := errors.Join(e.Verify(), e.Close()); err != nil {
		t.Fatal(err)
	}
	got := standings(t, to)
	if len(got) != 12 || !slices.Equal(got[:6], want) {
		t.Errorf("restored are %q, want %q twice", got, want)
	}
	for i, twice := range got[6:] { // no key, and a receipt of its own
		if strings.Contains(twice, "key=k") || strings.Contains(twice, "token") && twice == want[i] {
			t.Errorf("restored again: %q", twice)
		}
	}
}

// standings describes the items of the queue q in a directory, but for their ids.
func standings(t *testing.T, o Options) (all []string) {
	t.Helper()
	s, err := Inspect(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.EachStanding("q", func(it Item, stands Standing) bool {
		text := fmt.Sprintf("%s flags=%d added=%d expiry=%d key=%s origin=%s why=%d due=%d count=%d", it.Data, it.Flags,
			it.Added, it.Expiry, it.Key(), it.Origin(), it.Why(), stands.Due, stands.Count)
		if stands.Token != 0 {
			text += fmt.Sprint(" token=", stands.Token)
		}
		all = append(all, text)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
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
		if _, err := e.Restore(Now(), []byte(tt.queue), it, Standing{}); !errors.Is(err, tt.want) {
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
	if _, err := e.Restore(Now(), []byte("q"), Item{}, Standing{}); err != ErrClosed {
		t.Errorf("Restore = %v, want %v", err, ErrClosed)
	}
}
