package thrift

import (
	"encoding/binary"
	"math"
)

// maxDepth is how deep values may be nested inside a struct that is skipped. Skipping recurses.
const maxDepth = 64

// cursor reads values from a frame. The first value that is not there or not allowed makes it fail.
// From then on nothing remains to be read, and all it reads is zero. Zero also ends a struct, so a
// loop over fields needs no check of its own.
type cursor struct {
	rest   []byte
	failed *ProtocolError
}

func (c *cursor) fail(err *ProtocolError) {
	if c.failed == nil {
		c.failed = err
	}
	c.rest = nil
}

// take returns the next size bytes, or nil if there are fewer. Size is not negative.
func (c *cursor) take(size int) []byte {
	if size > len(c.rest) {
		c.fail(errTruncated)
		return nil
	}
	b := c.rest[:size]
	c.rest = c.rest[size:]
	return b
}

func (c *cursor) byte() byte {
	if len(c.rest) == 0 {
		c.fail(errTruncated)
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

func (c *cursor) i16() int16 {
	if b := c.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) i32() int32 {
	if b := c.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) i64() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string returns the bytes of a string. They are not nil, unless the cursor has failed.
func (c *cursor) string() []byte {
	size := c.i32()
	if size < 0 {
		c.fail(errNegativeSize)
		return nil
	}
	return c.take(int(size))
}

// field returns the id and type of the next field of a struct, or 0 at its end.
func (c *cursor) field() uint32 {
	if b := c.rest; len(b) >= 3 && b[0] != typeStop { // most, in one step
		c.rest = b[3:]
		return field(int16(binary.BigEndian.Uint16(b[1:])), b[0])
	}
	kind := c.byte()
	if kind == typeStop {
		return 0
	}
	return field(c.i16(), kind)
}

// count reads a number of values of at least size bytes each, and checks that they can be there.
func (c *cursor) count(size int) int {
	count := c.i32()
	switch {
	case count < 0:
		c.fail(errNegativeSize)
	case int(count) > len(c.rest)/size:
		c.fail(errTruncated)
	default:
		return int(count)
	}
	return 0
}

// strings reads a list of strings and returns it without checking that again: see Items.
func (c *cursor) strings() Items {
	const sizeSize = 4
	if c.byte() != typeString {
		c.noElements()
		return Items{}
	}
	count := c.count(sizeSize)
	all, at := c.rest, 0
	for range count {
		if len(all)-at < sizeSize {
			c.fail(errTruncated)
			return Items{}
		}
		size := binary.BigEndian.Uint32(all[at:])
		at += sizeSize
		if size > math.MaxInt32 {
			c.fail(errNegativeSize)
			return Items{}
		}
		if int(size) > len(all)-at {
			c.fail(errTruncated)
			return Items{}
		}
		at += int(size)
	}
	c.rest = all[at:]
	return Items{count: count, data: all[:at]}
}

// int64s reads a set of 64-bit integers.
func (c *cursor) int64s() IDs {
	if c.byte() != typeI64 {
		c.noElements()
		return IDs{}
	}
	return IDs{data: c.take(c.count(idSize) * idSize)}
}

// int32s reads a list of 32-bit integers.
func (c *cursor) int32s() Weights {
	if c.byte() != typeI32 {
		c.noElements()
		return Weights{}
	}
	return Weights{data: c.take(c.count(weightSize) * weightSize)}
}

// noElements reads the count of a list or set whose elements have another type than they should.
// Some clients give an empty one no type.
func (c *cursor) noElements() {
	if c.count(1) > 0 {
		c.fail(errElementType)
	}
}
