package item

import (
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
	Data   []byte // who may use it, and until when, is said where the Item comes from; see HasOwnMemory
	Flags  uint32 // as stored by the client
	Added  Time
	Expiry Time // zero: never
}

// HasOwnMemory reports whether the item is so large that its Data has memory of its own. Nobody changes
// that, so whoever got the item may keep Data for as long as needed, also when the item is gone. It is
// not counted against the memory limit then, unless the caller accounts for it.
func (it Item) HasOwnMemory() bool { return len(it.Data) > MaxChunkSize }
