package thrift

import "iter"

// Item is one item that get has returned.
type Item struct {
	Data []byte
	ID   int64 // names the open read; 0: the item is gone from the queue
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
	if c.byte() != typeStruct {
		c.noElements()
		return ItemList{}
	}
	count := c.count(1)
	all := c.rest
	for i := 0; i < count && c.failed == nil; i++ {
		c.item()
	}
	if c.failed != nil {
		return ItemList{}
	}
	return ItemList{count: count, data: all[:len(all)-len(c.rest)]}
}

// Fields of the struct Item.
const (
	itemDataField = 1<<8 | typeString
	itemIDField   = 2<<8 | typeI64
)

// item reads an Item struct.
func (c *cursor) item() (it Item) {
	for f := c.field(); f != 0; f = c.field() {
		switch f {
		case itemDataField:
			it.Data = c.string()
		case itemIDField:
			it.ID = c.i64()
		default:
			c.skip(byte(f), 3)
		}
	}
	return it
}
