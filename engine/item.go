package engine

import (
	"encoding/binary"
	"math"
	"time"
)

// Time is an instant in milliseconds since the Unix epoch, the resolution of everything the engine
// keeps. Event loops read the clock once per turn and pass it on. As an expiry, zero means never.
type Time int64

// At returns t as a Time; the zero time.Time gives zero.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMilli())
}

// Now is the present.
func Now() Time { return Time(time.Now().UnixMilli()) }

// After returns the instant d after t, without overflowing.
func (t Time) After(d time.Duration) Time {
	ms := int64(d / time.Millisecond)
	if ms > 0 && int64(t) > math.MaxInt64-ms {
		return math.MaxInt64
	}
	return t + Time(ms)
}

// Std returns t as a time.Time; zero gives the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t))
}

// Item is an item of a queue as a reader sees it.
type Item struct {
	ID     uint64 // per queue, +1 per put, never used twice
	Data   []byte // who may use it, and until when, is said where the Item comes from
	Flags  uint32 // as stored by the client
	Added  Time
	Expiry Time // zero: never
}

// Item image: an item as it lies in memory, in the journal and in a backlog. Integers are
// little-endian. Where an image stands alone, the item's id, 8 bytes, comes before it.
//
//	offset  size  field
//	0       4     size of the body in bytes
//	4       4     client flags
//	8       8     time added, ms since the Unix epoch
//	16      8     expiry, likewise; zero: never
//	24      n     body
const (
	imageHeaderSize  = 24 // bytes
	storedHeaderSize = 8 + imageHeaderSize
)

func appendImage(dst []byte, it Item) []byte {
	var h [imageHeaderSize]byte
	binary.LittleEndian.PutUint32(h[0:], uint32(len(it.Data)))
	binary.LittleEndian.PutUint32(h[4:], it.Flags)
	binary.LittleEndian.PutUint64(h[8:], uint64(it.Added))
	binary.LittleEndian.PutUint64(h[16:], uint64(it.Expiry))
	return append(append(dst, h[:]...), it.Data...)
}

// parseImage decodes the image at the start of b and returns what it occupies. It reports false if
// b does not hold a whole one. Data aliases b.
func parseImage(b []byte) (it Item, n int, ok bool) {
	if len(b) < imageHeaderSize {
		return it, 0, false
	}
	size := int64(binary.LittleEndian.Uint32(b))
	if size > int64(len(b)-imageHeaderSize) {
		return it, 0, false
	}
	n = imageHeaderSize + int(size)
	return Item{
		Flags:  binary.LittleEndian.Uint32(b[4:]),
		Added:  Time(binary.LittleEndian.Uint64(b[8:])),
		Expiry: Time(binary.LittleEndian.Uint64(b[16:])),
		Data:   b[imageHeaderSize:n:n],
	}, n, true
}

// appendStored appends an item with its id, as it lies in a window.
func appendStored(dst []byte, it Item) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, it.ID)
	return appendImage(dst, it)
}

// storedSize is the number of bytes that an item with a body of n bytes takes in a window.
func storedSize(n int) int { return storedHeaderSize + n }

// loadStored decodes the stored item at the start of b, which holds it whole. Data aliases b.
func loadStored(b []byte) Item {
	n := storedSize(int(binary.LittleEndian.Uint32(b[8:])))
	return Item{
		ID:     binary.LittleEndian.Uint64(b),
		Flags:  binary.LittleEndian.Uint32(b[12:]),
		Added:  Time(binary.LittleEndian.Uint64(b[16:])),
		Expiry: Time(binary.LittleEndian.Uint64(b[24:])),
		Data:   b[storedHeaderSize:n:n],
	}
}
