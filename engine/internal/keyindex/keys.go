package keyindex

import "sync/atomic"

// Keys finds the items of a queue by their keys.
//
// Two keys with the same hash count as one key. With a secret seed and a hundred million keys, that happens once in
// four thousand queues.
type Keys struct {
	Index
	Seed Seed // does not change once there is an entry
}

// NewKeys returns keys with a seed of their own, and none yet. What they take is counted in memory.
func NewKeys(memory *atomic.Int64) *Keys { return &Keys{Index{Memory: memory}, NewSeed()} }

// Note notes that an item is the one of a key.
func (k *Keys) Note(key []byte, id uint64) { k.Set(k.Seed.Hash(key), id) }

// NoteNewest is Note, unless a newer item has the key: the one before may have expired.
func (k *Keys) NoteNewest(key []byte, id uint64) {
	hash := k.Seed.Hash(key)
	if other, ok := k.Find(hash); !ok || other < id {
		k.Set(hash, id)
	}
}

// Of returns the id of the item of a key.
func (k *Keys) Of(key []byte) (id uint64, ok bool) { return k.Find(k.Seed.Hash(key)) }

// Forget notes that an item is not the one of a key any more, if it is.
func (k *Keys) Forget(key []byte, id uint64) { k.Delete(k.Seed.Hash(key), id) }
