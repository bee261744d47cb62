package thrift

import (
	"encoding/binary"
	"iter"
)

// Item is one item that get has returned.
type Item struct {
	Data []byte
	ID   int64 // names the open read; 0: the item is gone from the queue
	// Deliveries is how often the item has been delivered, this time included, as far as that counts.
	Deliveries int32
	Key        []byte // of the producer's choice; nil if the item has none
	// Queue is the queue that a get_any has taken the item from; nil in other replies.
	Queue []byte
}

// ItemList is the list of items in a reply to get, as it lies in the frame. It is a value: a copy
// stays where it is while the original is read. The zero ItemList is empty.
type ItemList struct {
	count int
	data  []byte // structs, checked by DecodeReply
}

// Len returns how many items are left.
func (l ItemList) Len() int { return l.count }

// Next removes the first item and returns it, or false if none is left. Its data aliases the frame.
func (l *ItemList) Next() (it Item, ok bool) {
	if l.count == 0 {
		return Item{}, false
	}
	c := cursor{rest: l.data}
	it = c.item()
	l.data = c.rest
	l.count--
	return it, true
}

// All yields the items in order. It leaves the list as it is.
func (l ItemList) All() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		rest := l
		for it, ok := rest.Next(); ok && yield(it); it, ok = rest.Next() {
		}
	}
}

// itemList reads a list of Item structs.
func (c *cursor) itemList() ItemList {
	count, data := c.structs(false)
	return ItemList{count: count, data: data}
}

// structs reads a list of Item structs, or of Listed structs. It returns how many there are, and where they lie.
func (c *cursor) structs(listed bool) (count int, data []byte) {
	if c.byte() != typeStruct {
		c.noElements()
		return 0, nil
	}
	count = c.count(1)
	all := c.rest
	for i := 0; i < count && c.failed == nil; i++ {
		switch size := plainItem(c.rest); {
		case listed:
			c.listed()
		case size > 0:
			c.rest = c.rest[size:]
		default:
			c.item()
		}
	}
	if c.failed != nil {
		return 0, nil
	}
	return count, all[:len(all)-len(c.rest)]
}

// Fields of the struct Item.
const (
	itemDataField = 1<<8 | typeString
	itemIDField   = 2<<8 | typeI64
	itemSeenField = 3<<8 | typeI32
	itemKeyField  = 4<<8 | typeString
	itemFromField = 5<<8 | typeString
)

// item reads an Item struct.
func (c *cursor) item() (it Item) {
	it.Deliveries = 1
	if size := plainItem(c.rest); size > 0 {
		b := c.rest[:size]
		it.Data = b[dataSize : size-plainRest]
		it.ID = int64(binary.BigEndian.Uint64(b[size-plainRest+3:]))
		c.rest = c.rest[size:]
		return it
	}
	for f := c.field(); f != 0; f = c.field() {
		switch f {
		case itemDataField:
			it.Data = c.string()
		case itemIDField:
			it.ID = c.i64()
		case itemSeenField:
			it.Deliveries = max(c.i32(), 1)
		case itemKeyField:
			it.Key = c.string()
		case itemFromField:
			it.Queue = c.string()
		default:
			c.skip(byte(f), 3)
		}
	}
	return it
}

// What a plain item, of data and an id, takes besides its data.
const (
	dataSize  = 3 + 4     // the field with the data, up to the data
	plainRest = 3 + 8 + 1 // the field with the id, and the end of the struct
)

// plainItem returns the size of the Item struct at the start of b if that has data, an id and nothing else, as most
// have. It returns 0 for any other.
func plainItem(b []byte) int {
	if len(b) < dataSize+plainRest || b[0] != typeString || b[1] != 0 || b[2] != 1 {
		return 0
	}
	size := uint64(binary.BigEndian.Uint32(b[3:])) + dataSize + plainRest
	if size > uint64(len(b)) {
		return 0
	}
	rest := b[size-plainRest : size]
	if rest[0] != typeI64 || rest[1] != 0 || rest[2] != 2 || rest[plainRest-1] != typeStop {
		return 0
	}
	return int(size)
}

// ListedList is the list of items in a reply to browse, as it lies in the frame. It is a value: a copy stays
// where it is while the original is read. The zero ListedList is empty.
type ListedList struct {
	count int
	data  []byte // structs, checked by DecodeReply
}

// Len returns how many items are left.
func (l ListedList) Len() int { return l.count }

// All yields the items in order, which alias the frame. It leaves the list as it is.
func (l ListedList) All() iter.Seq[Listed] {
	return func(yield func(Listed) bool) {
		c := cursor{rest: l.data}
		for range l.count {
			if !yield(c.listed()) {
				return
			}
		}
	}
}

// listedList reads a list of Listed structs.
func (c *cursor) listedList() ListedList {
	count, data := c.structs(true)
	return ListedList{count: count, data: data}
}

// listed reads a Listed struct.
func (c *cursor) listed() (it Listed) {
	for f := c.field(); f != 0; f = c.field() {
		switch f {
		case 1<<8 | typeI64:
			it.ID = c.i64()
		case 2<<8 | typeString:
			it.Data = c.string()
		case 3<<8 | typeString:
			it.Key = c.string()
		case 4<<8 | typeI32:
			it.Deliveries = c.i32()
		case 5<<8 | typeI64:
			it.Added = c.i64()
		case 6<<8 | typeI64:
			it.Expires = c.i64()
		case 7<<8 | typeI64:
			it.Due = c.i64()
		case 8<<8 | typeString:
			it.From = c.string()
		case 9<<8 | typeString:
			it.Why = c.string()
		default:
			c.skip(byte(f), 3)
		}
	}
	return it
}
