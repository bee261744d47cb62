package item

import (
	"encoding/binary"
)

// Items in the middle of a window: they are found, passed over, and cut out, by their ids.

// From calls f for every item from id on, oldest first, until f returns false; it then returns false too.
// Data is valid during the call.
func (w *Window) From(p *Pool, id uint64, f func(Item) bool) bool {
	for c := w.head; c != nil; c = c.next {
		if w.endOf(c) < id {
			continue
		}
		off, first := w.startOf(c)
		off, first = c.seek(p, off, first, id)
		more := EachImage(c.Buf[off:], first, func(it Item) bool { return it.ID < id || f(it) })
		if !more {
			return false
		}
	}
	return true
}

// Find returns the item of that id, if it is there. Its Data is valid until it is popped or cut.
func (w *Window) Find(p *Pool, id uint64) (it Item, ok bool) {
	w.From(p, id, func(found Item) bool {
		it, ok = found, found.ID == id
		return false
	})
	return it, ok
}

// Find returns the item of that id, if it is in a chunk that is detached.
func (c *Chunk) Find(p *Pool, id uint64) (it Item, ok bool) {
	if id < c.FirstID || id > c.LastID {
		return it, false
	}
	off, first := c.seek(p, c.Off, c.FirstID, id)
	EachImage(c.Buf[off:], first, func(found Item) bool {
		it, ok = found, found.ID == id
		return found.ID < id
	})
	return it, ok
}

// Cut removes the item of that id, and reports whether it was there. It moves no other.
func (w *Window) Cut(p *Pool, id uint64) (it Item, ok bool) {
	var before *Chunk
	c := w.head
	for c != nil && w.endOf(c) < id {
		before, c = c, c.next
	}
	if c == nil {
		return it, false
	}
	off, first := w.startOf(c)
	at, next := c.seek(p, off, first, id)
	for at < len(c.Buf) {
		n, size := skipped(c.Buf[at:])
		next += n
		if at += size; next >= id || at >= len(c.Buf) {
			if next != id || at >= len(c.Buf) {
				return it, false
			}
			break
		}
		var passed Item
		size = passed.load(c.Buf[at:], next)
		at += size
		next++
	}
	if at >= len(c.Buf) {
		return it, false
	}
	size := it.load(c.Buf[at:], id)
	switch {
	case c == w.head && at == off:
		w.Pop(p, &it)
	case at == off:
		w.cutFirst(p, before, c, it)
	default:
		c.Buf[at] = holeFormat
		binary.LittleEndian.PutUint32(c.Buf[at+1:], uint32(size))
		c.holes += size
		c.Account(&it, -1)
		w.Account(&it, -1)
	}
	return it, true
}

// cutFirst removes it, the first item of c, which is behind the chunk before.
func (w *Window) cutFirst(p *Pool, before, c *Chunk, it Item) {
	w.Account(&it, -1)
	c.Account(&it, -1)
	ids, size := skipped(c.Buf[c.Off+ImageSize(&it):])
	c.FirstID += 1 + ids
	if c.Off += ImageSize(&it) + size; c.Off < len(c.Buf) {
		return
	}
	if before.next = c.next; c == w.Tail {
		w.Tail = before
		if w.nextID != 0 { // that of before is not up to date, and not needed: the next item begins a chunk
			w.nextID = 0
		}
	}
	p.Give(c)
}

// seek returns the offset and the id of an item or a hole of c from which the item of that id is not far. It starts
// from the first item, which is at off. The memory of a new index counts as memory of items.
func (c *Chunk) seek(p *Pool, off int, first, id uint64) (int, uint64) {
	if cap(c.Buf) <= indexFrom || id < first+indexPast {
		return off, first
	}
	if c.index == nil {
		c.index = newIndex(cap(c.Buf), off, first)
		p.Memory.Add(c.index.size())
	}
	x := c.index
	if x.off < off { // the walk had come less far than the pops
		x.off, x.id = off, first
	}
	for x.id <= id && x.off < len(c.Buf) && x.enter() {
		ids, size := skipped(c.Buf[x.off:])
		x.id += ids
		if x.off += size; x.off == len(c.Buf) {
			break
		}
		var it Item
		x.off += it.load(c.Buf[x.off:], x.id)
		x.id++
	}
	if at, next := x.before(id); at > off {
		return at, next
	}
	return off, first
}

// endOf is the id of the last item of c, or of a hole behind it.
func (w *Window) endOf(c *Chunk) uint64 {
	if c == w.Tail {
		return w.LastID()
	}
	return c.LastID
}

// IsRich reports whether there may be items that are not plain in c.
func (c *Chunk) IsRich() bool { return c.rich }

// Trim has c, which is detached, end with its last item.
func (c *Chunk) Trim() {
	if c.holes > 0 {
		EachImage(c.Buf[c.Off:], c.FirstID, func(it Item) bool {
			c.LastID = it.ID
			return true
		})
	}
}

// Compact returns the images of c, which is detached, without its holes. They are in dst, or those of c if it has
// none.
func (c *Chunk) Compact(dst []byte) (images []byte) {
	if c.holes == 0 {
		return c.Buf[c.Off:]
	}
	next := c.FirstID
	EachImage(c.Buf[c.Off:], c.FirstID, func(it Item) bool {
		if it.ID > next {
			dst = AppendGap(dst, it.ID-next)
		}
		dst = AppendImage(dst, &it)
		next = it.ID + 1
		return true
	})
	return dst
}

// AppendGap appends a gap for that many ids, at least one.
func AppendGap(dst []byte, ids uint64) []byte {
	return binary.AppendUvarint(append(dst, GapFormat), ids)
}
