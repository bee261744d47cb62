package loadtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// newTestFeed returns a producer and a consumer of one queue.
func newTestFeed(t testing.TB, l *Ledger, o order) (*producer, *consumer) {
	t.Helper()
	const size = 60
	p, err := l.producer("q", 0, size, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return p, l.consumer("q", 0, size, o)
}

func TestCheck(t *testing.T) {
	at := time.Now()
	for _, tt := range []struct {
		name  string
		order order
		seqs  []uint64
		want  string // what is wrong with the last item
	}{
		{"in order", exactOrder, []uint64{0, 1, 2}, ""},
		{"gap", exactOrder, []uint64{0, 2}, "item 2 out of order, due is 1"},
		{"gap, shared queue", risingOrder, []uint64{0, 5}, ""},
		{"falling, shared queue", risingOrder, []uint64{5, 4}, "item 4 out of order, due is 6"},
		{"falling, any order", anyOrder, []uint64{5, 4}, ""},
		{"repeated", exactOrder, []uint64{0, 0}, "item 0 for the second time"},
		{"repeated, any order", anyOrder, []uint64{3, 3}, "item 3 for the second time"},
		{"never put", anyOrder, []uint64{10}, "item 10, of which only 10 were put"},
	} {
		l := NewLedger(1, false)
		p, c := newTestFeed(t, l, tt.order)
		for range 10 {
			p.next(at)
		}
		p.acknowledge(10)
		var problem string
		for i, seq := range tt.seqs {
			if problem != "" {
				t.Errorf("%s: item %d is wrong: %s", tt.name, i-1, problem)
			}
			s := stamp{l.run, p.id, seq, at.Sub(l.begin)}
			_, _, problem, _ = c.check(appendValue(nil, p.size, s, c.letters))
		}
		if problem != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, problem, tt.want)
		}
	}
}

// TestCheckReturned checks items that a leak or a kill lets come again.
func TestCheckReturned(t *testing.T) {
	l := NewLedger(1, false)
	p, c := newTestFeed(t, l, exactOrder)
	item := appendValue(nil, p.size, p.next(time.Now()), c.letters)
	p.acknowledge(1)
	s, _, problem, _ := c.check(item)
	if problem != "" || !l.drained() {
		t.Fatalf("check = %q, drained %v", problem, l.drained())
	}
	c.expect(s, true)
	if items, n := l.Missing(9); n != 1 || l.drained() || items[0].Seq != 0 {
		t.Errorf("after a leak %v are missing, drained %v, want item 0", items, l.drained())
	}
	if _, _, problem, _ = c.check(item); problem != "" || !l.drained() {
		t.Errorf("item that must come again: %q, drained %v", problem, l.drained())
	}
	c.expect(s, false)
	if !l.drained() {
		t.Error("an item that may come again is owed")
	}
	if _, _, problem, _ = c.check(item); problem != "" || l.Counts().Redelivered != 2 {
		t.Errorf("item that may come again: %q, %+v", problem, l.Counts())
	}
	if _, _, problem, _ = c.check(item); !strings.Contains(problem, "second time") {
		t.Errorf("item that may not come again: %q", problem)
	}
}

// TestMissing compares Missing with a list, whatever was got.
func TestMissing(t *testing.T) {
	l := NewLedger(1, false)
	p, c := newTestFeed(t, l, anyOrder)
	for range 200 {
		p.next(time.Now())
	}
	p.acknowledge(200)
	for seq := range uint64(200) {
		if seq%3 != 0 {
			c.take(p.feeds[0], seq)
		}
	}
	items, n := l.Missing(5)
	if n != 67 || len(items) != 5 || items[4] != (Item{"q", 0, 12}) {
		t.Errorf("Missing = %v and %d in all, want 67", items, n)
	}
	if err := l.Check(); err == nil || !strings.Contains(err.Error(), "67 items were acknowledged") ||
		!strings.Contains(err.Error(), "and 59 more") {
		t.Errorf("Check = %v", err)
	}
}

// TestSeenSetModel compares a seenSet with a map.
func TestSeenSetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seenSet
		model := make(map[uint64]bool)
		for _, seq := range rapid.SliceOf(rapid.Uint64Range(0, 400)).Draw(t, "seqs") {
			if added := s.add(seq); added == model[seq] {
				t.Fatalf("add(%d) = %v, want %v", seq, added, !model[seq])
			}
			model[seq] = true
		}
		first := uint64(0)
		for model[first] {
			first++
		}
		if got := s.first(); got != first {
			t.Fatalf("first = %d, want %d", got, first)
		}
		end := rapid.Uint64Range(0, 450).Draw(t, "end")
		var want []uint64
		for seq := range end {
			if !model[seq] {
				want = append(want, seq)
			}
		}
		if got := slices.Collect(s.missing(end)); !slices.Equal(got, want) {
			t.Fatalf("missing(%d) = %v, want %v", end, got, want)
		}
	})
}

// TestSeenSetStaysSmall adds many numbers in about their order.
func TestSeenSetStaysSmall(t *testing.T) {
	var s seenSet
	for seq := range uint64(1 << 18) {
		s.add(seq ^ 1)
	}
	if len(s.words) > 1 || cap(s.words) > 64 {
		t.Errorf("%d words of %d for numbers in order", len(s.words), cap(s.words))
	}
}
