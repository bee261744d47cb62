// Package histogram counts how often values of any size occurred, within a known relative error and
// in memory that grows only with the spread of the values.
package histogram

import (
	"math"
	"math/bits"
	"slices"
)

// Precision is how finely values are told apart.
type Precision uint8

const (
	// Coarse is within 1/32 of a value. It takes 128 bytes for each doubling between the least and
	// the greatest value, 4 KiB at most.
	Coarse Precision = iota
	// Fine is within 1/256 of a value. It takes 1 KiB for each doubling, 30 KiB at most.
	Fine
)

// Layout of buckets, as in HdrHistogram: a value below 2^b, b being bits(), has a bucket of its
// own; each doubling above is split into 2^(b-1) buckets of one size. Buckets are numbered from 0
// without a gap.
//
//	bucket(v) = v                                    v < 2^b
//	          = s·2^(b-1) + (v >> s), s = len(v)-b   otherwise
const (
	coarseBits = 5
	fineBits   = 8
	// maxBits bounds the buckets: what is larger is counted with the largest.
	maxBits = 36
)

func (p Precision) bits() int {
	if p == Fine {
		return fineBits
	}
	return coarseBits
}

// Counts is how often each value occurred. The zero value is empty and Coarse. It does not
// synchronize: whoever has one says who may use it when.
type Counts struct {
	Precision Precision // not to be changed once something was recorded

	first  int     // number of the bucket counts[0] is of; a multiple of the buckets of a doubling
	counts []int64 // from the lowest to the highest doubling seen
	total  int64
	sum    int64
	min    int64
	max    int64
}

// Record counts v, which is taken for 0 if it is below, n times. It allocates only when v is in a
// doubling that has not been seen.
func (c *Counts) Record(v, n int64) {
	v = max(v, 0)
	if c.total == 0 || v < c.min {
		c.min = v
	}
	c.max = max(c.max, v)
	c.total += n
	c.sum += v * n
	i := c.bucket(v) - c.first
	if uint(i) >= uint(len(c.counts)) {
		i = c.grow(i + c.first)
	}
	c.counts[i] += n
}

func (c *Counts) bucket(v int64) int {
	b := c.Precision.bits()
	v = min(v, 1<<maxBits-1)
	s := max(bits.Len64(uint64(v))-b, 0)
	return s<<(b-1) + int(v>>s)
}

// bounds returns the least and the greatest value that bucket i counts.
func (c *Counts) bounds(i int) (low, high int64) {
	b := c.Precision.bits()
	s := max(i>>(b-1)-1, 0)
	low = int64(i-s<<(b-1)) << s
	return low, low + 1<<s - 1
}

// grow makes room for bucket i and returns its index in counts.
func (c *Counts) grow(i int) int {
	step := 1 << (c.Precision.bits() - 1)
	from := i / step * step
	if len(c.counts) == 0 {
		c.first, c.counts = from, make([]int64, step)
		return i - from
	}
	low := min(from, c.first)
	high := max(from+step, c.first+len(c.counts))
	wider := make([]int64, high-low)
	copy(wider[c.first-low:], c.counts)
	c.first, c.counts = low, wider
	return i - low
}

// Total is how many values were recorded.
func (c *Counts) Total() int64 { return c.total }

// Sum is the sum of the values.
func (c *Counts) Sum() int64 { return c.sum }

// Min is the least value; zero if there is none.
func (c *Counts) Min() int64 { return c.min }

// Max is the greatest value; zero if there is none.
func (c *Counts) Max() int64 { return c.max }

// Mean is the mean of the values; zero if there is none.
func (c *Counts) Mean() float64 { return float64(c.sum) / float64(max(c.total, 1)) }

// Quantile returns a value, exact but for the precision, that the share q of the values does not
// exceed; zero if there is none.
func (c *Counts) Quantile(q float64) int64 {
	want := max(int64(math.Ceil(q*float64(c.total))), 1)
	seen := int64(0)
	for i, n := range c.counts {
		if seen += n; n > 0 && seen >= want {
			low, high := c.bounds(c.first + i)
			return min(max(low+(high-low)/2, c.min), c.max)
		}
	}
	return c.max
}

// Each calls f for every bucket that counted something, lowest first, with the least and the
// greatest value that it counts.
func (c *Counts) Each(f func(low, high, n int64)) {
	for i, n := range c.counts {
		if n > 0 {
			low, high := c.bounds(c.first + i)
			f(low, high, n)
		}
	}
}

// Clone returns a copy.
func (c *Counts) Clone() *Counts {
	d := *c
	d.counts = slices.Clone(c.counts)
	return &d
}

// Add counts what o has counted. Both have the same precision.
func (c *Counts) Add(o *Counts) {
	if o.total == 0 {
		return
	}
	if c.total == 0 || o.min < c.min {
		c.min = o.min
	}
	c.max = max(c.max, o.max)
	c.total += o.total
	c.sum += o.sum
	c.addBuckets(o, 1)
}

func (c *Counts) addBuckets(o *Counts, sign int64) {
	if len(o.counts) == 0 {
		return
	}
	c.grow(o.first)
	c.grow(o.first + len(o.counts) - 1)
	for i, n := range o.counts {
		c.counts[o.first-c.first+i] += sign * n
	}
}

// Since returns what was recorded after earlier, a copy of c from before. Its Min and Max are exact
// but for the precision. If earlier is not such a copy, because c began anew, Since returns a copy
// of c.
func (c *Counts) Since(earlier *Counts) *Counts {
	d := c.Clone()
	d.addBuckets(earlier, -1)
	if slices.ContainsFunc(d.counts, func(n int64) bool { return n < 0 }) {
		return c.Clone()
	}
	d.total -= earlier.total
	d.sum -= earlier.sum
	d.min, d.max = 0, 0
	first := true
	d.Each(func(low, high, _ int64) {
		if first {
			d.min, first = max(low, c.min), false
		}
		d.max = min(high, c.max)
	})
	return d
}
