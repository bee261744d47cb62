package engine

import (
	"encoding/binary"
	"fmt"
)

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
//	W4  firstID is the id of the oldest item; nextID follows that of the newest, or is zero: then
//	    the tail is sealed, and what comes next begins another chunk.
//	W5  The counts of the chunks behind the head add up to those of the window less the head's.
type window struct {
	head    *chunk // oldest; nil without items
	tail    *chunk
	off     int // of the oldest item's image in head
	firstID uint64
	nextID  uint64
	tally
}

// tally is what there is of some items.
type tally struct {
	count    int64 // items
	bytes    int64 // of their bodies
	expiring int64 // items that have an expiry of their own
}

// account adds n times it.
func (t *tally) account(it Item, n int64) {
	t.count += n
	t.bytes += n * int64(len(it.Data))
	if it.Expiry != 0 {
		t.expiring += n
	}
}

// add adds n times u.
func (t *tally) add(u tally, n int64) {
	t.count += n * u.count
	t.bytes += n * u.bytes
	t.expiring += n * u.expiring
}

const (
	gapFormat  = 0x80
	maxGapSize = 1 + binary.MaxVarintLen64 // bytes
)

// push copies it, whose id is above those of all items there, to the tail.
// The queue may hold limit bytes of items in memory: chunks stay far smaller than that.
func (w *window) push(p *pool, it Item, limit int64) {
	need := imageSize(it)
	c := w.tail
	if c == nil || it.ID != w.nextID || cap(c.buf)-len(c.buf) < need {
		w.makeRoom(p, it.ID, need, limit)
		c = w.tail
	}
	c.buf = appendImage(c.buf, it)
	c.account(it, 1)
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
func (w *window) makeRoom(p *pool, id uint64, need int, limit int64) {
	if w.tail == nil || w.nextID == 0 || cap(w.tail.buf)-len(w.tail.buf) < maxGapSize+need {
		w.grow(p, id, need, limit)
		return
	}
	w.tail.buf = append(w.tail.buf, gapFormat)
	w.tail.buf = binary.AppendUvarint(w.tail.buf, id-w.nextID)
}

// grow adds a chunk that begins with item id and has room for need bytes.
func (w *window) grow(p *pool, id uint64, need int, limit int64) {
	c := p.take(w.nextClass(limit), need)
	c.firstID = id
	w.link(c)
}

// nextClass is the class of the next chunk: four times the last one's size, as far as that goes, and as
// it is no more than an eighth of limit.
func (w *window) nextClass(limit int64) (class int) {
	if w.tail != nil {
		if class = chunkClass(cap(w.tail.buf)); class < 0 || class+1 >= chunkClasses {
			class = chunkClasses - 1
		} else {
			class++
		}
	}
	for class > 0 && int64(chunkClassSize(class)) > limit/8 {
		class--
	}
	return class
}

// growth is how many bytes of memory a push of the item that follows the newest one takes, if its image
// needs so many.
func (w *window) growth(need int, limit int64) int64 {
	if w.tail != nil && w.nextID != 0 && cap(w.tail.buf)-len(w.tail.buf) >= need {
		return 0
	}
	return int64(chunkSize(w.nextClass(limit), need))
}

// link makes c the tail, without counting its items.
func (w *window) link(c *chunk) {
	if w.tail == nil {
		w.head, w.off, w.firstID = c, c.off, c.firstID
	} else {
		w.tail.lastID = w.lastID()
		w.tail.next = c
	}
	w.tail = c
}

// lastID returns the id of the newest item, which must exist.
func (w *window) lastID() uint64 {
	if w.nextID == 0 {
		return w.tail.lastID
	}
	return w.nextID - 1
}

// attach adds c, whose items are behind those there and are counted in c, as the tail, and seals
// it.
func (w *window) attach(c *chunk) {
	w.link(c)
	w.add(c.tally, 1)
	w.nextID = 0
}

// seal has the next push begin a chunk of its own.
func (w *window) seal() {
	if w.tail != nil {
		w.tail.lastID, w.nextID = w.lastID(), 0
	}
}

// join moves all items of v, which are behind those of w, to the end of w.
func (w *window) join(v *window) {
	switch {
	case v.head == nil:
		return
	case w.head == nil:
		*w, *v = *v, window{}
		return
	}
	v.cutHead()
	w.tail.lastID = w.lastID()
	w.tail.next, w.tail = v.head, v.tail
	w.add(v.tally, 1)
	w.nextID = v.nextID
	*v = window{}
}

// split moves the chunks whose last item is past id to a window of their own.
func (w *window) split(id uint64) (v window) {
	if w.head == nil || w.lastID() <= id {
		return v
	}
	w.tail.lastID = w.lastID()
	if w.head.lastID > id {
		v, *w = *w, window{}
		return v
	}
	last := w.head
	for last.next.lastID <= id {
		last = last.next
	}
	v = window{head: last.next, tail: w.tail, nextID: w.nextID}
	v.off, v.firstID = v.head.off, v.head.firstID
	for c := v.head; c != nil; c = c.next {
		v.add(c.tally, 1)
	}
	w.add(v.tally, -1)
	w.tail, last.next, w.nextID = last, nil, 0
	return v
}

// cutHead has the head chunk itself say where it begins, and count what is left in it.
func (w *window) cutHead() {
	c := w.head
	if c.off == w.off {
		return
	}
	c.off, c.firstID = w.off, w.firstID
	c.tally = w.tally
	for d := c.next; d != nil; d = d.next {
		c.add(d.tally, -1)
	}
}

// detach takes the head out, with its items counted in it.
func (w *window) detach() *chunk {
	c := w.head
	if c == w.tail {
		c.lastID = w.lastID()
	}
	w.cutHead()
	w.add(c.tally, -1)
	if w.head, w.off = c.next, 0; w.head == nil {
		w.tail = nil
	} else {
		w.off, w.firstID = w.head.off, w.head.firstID
	}
	c.next = nil
	return c
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
		panic(fmt.Sprintf("broken invariant: no image of item %d: % .32x", id, b))
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
	w.off, w.firstID = next.off, next.firstID
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
			off, id = c.off, c.firstID
		}
		if !eachImage(c.buf[off:], id, f) {
			return
		}
	}
}

// eachImage calls f for every item of b, which begins with the image of item id, until f returns
// false; it then returns false too.
func eachImage(b []byte, id uint64, f func(Item) bool) bool {
	for len(b) > 0 {
		if b[0] == gapFormat {
			n, size := loadGap(b)
			id += n
			b = b[size:]
		}
		it, size := loadItem(b, id)
		if !f(it) {
			return false
		}
		id++
		b = b[size:]
	}
	return true
}

// endID is the id of the newest item, or zero.
func (w *window) endID() uint64 {
	if w.count == 0 {
		return 0
	}
	return w.lastID()
}

// giveChunk gives the oldest chunk back to the pool, and reports whether there was one. The window is
// of no use otherwise any more.
func (w *window) giveChunk(p *pool) bool {
	c := w.head
	if c == nil {
		return false
	}
	w.head = c.next
	p.give(c)
	return true
}

// verify returns an error that names the first of the invariants W1 to W4 that does not hold.
func (w *window) verify() (err error) {
	var n tally
	last := uint64(0)
	w.each(func(it Item) bool {
		if it.ID <= last {
			err = fmt.Errorf("W3: item %d follows item %d", it.ID, last)
		}
		last = it.ID
		n.account(it, 1)
		return err == nil
	})
	switch {
	case err != nil:
		return err
	case n != w.tally:
		return fmt.Errorf("W1: window counts %+v, has %+v", w.tally, n)
	case w.count == 0 && (w.head != nil || w.tail != nil):
		return fmt.Errorf("W2: an empty window holds a chunk")
	case w.count > 0 && last != w.lastID():
		return fmt.Errorf("W4: the newest item in the window is %d, the next is %d", last, w.nextID)
	}
	return nil
}
