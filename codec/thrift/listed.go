package thrift

import (
	"slices"
)

// Listed is one item that browse has returned.
type Listed struct {
	ID         int64 // names the item in its queue, for ever
	Data       []byte
	Key        []byte // of the producer's choice; nil if the item has none
	Deliveries int32  // how often it was delivered, a lease under way included, as far as that counts
	Added      int64  // when it was put, in milliseconds since 1970
	Expires    int64  // when it expires, likewise; 0: never
	Due        int64  // when its delay or its lease ends, likewise; 0: it has none
	From       []byte // a dead letter: the queue that gave it up; nil for others
	Why        []byte // a dead letter: "deliveries" or "rejected"
}

// ListedOverhead is what AppendListed appends besides the data, the key, the queue and the reason at most, in
// bytes.
const ListedOverhead = 5*(3+4) + 4*(3+8) + 1

// AppendListed appends an item to a reply that BeginItems has begun, and EndItems ends. What the item does not
// have is left out.
func AppendListed(dst []byte, it *Listed) []byte {
	dst = slices.Grow(dst, len(it.Data)+len(it.Key)+len(it.From)+len(it.Why)+ListedOverhead)
	dst = appendI64Field(dst, 1, it.ID)
	dst = appendStringField(dst, 2, it.Data)
	return appendListedRest(dst, it)
}

// appendListedRest appends what follows the data.
func appendListedRest(dst []byte, it *Listed) []byte {
	if len(it.Key) > 0 {
		dst = appendStringField(dst, 3, it.Key)
	}
	dst = appendI32Field(dst, 4, it.Deliveries)
	dst = appendI64Field(dst, 5, it.Added)
	if it.Expires != 0 {
		dst = appendI64Field(dst, 6, it.Expires)
	}
	if it.Due != 0 {
		dst = appendI64Field(dst, 7, it.Due)
	}
	if len(it.From) > 0 {
		dst = appendStringField(dst, 8, it.From)
		dst = appendStringField(dst, 9, it.Why)
	}
	return append(dst, typeStop)
}

// AppendListedAround appends what comes in front of the data, of size bytes, in the reply to browse that has one item.
// It returns what comes behind the data. It does not look at it.Data.
func AppendListedAround(dst []byte, call Call, it *Listed, size int) (front []byte, behind string) {
	start := len(dst)
	dst = appendI64Field(BeginItems(dst, call), 1, it.ID)
	dst = appendStringField(dst, 2, "")
	return endAround(appendListedRest(dst, it), start, len(dst), size)
}
