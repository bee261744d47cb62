package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func precisions() map[Precision]float64 {
	return map[Precision]float64{Coarse: 1. / 32, Fine: 1. / 256}
}

// TestBuckets tests that every value has one bucket, that buckets leave no gap, and how wide they
// are.
func TestBuckets(t *testing.T) {
	for p, within := range precisions() {
		c := Counts{Precision: p}
		next := int64(0)
		for i := 0; next < 1<<maxBits; i++ {
			low, high := c.bounds(i)
			if low != next || high < low {
				t.Fatalf("precision %d: bucket %d is %d to %d, want it to begin at %d", p, i, low, high, next)
			}
			for _, v := range []int64{low, (low + high) / 2, high} {
				if got := c.bucket(v); got != i {
					t.Fatalf("precision %d: bucket(%d) = %d, want %d", p, v, got, i)
				}
			}
			if half := float64(high-low+1) / 2; low >= 1<<p.bits() && half > within*float64(low) {
				t.Fatalf("precision %d: bucket %d, %d to %d, is too wide", p, i, low, high)
			}
			next = high + 1
		}
		if c.bucket(1<<maxBits) != c.bucket(1<<maxBits-1) || c.bucket(1<<62) != c.bucket(1<<maxBits-1) {
			t.Errorf("precision %d: values past the last bucket are not counted in it", p)
		}
	}
}

// TestCounts compares with the values themselves.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for p, within := range precisions() {
			values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
				return rapid.Int64Range(0, 1<<rapid.IntRange(1, 35).Draw(t, "bits")).Draw(t, "value")
			}), 1, 200).Draw(t, "values")
			c := Counts{Precision: p}
			sum := int64(0)
			for _, v := range values {
				c.Record(v, 1)
				sum += v
			}
			slices.Sort(values)
			if c.Total() != int64(len(values)) || c.Sum() != sum || c.Min() != values[0] ||
				c.Max() != values[len(values)-1] {
				t.Fatalf("total %d sum %d min %d max %d of %v", c.Total(), c.Sum(), c.Min(), c.Max(), values)
			}
			for _, q := range []float64{0, 0.25, 0.5, 0.9, 0.99, 1} {
				rank := max(int(math.Ceil(q*float64(len(values)))), 1)
				got, want := float64(c.Quantile(q)), float64(values[rank-1])
				if slack := within * want; got < want-slack || got > want+slack {
					t.Fatalf("precision %d: Quantile(%v) = %v, want %v, of %v", p, q, got, want, values)
				}
			}
		}
	})
}

// TestAddSince tests that counts of parts add up, and come apart again.
func TestAddSince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Int64Range(0, 1<<40))
		one, two := values.Draw(t, "one"), values.Draw(t, "two")
		var a, b, both Counts
		for _, v := range one {
			a.Record(v, 2)
			both.Record(v, 2)
		}
		early := both.Clone()
		for _, v := range two {
			b.Record(v, 3)
			both.Record(v, 3)
		}
		sum := a.Clone()
		sum.Add(&b)
		requireSame(t, "Add", sum, &both)
		later := both.Since(early)
		if later.Total() != b.Total() || later.Sum() != b.Sum() || !slices.Equal(list(later), list(&b)) {
			t.Fatalf("Since = %+v, want %+v", later, &b)
		}
		if len(one) > 0 {
			requireSame(t, "Since of what began anew", b.Since(&both), &b)
		}
	})
}

type bucket struct{ low, high, n int64 }

func list(c *Counts) (all []bucket) {
	c.Each(func(low, high, n int64) { all = append(all, bucket{low, high, n}) })
	return all
}

// requireSame compares what can be seen.
func requireSame(t *rapid.T, what string, got, want *Counts) {
	if got.Total() != want.Total() || got.Sum() != want.Sum() || got.Min() != want.Min() ||
		got.Max() != want.Max() || !slices.Equal(list(got), list(want)) {
		t.Fatalf("%s = %+v, want %+v", what, got, want)
	}
}

func TestEmpty(t *testing.T) {
	var c Counts
	c.Add(&Counts{})
	if c.Quantile(0.5) != 0 || c.Mean() != 0 || c.Min() != 0 || c.Max() != 0 || c.Since(&Counts{}).Total() != 0 {
		t.Errorf("an empty Counts has something: %+v", c)
	}
	c.Record(-5, 1)
	if c.Min() != 0 || c.Max() != 0 || c.Sum() != 0 || c.Total() != 1 {
		t.Errorf("a negative value is not taken for 0: %+v", c)
	}
}

// TestMemory tests what the comments at Coarse, Fine and Counts promise.
func TestMemory(t *testing.T) {
	if size := unsafe.Sizeof(Counts{}); size > 64 {
		t.Errorf("a Counts without buckets takes %d bytes, want 64 at most", size)
	}
	for p, want := range map[Precision]int{Coarse: 528, Fine: 3840} {
		c := Counts{Precision: p}
		c.Record(1000, 255)
		if got := len(c.counts); got != 1<<(p.bits()-1) {
			t.Errorf("precision %d: one doubling of small counts takes %d bytes", p, got)
		}
		c.Record(1000, 1)
		if got := len(c.counts); got != 2<<(p.bits()-1) {
			t.Errorf("precision %d: one doubling of a count of 256 takes %d bytes", p, got)
		}
		c.Record(0, 1)
		c.Record(1<<62, 1<<40)
		if got := len(c.counts); got > 8*want {
			t.Errorf("precision %d: every doubling takes %d bytes, want %d at most", p, got, 8*want)
		}
		if n := testing.AllocsPerRun(100, func() { c.Record(rand.Int64N(1<<40), 3) }); n != 0 {
			t.Errorf("precision %d: Record allocates %v times", p, n)
		}
	}
}

// TestWiden tests that counts of every size are kept, whatever the order in which they come.
func TestWiden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(1, 1<<rapid.IntRange(0, 50).Draw(t, "bits")).Draw(t, "n")
		})
		var c Counts
		want := make(map[int64]int64)
		for range rapid.IntRange(1, 50).Draw(t, "records") {
			v, n := rapid.Int64Range(0, 31).Draw(t, "value"), size.Draw(t, "times")
			c.Record(v, n)
			want[v] += n
		}
		for _, b := range list(&c) {
			if want[b.low] != b.n {
				t.Fatalf("%d was counted %d times, want %d", b.low, b.n, want[b.low])
			}
			delete(want, b.low)
		}
		if len(want) > 0 {
			t.Fatalf("not counted: %v", want)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	var c Counts
	b.ReportAllocs()
	for v := int64(0); b.Loop(); v++ {
		c.Record(100+v&1023, 1)
	}
}
