package thrift

import (
	"encoding/binary"
	"slices"
)

// The reply to get is built in steps, as items come. Nothing in it but its length and the number of
// items depends on what follows, so each item is copied once.
//
//	start := len(dst)
//	dst = BeginItems(dst, call)
//	dst = AppendItem(dst, &item) // for each item
//	dst = EndItems(dst, start, count)
//
// Until EndItems the frame is of no use to a client: keep it back, or cut dst to start and append
// an exception instead. Other bytes of dst may come and go before start.

// ItemOverhead is what AppendItem appends besides the data, the key and the queue at most, in bytes. A frame
// cannot exceed 2 GiB; the common client libraries refuse one of more than 16,384,000 bytes.
const ItemOverhead = 3 + 4 + 3 + 8 + 3 + 4 + 3 + 4 + 3 + 4 + 1

// BeginItems appends the start of a reply to get: of a list of no items yet.
func BeginItems(dst []byte, call Call) []byte {
	dst = appendField(beginReply(dst, call), 0, typeList)
	return append(dst, typeStruct, 0, 0, 0, 0)
}

// AppendItem appends an item. What it does not have is left out, and so is its first delivery.
func AppendItem(dst []byte, it *Item) []byte {
	dst = slices.Grow(dst, len(it.Data)+len(it.Key)+len(it.Queue)+ItemOverhead)
	dst = appendStringField(dst, 1, it.Data)
	if it.Deliveries > 1 || len(it.Key)+len(it.Queue) > 0 {
		return appendItemRest(dst, it)
	}
	return append(appendI64Field(dst, 2, it.ID), typeStop)
}

// appendItemRest appends what follows the data of an item.
func appendItemRest(dst []byte, it *Item) []byte {
	dst = appendI64Field(dst, 2, it.ID)
	if it.Deliveries > 1 {
		dst = appendI32Field(dst, 3, it.Deliveries)
	}
	if len(it.Key) > 0 {
		dst = appendStringField(dst, 4, it.Key)
	}
	if len(it.Queue) > 0 {
		dst = appendStringField(dst, 5, it.Queue)
	}
	return append(dst, typeStop)
}

// AppendItemAround appends what comes in front of the data, of size bytes, in the reply to get_any that has one item.
// It returns what comes behind the data. It does not look at it.Data.
func AppendItemAround(dst []byte, call Call, it *Item, size int) (front []byte, behind string) {
	start := len(dst)
	dst = BeginItems(dst, call)
	dst = appendStringField(dst, 1, "")
	return endAround(appendItemRest(dst, it), start, len(dst), size)
}

// endAround ends the reply that begins at offset start and has one struct in a list. At offset at, behind the length of
// a string, it lacks size bytes.
func endAround(dst []byte, start, at, size int) (front []byte, behind string) {
	dst = EndItems(dst, start, 1)
	binary.BigEndian.PutUint32(dst[at-4:], uint32(size))
	binary.BigEndian.PutUint32(dst[start:], binary.BigEndian.Uint32(dst[start:])+uint32(size))
	return dst[:at], string(dst[at:])
}

// EndItems ends the reply whose BeginItems began at offset start, and notes its length and that it
// has count items. It panics if the frame is larger than 2 GiB.
func EndItems(dst []byte, start, count int) []byte {
	binary.BigEndian.PutUint32(dst[itemCount(dst, start):], uint32(count))
	return endStruct(dst, start)
}

// SetItemIDs gives ids to the first items of the reply whose BeginItems began at offset start of b. They count from 1
// to the largest that an int64 holds. It is for a caller that knows the ids only once it has the items.
func SetItemIDs(b []byte, start int, ids []uint64) {
	at := itemCount(b, start) + 4
	for _, id := range ids {
		at += 3 // the type and the number of the field with the data
		at += 4 + int(binary.BigEndian.Uint32(b[at:]))
		at += 3 // those of the field with the id
		binary.BigEndian.PutUint64(b[at:], id)
		at += 8
		for ; b[at] != typeStop; at += 3 + 4 { // those with the deliveries, the key and the queue
			if b[at] == typeString {
				at += int(binary.BigEndian.Uint32(b[at+3:]))
			}
		}
		at++
	}
}

// itemCount is the offset in b of the number of items of the reply that begins at start.
func itemCount(b []byte, start int) int {
	name := start + frameHeaderSize
	if b[name] == typeStop {
		name++ // it is a ResponseHeader
	}
	name += 4
	const nameToCount = 4 + 4 + 3 + 1 // name length, sequence id, field, element type
	return name + nameToCount + int(binary.BigEndian.Uint32(b[name:]))
}
