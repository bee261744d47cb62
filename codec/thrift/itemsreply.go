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
//	dst = AppendItem(dst, data, id) // for each item
//	dst = EndItems(dst, start, count)
//
// Until EndItems the frame is of no use to a client: keep it back, or cut dst to start and append
// an exception instead. Other bytes of dst may come and go before start.

// ItemOverhead is what AppendItem appends besides the data, in bytes. A frame cannot exceed 2 GiB;
// the common client libraries refuse one of more than 16,384,000 bytes.
const ItemOverhead = 3 + 4 + 3 + 8 + 1

// BeginItems appends the start of a reply to get: of a list of no items yet.
func BeginItems(dst []byte, call Call) []byte {
	dst = appendField(beginReply(dst, call), 0, typeList)
	return append(dst, typeStruct, 0, 0, 0, 0)
}

// AppendItem appends an item. Its id is 0 unless it is an open read, to be confirmed or aborted by
// that id.
func AppendItem(dst, data []byte, id int64) []byte {
	dst = slices.Grow(dst, len(data)+ItemOverhead)
	dst = appendStringField(dst, 1, data)
	dst = appendI64Field(dst, 2, id)
	return append(dst, typeStop)
}

// EndItems ends the reply whose BeginItems began at offset start, and notes its length and that it
// has count items. It panics if the frame is larger than 2 GiB.
func EndItems(dst []byte, start, count int) []byte {
	binary.BigEndian.PutUint32(dst[itemCount(dst, start):], uint32(count))
	return endStruct(dst, start)
}

// SetItemIDs gives the first items of the reply whose BeginItems began at offset start of b ids of
// their own, for a caller that knows them only once it has the items.
func SetItemIDs(b []byte, start int, ids []int64) {
	at := itemCount(b, start) + 4
	for _, id := range ids {
		at += 3 // the type and the number of the field with the data
		at += 4 + int(binary.BigEndian.Uint32(b[at:]))
		at += 3 // those of the field with the id
		binary.BigEndian.PutUint64(b[at:], uint64(id))
		at += 8 + 1
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
