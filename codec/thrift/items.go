package thrift

import (
	"encoding/binary"
	"iter"
)

// Items is the list of items of a PUT, as it lies in the frame. It is a value: a copy stays where
// it is while the original is read. The zero Items is empty.
type Items struct {
	count int
	data  []byte // count times a 32-bit length and as many bytes, checked by Decode
}

// Len returns how many items are left.
func (it Items) Len() int { return it.count }

// Next removes the first item and returns it, or false if none is left. The item aliases the frame.
func (it *Items) Next() (item []byte, ok bool) {
	if it.count == 0 {
		return nil, false
	}
	const sizeSize = 4
	end := sizeSize + int(binary.BigEndian.Uint32(it.data))
	item = it.data[sizeSize:end]
	it.data = it.data[end:]
	it.count--
	return item, true
}

// All yields the items in order, which alias the frame. It leaves it as it is.
func (it Items) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest := it
		for item, ok := rest.Next(); ok && yield(item); item, ok = rest.Next() {
		}
	}
}

const idSize = 8 // bytes

// IDs is the set of ids of a CONFIRM or ABORT, as it lies in the frame. They are in no particular order, with
// duplicates if the client sent them.
type IDs struct {
	data []byte
}

// Len returns the number of ids.
func (ids IDs) Len() int { return len(ids.data) / idSize }

// At returns the i-th id, for i from 0 up to Len.
func (ids IDs) At(i int) int64 {
	return int64(binary.BigEndian.Uint64(ids.data[i*idSize:]))
}

// All yields the ids in the order sent.
func (ids IDs) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for i := range ids.Len() {
			if !yield(ids.At(i)) {
				return
			}
		}
	}
}

const weightSize = 4 // bytes

// Weights are those of the queues of a GET_ANY, as they lie in the frame.
type Weights struct {
	data []byte
}

// Len returns the number of weights.
func (w Weights) Len() int { return len(w.data) / weightSize }

// At returns the i-th weight, for i from 0 up to Len.
func (w Weights) At(i int) int32 {
	return int32(binary.BigEndian.Uint32(w.data[i*weightSize:]))
}
