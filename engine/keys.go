package engine

import (
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
)

// MaxKeySize is the longest key of an item, in bytes.
const MaxKeySize = item.MaxKeySize

// Why is why a queue has given an item up.
type Why = item.Why

const (
	TooOften = item.TooOften // it was delivered as often as the queue allows
	Rejected = item.Rejected // a client said so
)

// Duplicate says what a put does with a key that an item of the queue has, or none has.
type Duplicate uint8

const (
	// Overwrite gives the item of the key the new body, flags and expiry, in its place and with its id. It is
	// visible, unless the put has a delay; its lease, or open read, has ended, and its deliveries are forgotten.
	Overwrite Duplicate = iota
	// OnlyNew refuses a key that an item has.
	OnlyNew
	// OnlyReplace refuses a key that no item has, and overwrites otherwise.
	OnlyReplace
)

// ValidateKey returns an error that wraps ErrBadKey unless an item may have that key.
func ValidateKey(key []byte) error {
	if len(key) == 0 {
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	}
	if len(key) > MaxKeySize {
		return fmt.Errorf("%w: it has %d bytes, above %d", ErrBadKey, len(key), MaxKeySize)
	}
	for _, c := range key {
		if c < ' ' || c == 0x7f || c == '/' {
			return fmt.Errorf("%w: it has a control byte or a slash", ErrBadKey)
		}
	}
	return nil
}

// keyed finds the items of a queue by their keys. A queue has none until the first put with a key. The mutex of
// the queue's shard guards it.
//
// Two keys with the same hash count as one key. With a secret seed and a hundred million keys, that happens once in
// four thousand queues.
type keyed struct {
	keyindex.Index
	seed keyindex.Seed
}

// index returns the keys of q, which it makes if there are none.
func (q *queue) index() *keyed {
	if q.keys == nil {
		q.keys = &keyed{Index: keyindex.Index{Memory: q.shard.pool.Memory}, seed: keyindex.NewSeed()}
	}
	return q.keys
}

// keySeed is the seed of the keys of q, which never changes; nil as long as no item has had a key.
func (q *queue) keySeed() *keyindex.Seed {
	if q.keys == nil {
		return nil
	}
	return &q.keys.seed
}

// noteKey notes that it, which has a key, is the item of that.
func (q *queue) noteKey(it *Item) {
	x := q.index()
	x.Set(x.seed.Hash(it.Key()), it.ID)
}

// isOfKey reports whether it, which has a key, is the item of that.
func (q *queue) isOfKey(it *Item) bool {
	if q.keys == nil {
		return false
	}
	id, ok := q.keys.Find(q.keys.seed.Hash(it.Key()))
	return ok && id == it.ID
}

// leaves notes that nobody can have it any more.
func (q *queue) leaves(it *Item) {
	if it.HasKey() {
		q.forgetKey(it)
	}
}

// forgetKey is leaves for an item that has a key.
func (q *queue) forgetKey(it *Item) {
	if q.keys != nil {
		q.keys.Delete(q.keys.seed.Hash(it.Key()), it.ID)
	}
}

// noteNewest is noteKey, unless it has no key, or a newer item has that: the one before may have expired.
func (q *queue) noteNewest(it *Item) {
	if !it.HasKey() {
		return
	}
	x := q.index()
	hash := x.seed.Hash(it.Key())
	if id, ok := x.Find(hash); !ok || id < it.ID {
		x.Set(hash, it.ID)
	}
}
