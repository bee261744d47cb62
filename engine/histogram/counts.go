package histogram

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Precision is how finely buckets distinguish values.
type Precision uint8

const (
	// Coarse is within 1/32 of a value. It has 16 buckets for each doubling between the least and
	// the greatest value, 528 at most.
	Coarse Precision = iota
	// Fine is within 1/256 of a value. It has 128 buckets for each doubling, 3840 at most.
	Fine
)

// Layout of buckets, as in HdrHistogram, with b for bits(): a value below 2^b has a bucket of its own. Each doubling
// above is split into 2^(b-1) buckets of one size. Buckets are numbered from 0 without a gap.
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

// Counts is how often each value occurred. The zero value is empty and Coarse. It does not synchronize: its owner
// does.
//
// A bucket takes one byte until one of them has counted more than that holds; then all of them take
// two, then four, then eight. So a histogram of something that is seldom used stays small.
type Counts struct {
	Precision Precision // not to be changed once something was recorded

	width  uint8  // a bucket takes 1<<width bytes
	first  uint16 // number of the first bucket; a multiple of the buckets of a doubling
	counts []byte // from the lowest to the highest doubling seen, little-endian
	total  int64
	sum    int64
	min    int64
	max    int64
}

// maxWidth is the width of buckets that hold any count. As a mask of a width that a shift uses, it spares a comparison.
const maxWidth = 3

// Record counts v, which is taken for 0 if it is below, n times. It allocates only when v is in a
// doubling that has not been seen, and the three times that buckets are widened.
func (c *Counts) Record(v, n int64) {
	v = max(v, 0)
	if c.total == 0 || v < c.min {
		c.min = v
	}
	c.max = max(c.max, v)
	c.total += n
	c.sum += v * n
	i := c.bucket(v) - int(c.first)
	if uint(i) >= uint(c.buckets()) {
		i = c.grow(i + int(c.first))
	}
	c.add(i, n)
}

// buckets is how many there are.
func (c *Counts) buckets() int { return len(c.counts) >> (c.width & maxWidth) }

// at returns what the i-th bucket from first on has counted.
func (c *Counts) at(i int) int64 {
	switch b := c.counts[i<<c.width:]; c.width {
	case 0:
		return int64(b[0])
	case 1:
		return int64(binary.LittleEndian.Uint16(b))
	case 2:
		return int64(binary.LittleEndian.Uint32(b))
	default:
		return int64(binary.LittleEndian.Uint64(b))
	}
}

// put sets the i-th bucket, which has room for n.
func (c *Counts) put(i int, n int64) {
	switch b := c.counts[i<<c.width:]; c.width {
	case 0:
		b[0] = byte(n)
	case 1:
		binary.LittleEndian.PutUint16(b, uint16(n))
	case 2:
		binary.LittleEndian.PutUint32(b, uint32(n))
	default:
		binary.LittleEndian.PutUint64(b, uint64(n))
	}
}

// add counts n more in the i-th bucket.
func (c *Counts) add(i int, n int64) {
	switch b := c.counts[i<<(c.width&maxWidth):]; c.width {
	case 0:
		if n += int64(b[0]); n < 1<<8 {
			b[0] = byte(n)
			return
		}
	case 1:
		if n += int64(binary.LittleEndian.Uint16(b)); n < 1<<16 {
			binary.LittleEndian.PutUint16(b, uint16(n))
			return
		}
	case 2:
		if n += int64(binary.LittleEndian.Uint32(b)); n < 1<<32 {
			binary.LittleEndian.PutUint32(b, uint32(n))
			return
		}
	default:
		n += int64(binary.LittleEndian.Uint64(b))
		binary.LittleEndian.PutUint64(b, uint64(n))
		return
	}
	for n >= 1<<(8<<c.width) && c.width < maxWidth {
		c.widen()
	}
	c.put(i, n)
}

// widen doubles what a bucket takes.
func (c *Counts) widen() {
	wider := Counts{width: c.width + 1, counts: make([]byte, 2*len(c.counts))}
	for i := range c.buckets() {
		wider.put(i, c.at(i))
	}
	c.width, c.counts = wider.width, wider.counts
}

func (c *Counts) bucket(v int64) int {
	b := c.Precision.bits()
	v = min(v, 1<<maxBits-1)
	s := max(bits.Len64(uint64(v))-b, 0)
	return s<<((b-1)&63) + int(v>>(s&63)) // the masks spare comparisons
}

// bounds returns the least and the greatest value that bucket i counts.
func (c *Counts) bounds(i int) (low, high int64) {
	b := c.Precision.bits()
	s := max(i>>(b-1)-1, 0)
	low = int64(i-s<<(b-1)) << s
	return low, low + 1<<s - 1
}

// grow makes room for bucket number i and returns which it is from first on.
func (c *Counts) grow(i int) int {
	step := 1 << (c.Precision.bits() - 1)
	from := i / step * step
	if len(c.counts) == 0 {
		c.first, c.counts = uint16(from), make([]byte, step<<c.width)
		return i - from
	}
	first := int(c.first)
	low := min(from, first)
	high := max(from+step, first+c.buckets())
	wider := make([]byte, (high-low)<<c.width)
	copy(wider[(first-low)<<c.width:], c.counts)
	c.first, c.counts = uint16(low), wider
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
	for i := range c.buckets() {
		n := c.at(i)
		if seen += n; n > 0 && seen >= want {
			low, high := c.bounds(int(c.first) + i)
			return min(max(low+(high-low)/2, c.min), c.max)
		}
	}
	return c.max
}

// Each calls f for every bucket that counted something, lowest first, with the least and the
// greatest value that it counts.
func (c *Counts) Each(f func(low, high, n int64)) {
	for i := range c.buckets() {
		if n := c.at(i); n > 0 {
			low, high := c.bounds(int(c.first) + i)
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
	first, n := int(o.first), o.buckets()
	c.grow(first)
	c.grow(first + n - 1)
	for i := range n {
		if more := o.at(i); more > 0 {
			c.add(first+i-int(c.first), more)
		}
	}
}

// Since returns what was recorded after earlier, a copy of c from before. Its Min and Max are exact
// but for the precision. If earlier is not such a copy, because c began anew, Since returns a copy
// of c.
func (c *Counts) Since(earlier *Counts) *Counts {
	d := c.Clone()
	if !d.subtract(earlier) {
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

// subtract takes o's buckets from those of c, and reports whether o had none with more in it.
func (c *Counts) subtract(o *Counts) bool {
	for i := range o.buckets() {
		n := o.at(i)
		if n == 0 {
			continue
		}
		at := int(o.first) + i - int(c.first)
		if at < 0 || at >= c.buckets() || c.at(at) < n {
			return false
		}
		c.put(at, c.at(at)-n)
	}
	return true
}
