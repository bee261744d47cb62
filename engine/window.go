package engine

import "encoding/binary"

// window is the part of a queue that lies in memory: a FIFO of item images in a list of chunks.
// The ids of a chunk's items rise by one from its first; where they do not, a gap stands before the
// next image:
//
//	1     0x80, which is the format of no image
//	1-10  how many ids are left out, at least one, as a uvarint
//
// Live queues have no gaps: items leave at the head. A restart makes them, where items that were
// removed lay between items that were not.
//
// Invariants:
//
//	W1  count, bytes and expiring are those of the items between the read offset and the end of the
//	    last chunk.
//	W2  A window without items has no chunk: any number of idle queues takes no memory for items.
//	W3  Ids rise from the head to the tail; what follows a gap in a chunk is an image.
//	W4  firstID is the id of the oldest item; nextID follows that of the newest.
type window struct {
	head     *chunk // oldest; nil without items
	tail     *chunk
	off      int // of the oldest item's image in head
	firstID  uint64
	nextID   uint64
	count    int64 // items
	bytes    int64 // of their bodies
	expiring int64 // items that have an expiry of their own
}

const (
	gapFormat  = 0x80
	maxGapSize = 1 + binary.MaxVarintLen64 // bytes
)

// push copies it, whose id is above those of all items there, to the tail.
func (w *window) push(p *pool, it Item) {
	need := imageSize(it)
	if w.tail == nil || it.ID != w.nextID || cap(w.tail.buf)-len(w.tail.buf) < need {
		w.makeRoom(p, it.ID, need)
	}
	w.tail.buf = appendImage(w.tail.buf, it)
	w.nextID = it.ID + 1
	w.account(it, 1)
}

// extend is push of an item that follows the newest one, if the tail has room for it. It reports
// whether it had; if not, nothing has changed.
func (w *window) extend(data []byte, flags uint32, added, expiry Time) bool {
	c := w.tail
	if cap(c.buf)-len(c.buf) < sizeOfImage(len(data), flags, expiry) {
		return false
	}
	c.buf = appendFields(c.buf, data, flags, added, expiry)
	w.nextID++
	w.count++
	w.bytes += int64(len(data))
	if expiry != 0 {
		w.expiring++
	}
	return true
}

// makeRoom makes the tail a place for an image of need bytes of item id.
func (w *window) makeRoom(p *pool, id uint64, need int) {
	if w.tail == nil || cap(w.tail.buf)-len(w.tail.buf) < maxGapSize+need {
		w.grow(p, id, need)
		return
	}
	w.tail.buf = append(w.tail.buf, gapFormat)
	w.tail.buf = binary.AppendUvarint(w.tail.buf, id-w.nextID)
}

// grow adds a chunk that begins with item id and has room for need bytes: four times the last one's
// size, as far as that goes.
func (w *window) grow(p *pool, id uint64, need int) {
	class := 0
	if w.tail != nil {
		if class = chunkClass(cap(w.tail.buf)); class < 0 || class+1 >= chunkClasses {
			class = chunkClasses - 1
		} else {
			class++
		}
	}
	c := p.take(class, need)
	c.firstID = id
	if w.tail == nil {
		w.head, w.off, w.firstID = c, 0, id
	} else {
		w.tail.next = c
	}
	w.tail = c
}

// first returns the oldest item, which must exist. Its Data is valid until the item is popped.
func (w *window) first() Item {
	it, _ := loadItem(w.head.buf[w.off:], w.firstID)
	return it
}

// loadItem decodes the image at the start of b, which is that of item id, and returns its size.
func loadItem(b []byte, id uint64) (it Item, n int) {
	it, n, ok := parseImage(b)
	if !ok {
		panic(invariant("no image of item %d: % .32x", id, b))
	}
	it.ID = id
	return it, n
}

// pop removes the oldest item, which must be it.
func (w *window) pop(p *pool, it Item) {
	w.account(it, -1)
	w.firstID++
	w.off += imageSize(it)
	if w.off < len(w.head.buf) {
		if w.head.buf[w.off] == gapFormat {
			n, size := loadGap(w.head.buf[w.off:])
			w.firstID += n
			w.off += size
		}
		return
	}
	w.off = 0
	next := w.head.next
	p.give(w.head)
	if w.head = next; next == nil {
		w.tail = nil
		return
	}
	w.firstID = next.firstID
}

// account adds n times it to what the window counts.
func (w *window) account(it Item, n int64) {
	w.count += n
	w.bytes += n * int64(len(it.Data))
	if it.Expiry != 0 {
		w.expiring += n
	}
}

// loadGap decodes the gap at the start of b: how many ids are left out, and its size in bytes.
func loadGap(b []byte) (n uint64, size int) {
	n, size = binary.Uvarint(b[1:])
	return n, 1 + size
}

// clear removes all items and gives every chunk back.
func (w *window) clear(p *pool) {
	for c := w.head; c != nil; {
		next := c.next
		p.give(c)
		c = next
	}
	*w = window{}
}

// each calls f for every item, oldest first, until f returns false. Data is valid during the call.
func (w *window) each(f func(Item) bool) {
	off, id := w.off, w.firstID
	for c := w.head; c != nil; c = c.next {
		if c != w.head {
			off, id = 0, c.firstID
		}
		for off < len(c.buf) {
			if c.buf[off] == gapFormat {
				n, size := loadGap(c.buf[off:])
				id += n
				off += size
			}
			it, size := loadItem(c.buf[off:], id)
			if !f(it) {
				return
			}
			id++
			off += size
		}
	}
}
