package trim

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kestrelmq/kestrel/segment"
)

// TestItemSegments notes items whose segments rise, forgets some, and asks for every one.
func TestItemSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m ItemSegments
		lies := []uint64{0} // the segment of each item, by id; nothing has id 0
		head := uint64(1)
		for seg := uint64(1); len(lies) < 30; {
			seg += rapid.Uint64Range(0, 2).Draw(t, "segments further")
			id := uint64(len(lies))
			lies = append(lies, seg)
			if m.IsNews(seg) {
				m.Add(seg, id)
			}
			if rapid.IntRange(0, 4).Draw(t, "forget") == 0 {
				head = rapid.Uint64Range(head, id).Draw(t, "head")
				m.Forget(head)
			}
			for id := head; id < uint64(len(lies)); id++ {
				oldest, ok := m.From(id)
				if got := m.Of(id); got != lies[id] || !ok || oldest != lies[id] || !m.Covers(id) {
					t.Fatalf("item %d lies in segment %d; Of = %d, From = %d, %t, Covers = %t, steps %v",
						id, lies[id], got, oldest, ok, m.Covers(id), m)
				}
			}
		}
		m.Clear()
		if _, ok := m.From(head); ok || m.Covers(head) || m.Of(head) != 0 {
			t.Fatalf("without steps item %d lies somewhere", head)
		}
	})
}

// TestRising notes items whose segments rise and fall. What rises names the oldest segment from each on.
func TestRising(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lies := rapid.SliceOfN(rapid.Uint64Range(1, 9), 1, 20).Draw(t, "segments")
		var m ItemSegments
		for i, seg := range lies {
			m.Note(seg, uint64(i+1))
		}
		rising := m.Rising()
		for i := range lies {
			if got, want := rising.Of(uint64(i+1)), slices.Min(lies[i:]); got != want {
				t.Fatalf("from item %d on the oldest segment is %d, want %d: %v of %v", i+1, got, want, rising, lies)
			}
		}
	})
}

// TestPins adds reads to segments and takes them away, and compares with a table of segments.
func TestPins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Pins
		p.Of(0).Add(5, 50) // in no segment
		want := make(map[uint64]Pin)
		for range 40 {
			seg := rapid.Uint64Range(1, 6).Draw(t, "segment")
			w := want[seg]
			if w.Reads > 0 && rapid.Bool().Draw(t, "take away") {
				each := w.Bytes / w.Reads
				p.Of(seg).Add(-1, -each)
				w.Reads, w.Bytes = w.Reads-1, w.Bytes-each
			} else {
				p.Of(seg).Add(1, 10)
				w.Reads, w.Bytes = w.Reads+1, w.Bytes+10
			}
			if w.Segment = seg; w.Reads == 0 {
				delete(want, seg)
			} else {
				want[seg] = w
			}
			var sorted []Pin
			for seg := uint64(1); seg <= 6; seg++ {
				if w, ok := want[seg]; ok {
					sorted = append(sorted, w)
				}
				if got := p.Before(seg + 1); got != (len(sorted) > 0) {
					t.Fatalf("Before(%d) = %t, want %t", seg+1, got, len(sorted) > 0)
				}
			}
			if got := slices.Collect(p.All); !slices.Equal(sorted, got) {
				t.Fatalf("Pins = %v, want %v", got, sorted)
			}
		}
	})
}

// journal returns segments of these sizes, numbered from 1.
func journal(sizes ...int64) (segments []segment.Segment) {
	at := int64(0)
	for i, size := range sizes {
		s := segment.Segment{Number: uint64(i + 1)}
		s.Base = s.Base + segment.Position(at)
		s.End = s.Base + segment.Position(size)
		at += size
		segments = append(segments, s)
	}
	return segments
}

// TestPlan plans for journals of 1,000 bytes: what R1 allows is let go of, and no more.
func TestPlan(t *testing.T) {
	const size = 1000
	for _, tt := range []struct {
		name  string
		pin   Pin
		tiny  map[uint64]int64
		state int64
		least int64
		debt  int64
		want  Plan
		ok    bool
	}{
		{name: "nothing lives", least: 1, want: Plan{Target: 2, Left: 250, Windows: 250, Small: 250}, ok: true},
		{name: "more is wanted", least: 1000, want: Plan{Target: 3, Left: 500, Windows: 500, Small: 500}, ok: true},
		{name: "reads are paid for first", pin: Pin{1, 1, 100}, least: 1,
			want: Plan{Target: 2, Left: 250, Windows: 150, Small: 150}, ok: true},
		{name: "a checkpoint is paid for before", state: 50, least: 1,
			want: Plan{Target: 2, Left: 200, Windows: 200, Small: 200}, ok: true},
		{name: "tiny windows leave less for small ones", tiny: map[uint64]int64{1: 40}, least: 1,
			want: Plan{Target: 2, Left: 250, Windows: 250, Small: 210}, ok: true},
		{name: "the second segment pays for the first", pin: Pin{1, 1, 300}, least: 1,
			want: Plan{Target: 3, Left: 500, Windows: 200, Small: 200}, ok: true},
		{name: "a debt", debt: 400, least: 1, want: Plan{Target: 2, Left: 50, Windows: 50, Small: 50}, ok: true},
		{name: "a debt that forbids it", debt: 1200, least: 1},
		{name: "reads in the last segment stay", pin: Pin{9, 1, 5000}, least: 1,
			want: Plan{Target: 2, Left: 250, Windows: 250, Small: 250}, ok: true},
	} {
		u, d := NewUse(journal(500, 500, 500)), Debt{Bytes: tt.debt}
		u.AddPins(&Pins{pins: []Pin{tt.pin}})
		for seg, n := range tt.tiny {
			u.AddTiny(seg, n)
		}
		u.State = tt.state
		if got, ok := u.Plan(size, tt.least, &d); got != tt.want || ok != tt.ok {
			t.Errorf("%s: Plan = %+v, %t, want %+v, %t", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

// TestDebt rewrites as plans allow, and drops segments. What was rewritten is never more than half of what was
// dropped and is still there (R1).
func TestDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments, rewritten, dropped := journal(500, 500), int64(0), int64(0)
		var d Debt
		for range 30 {
			u := NewUse(segments)
			u.AddPins(&Pins{pins: []Pin{Pin{segments[0].Number, 1, rapid.Int64Range(0, 400).Draw(t, "reads")}}})
			if p, ok := u.Plan(1000, 1, &d); ok {
				for n := rapid.Int64Range(1, 100).Draw(t, "bytes"); p.Take(n, &d); {
					rewritten += n
				}
				if p.Left < 0 {
					t.Fatalf("the plan has %d bytes left", p.Left)
				}
			}
			if there := dropped + Size(segments); freedPerByte*rewritten > there {
				t.Fatalf("%d bytes were rewritten, and %d were ever written", rewritten, there)
			}
			if len(segments) > 2 {
				n := rapid.IntRange(1, len(segments)-1).Draw(t, "segments to drop")
				dropped += Size(segments[:n])
				d.Dropped(segments[:n])
				segments = segments[n:]
			}
			last := segments[len(segments)-1]
			next := segment.Segment{Number: last.Number + 1}
			next.Base, next.End = last.End, last.End+segment.Position(rapid.Int64Range(1, 1000).Draw(t, "size"))
			segments = append(segments, next)
		}
	})
}

// TestLimit: what stays in the journal makes it longer by twice its size.
func TestLimit(t *testing.T) {
	u := NewUse(journal(500, 500))
	if got := u.Limit(1000); got != 1000 {
		t.Errorf("Limit of a journal in which nothing lives = %d, want 1000", got)
	}
	u.AddPins(&Pins{pins: []Pin{Pin{1, 2, 100}}})
	u.State = 10
	if got := u.Limit(1000); got != 1220 {
		t.Errorf("Limit = %d, want 1220", got)
	}
	u.AddTiny(1, math.MaxInt64/8)
	if got := u.Limit(1000); got != 1220+(tinyGrowth-1)*1000 {
		t.Errorf("Limit with tiny windows without end = %d, want %d", got, 1220+(tinyGrowth-1)*1000)
	}
}
