package oldjournal

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestUsedXIDs compares the set with a map, where xids lie together, at the ends of words and where numbers wrap.
func TestUsedXIDs(t *testing.T) {
	bases := []int32{0, 1 << 12, 1 << 18, 1<<30 - 100, math.MaxInt32 - 200, math.MinInt32, -200}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var s usedXIDs
		used := make(map[int32]bool)
		base := bases[rng.IntN(len(bases))]
		add := func(xid int32) { s.add(xid); used[xid] = true }
		for i := range int32(10_000 * (seed % 2)) { // so that words of the higher levels are full
			add(base + i)
		}
		for i := range 20_000 {
			xid := base + rng.Int32N(10_100)
			switch {
			case used[xid] && rng.IntN(2) == 0:
				s.remove(xid)
				delete(used, xid)
			case !used[xid]:
				add(xid)
			}
			if i%50 > 0 {
				continue
			}
			from := base + rng.Int32N(10_100)
			want := from
			for used[want] {
				want++
			}
			if got := s.next(from); got != want {
				t.Fatalf("seed %d: next(%d) = %d, want %d", seed, from, got, want)
			}
		}
		for xid := range used {
			s.remove(xid)
		}
		for level, words := range s.levels {
			if len(words) > 0 {
				t.Errorf("seed %d: an empty set has %d words in level %d", seed, len(words), level)
			}
		}
	}
}

// TestLowXIDAgain replays a journal that opens many reads, and says before each further one that the last xid was a low
// one. A search through all that are open would take an hour.
func TestLowXIDAgain(t *testing.T) {
	const reads = 300_000
	var r Replay
	apply := func(op Op, xid int32) { r.Apply(&Entry{Record: Record{Op: op, XID: xid}}, 0) }
	for range reads {
		apply(OpAdd, 0)
		apply(OpRemoveTentative, 0)
	}
	for range reads {
		apply(OpSaveXID, 0)
		apply(OpAdd, 0)
		apply(OpRemoveTentative, 0)
	}
	r.Items()
	if r.last != 2*reads || r.Returned != 2*reads {
		t.Errorf("%d reads are open and the last xid is %d, want %d of both", r.Returned, r.last, 2*reads)
	}
}

// TestXIDIsFreeAgain replays a journal that ends a read, and says that the last xid was the one before: the next read has
// the same one.
func TestXIDIsFreeAgain(t *testing.T) {
	for _, end := range []Op{OpConfirmRemove, OpUnremove} {
		var r Replay
		for _, op := range []Op{OpAdd, OpAdd, OpRemoveTentative} {
			r.Apply(&Entry{Record: Record{Op: op}}, 0)
		}
		read := r.last
		r.Apply(&Entry{Record: Record{Op: end, XID: read}}, 0)
		r.Apply(&Entry{Record: Record{Op: OpSaveXID, XID: read - 1}}, 0)
		r.Apply(&Entry{Record: Record{Op: OpRemoveTentative}}, 0)
		if r.last != read {
			t.Errorf("behind op %d of xid %d the next read has %d", end, read, r.last)
		}
	}
}
