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
//
// It has no more words than a call passes in registers beside a receiver. With another field, every item put or
// fetched would be copied through the stack. A function that takes more than an item takes a pointer to it.
type Item struct {
	ID     uint64 // per queue, +1 per put, never used twice
	Data   []byte // who may use it, and until when, is said where the Item comes from; see HasOwnMemory
	Flags  uint32 // as stored by the client
	behind behind // Data, within its capacity
	Added  Time
	Expiry Time // zero: never
}

// behind says what belongs to an item behind its Data. Bits 0-7 are the size of its key in bytes, zero if it has
// none. Bits 8-15 are the size of the name of the queue that gave the item up, zero if none did. Bits 16-23 say why.
type behind uint32

func (b behind) keySize() int    { return int(b & 0xff) }
func (b behind) originSize() int { return int(b >> 8 & 0xff) }
func (b behind) size() int       { return b.keySize() + b.originSize() }

// behindOf has sizes of at most 255 bytes.
func behindOf(keySize, originSize int, why Why) behind {
	return behind(keySize) | behind(originSize)<<8 | behind(why)<<16
}

// Why is why a queue has given an item up.
type Why uint8

const (
	TooOften Why = 1 + iota // it was delivered as often as the queue allows
	Rejected                // a client said so
	whys     = Rejected
)

// MaxKeySize is the longest key, in bytes.
const MaxKeySize = 250

// Key returns the key of the item, or nil. It lives as long as Data.
func (it *Item) Key() []byte {
	if !it.HasKey() {
		return nil
	}
	return it.Stored()[len(it.Data) : len(it.Data)+it.behind.keySize()]
}

// HasKey reports whether the item has a key.
func (it *Item) HasKey() bool { return it.behind.keySize() != 0 }

// Origin returns the name of the queue that gave the item up, or nil. It lives as long as Data.
func (it *Item) Origin() []byte {
	if it.behind.originSize() == 0 {
		return nil
	}
	return it.Stored()[len(it.Data)+it.behind.keySize():]
}

// Why returns why the queue called Origin gave the item up; zero if none has.
func (it *Item) Why() Why { return Why(it.behind >> 16) }

// IsPlain reports whether nothing behind Data belongs to the item.
func (it *Item) IsPlain() bool { return it.behind == 0 }

// Stored is Data and what behind it belongs to the item: what a copy of the item needs.
func (it *Item) Stored() []byte { return it.Data[:len(it.Data)+it.behind.size()] }

// WithStored returns it with its Data, and what belongs behind that, in stored, a copy of what Stored returned.
func (it Item) WithStored(stored []byte) Item {
	it.Data = stored[:len(stored)-it.behind.size()]
	return it
}

// Clone returns it with memory of its own.
func (it Item) Clone() Item { return it.WithStored(append([]byte(nil), it.Stored()...)) }

// Apart returns a copy of a large item, whose memory is to be its own. It returns others as they are.
func (it Item) Apart() Item {
	if it.HasOwnMemory() {
		return it.Clone()
	}
	return it
}

// With returns it with a key and an origin, either of which may be empty, copied with its Data to dst. MaxKeySize
// and 255 bytes are the most that they may have.
func (it Item) With(dst, key []byte, origin string, why Why) Item {
	dst = append(append(append(dst, it.Data...), key...), origin...)
	it.behind = behindOf(len(key), len(origin), why)
	return it.WithStored(dst)
}

// HasOwnMemory reports whether the item is so large that its Data has memory of its own. Nobody changes
// that, so a caller may keep the Data of an item for as long as needed, even when the item is gone. It is not counted
// against the memory limit then, unless the caller accounts for it.
func (it *Item) HasOwnMemory() bool { return len(it.Data) > MaxChunkSize }
