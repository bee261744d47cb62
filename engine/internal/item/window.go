package item

import (
	"encoding/binary"
	"fmt"
)

// Window is the part of a queue that lies in memory: a FIFO of item images in a list of chunks.
// The ids of a chunk's items rise by one from its first; where they do not, a gap stands before the
// next image:
//
//	1     0x80, which is the format of no image
//	1-10  how many ids are left out, at least one, as a uvarint
//
// A restart makes gaps, where items that were removed lay between items that were not. An item that is cut
// out in the middle leaves a hole in the place of its image, which still stands for its id:
//
//	1     0x81, which is the format of no image
//	4     size of the hole in bytes, these included
//	...   what was there
//
// Invariants:
//
//	W1  count, bytes and expiring are those of the items between the read offset and the end of the
//	    last chunk.
//	W2  A window without items has no chunk: any number of idle queues takes no memory for items.
//	W3  Ids rise from the head to the tail. Each chunk begins with an item, and what follows a gap in a chunk is
//	    an image or a hole. Holes may be the last of a chunk.
//	W4  firstID is the id of the oldest item; nextID follows that of the newest, or of a hole behind it, or is
//	    zero: then the tail is sealed, and what comes next begins another chunk.
//	W5  The counts of the chunks behind the head add up to those of the window less the head's.
type Window struct {
	head    *Chunk // oldest; nil without items
	Tail    *Chunk
	off     int // of the oldest item's image in head
	FirstID uint64
	nextID  uint64
	Tally
}

// Tally is what there is of some items.
type Tally struct {
	Count    int64 // items
	Bytes    int64 // of their bodies
	Expiring int64 // items that have an expiry of their own
}

// Account adds an item n times; it takes it away if n is -1.
func (t *Tally) Account(it *Item, n int64) {
	t.Count += n
	t.Bytes += n * int64(len(it.Data))
	if it.Expiry != 0 {
		t.Expiring += n
	}
}

// Add adds u n times; it subtracts u if n is -1.
func (t *Tally) Add(u Tally, n int64) {
	t.Count += n * u.Count
	t.Bytes += n * u.Bytes
	t.Expiring += n * u.Expiring
}

const (
	// GapFormat is the first byte of a gap, where that of an image would be.
	GapFormat  = 0x80
	holeFormat = 0x81
	maxGapSize = 1 + binary.MaxVarintLen64 // bytes
	holeHead   = 5                         // bytes, fewer than any image has
)

// Push copies an item to the tail, and returns the offset of its image in the tail's Buf. Its id is above those of all
// items there. The queue may hold limit bytes of items in memory: chunks stay far smaller than that.
func (w *Window) Push(p *Pool, it *Item, limit int64) (at int) {
	need := ImageSize(it)
	c := w.Tail
	if c == nil || it.ID != w.nextID || cap(c.Buf)-len(c.Buf) < need {
		w.makeRoom(p, it.ID, need, limit)
		c = w.Tail
	}
	at = len(c.Buf)
	if it.IsPlain() {
		c.Buf = appendFields(c.Buf, it.Data, it.Flags, it.Added, it.Expiry)
	} else {
		c.Buf, c.rich = appendRich(c.Buf, it), true
	}
	c.Account(it, 1)
	w.nextID = it.ID + 1
	w.Account(it, 1)
	return at
}

// Extend is push of an item that follows the newest one, if the tail has room for it. It reports
// whether it had; if not, nothing has changed.
func (w *Window) Extend(data []byte, flags uint32, added, expiry Time) bool {
	c := w.Tail
	if cap(c.Buf)-len(c.Buf) < sizeOfImage(len(data), flags, expiry, 0) {
		return false
	}
	c.Buf = appendFields(c.Buf, data, flags, added, expiry)
	w.nextID++
	w.Count++
	w.Bytes += int64(len(data))
	if expiry != 0 {
		w.Expiring++
	}
	return true
}

// makeRoom makes room at the tail for an image of item id, of need bytes.
func (w *Window) makeRoom(p *Pool, id uint64, need int, limit int64) {
	if w.Tail == nil || w.nextID == 0 || cap(w.Tail.Buf)-len(w.Tail.Buf) < maxGapSize+need {
		w.grow(p, id, need, limit)
		return
	}
	w.Tail.Buf = append(w.Tail.Buf, GapFormat)
	w.Tail.Buf = binary.AppendUvarint(w.Tail.Buf, id-w.nextID)
}

// grow adds a chunk that begins with item id and has room for need bytes.
func (w *Window) grow(p *Pool, id uint64, need int, limit int64) {
	c := p.Take(w.nextClass(limit), need)
	c.FirstID = id
	w.link(c)
}

// nextClass is the class of the next chunk. It has four times the last one's size, up to the largest class and to an
// eighth of limit. What others share says nothing of the queue's size.
func (w *Window) nextClass(limit int64) (class int) {
	if w.Tail != nil && w.Tail.shared == nil {
		if class = chunkClass(cap(w.Tail.Buf)); class < 0 || class+1 >= chunkClasses {
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

// Growth is how much memory, in bytes, a push takes of the item that follows the newest one. Its image has need bytes.
func (w *Window) Growth(need int, limit int64) int64 {
	if w.Tail != nil && w.nextID != 0 && cap(w.Tail.Buf)-len(w.Tail.Buf) >= need {
		return 0
	}
	return int64(chunkSize(w.nextClass(limit), need))
}

// link makes c the tail, without counting its items.
func (w *Window) link(c *Chunk) {
	if w.Tail == nil {
		w.head, w.off, w.FirstID = c, c.Off, c.FirstID
	} else {
		w.Tail.LastID = w.LastID()
		w.Tail.next = c
	}
	w.Tail = c
}

// LastID returns the id of the newest item, which must exist.
func (w *Window) LastID() uint64 {
	if w.nextID == 0 {
		return w.Tail.LastID
	}
	return w.nextID - 1
}

// Attach adds c, whose items are behind those there and are counted in c, as the tail, and seals
// it.
func (w *Window) Attach(c *Chunk) {
	w.link(c)
	w.Add(c.Tally, 1)
	w.nextID = 0
}

// Seal has the next push begin a chunk of its own.
func (w *Window) Seal() {
	if w.Tail != nil {
		w.Tail.LastID, w.nextID = w.LastID(), 0
	}
}

// Join moves all items of v, which are behind those of w, to the end of w.
func (w *Window) Join(v *Window) {
	switch {
	case v.head == nil:
		return
	case w.head == nil:
		*w, *v = *v, Window{}
		return
	}
	v.cutHead()
	w.Tail.LastID = w.LastID()
	w.Tail.next, w.Tail = v.head, v.Tail
	w.Add(v.Tally, 1)
	w.nextID = v.nextID
	*v = Window{}
}

// Split moves the chunks whose last item is past id to a window of their own.
func (w *Window) Split(id uint64) (v Window) {
	if w.head == nil || w.LastID() <= id {
		return v
	}
	w.Tail.LastID = w.LastID()
	if w.head.LastID > id {
		v, *w = *w, Window{}
		return v
	}
	last := w.head
	for last.next.LastID <= id {
		last = last.next
	}
	v = Window{head: last.next, Tail: w.Tail, nextID: w.nextID}
	v.off, v.FirstID = v.head.Off, v.head.FirstID
	for c := v.head; c != nil; c = c.next {
		v.Add(c.Tally, 1)
	}
	w.Add(v.Tally, -1)
	w.Tail, last.next, w.nextID = last, nil, 0
	return v
}

// cutHead has the head chunk itself say where it begins, and count what is left in it.
func (w *Window) cutHead() {
	c := w.head
	if c.Off == w.off {
		return
	}
	c.Off, c.FirstID = w.off, w.FirstID
	c.Tally = w.Tally
	for d := c.next; d != nil; d = d.next {
		c.Add(d.Tally, -1)
	}
}

// Detach takes the head out, with its items counted in it.
func (w *Window) Detach() *Chunk {
	c := w.head
	if c == w.Tail {
		c.LastID = w.LastID()
	}
	w.cutHead()
	w.Add(c.Tally, -1)
	if w.head, w.off = c.next, 0; w.head == nil {
		w.Tail = nil
	} else {
		w.off, w.FirstID = w.head.Off, w.head.FirstID
	}
	c.next = nil
	return c
}

// First sets it to the oldest item, which must exist. Its Data is valid until the item is popped.
func (w *Window) First(it *Item) { it.load(w.head.Buf[w.off:], w.FirstID) }

// load sets it to item id, whose image is at the start of b, and returns the size of that.
func (it *Item) load(b []byte, id uint64) (n int) {
	if n = it.parse(b); n == 0 {
		panic(fmt.Sprintf("broken invariant: no image of item %d: % .32x", id, b))
	}
	it.ID = id
	return n
}

// Pop removes the oldest item. The caller has it from First and passes it again.
func (w *Window) Pop(p *Pool, it *Item) {
	w.Account(it, -1)
	w.FirstID++
	w.off += ImageSize(it)
	if w.off < len(w.head.Buf) {
		if w.head.Buf[w.off] < GapFormat {
			return
		}
		n, size := skipped(w.head.Buf[w.off:])
		w.FirstID += n
		if w.off += size; w.off < len(w.head.Buf) {
			return
		}
	}
	w.off = 0
	next := w.head.next
	p.Give(w.head)
	if w.head = next; next == nil {
		w.Tail = nil
		return
	}
	w.off, w.FirstID = next.Off, next.FirstID
}

// skipped is how many ids the gaps and holes at the start of b stand for, and how many bytes they take.
func skipped(b []byte) (ids uint64, size int) {
	for size < len(b) && b[size] >= GapFormat {
		if b[size] == holeFormat {
			ids++
			size += holeSize(b[size:])
			continue
		}
		n, gap := loadGap(b[size:])
		ids += n
		size += gap
	}
	return ids, size
}

// holeSize is how many bytes the hole at the start of b takes.
func holeSize(b []byte) int { return int(binary.LittleEndian.Uint32(b[1:])) }

// loadGap decodes the gap at the start of b: how many ids are left out, and its size in bytes.
func loadGap(b []byte) (n uint64, size int) {
	n, size = binary.Uvarint(b[1:])
	return n, 1 + size
}

// Clear removes all items and gives every chunk back.
func (w *Window) Clear(p *Pool) {
	for c := w.head; c != nil; {
		next := c.next
		p.Give(c)
		c = next
	}
	*w = Window{}
}

// Each calls f for every item, oldest first, until f returns false. Data is valid during the call.
func (w *Window) Each(f func(Item) bool) {
	off, id := w.off, w.FirstID
	for c := w.head; c != nil; c = c.next {
		if c != w.head {
			off, id = c.Off, c.FirstID
		}
		if !EachImage(c.Buf[off:], id, f) {
			return
		}
	}
}

// EachImage calls f for every item of b, which begins with the image of item id, until f returns
// false; it then returns false too.
func EachImage(b []byte, id uint64, f func(Item) bool) bool {
	for len(b) > 0 {
		if b[0] >= GapFormat {
			n, size := skipped(b)
			id += n
			if b = b[size:]; len(b) == 0 {
				break
			}
		}
		var it Item
		size := it.load(b, id)
		if !f(it) {
			return false
		}
		id++
		b = b[size:]
	}
	return true
}

// EndID is the id of the newest item, or zero.
func (w *Window) EndID() uint64 {
	if w.Count == 0 {
		return 0
	}
	return w.LastID()
}

// GiveChunk gives the oldest chunk back to the pool, and reports whether there was one. The window is
// of no use otherwise any more.
func (w *Window) GiveChunk(p *Pool) bool {
	c := w.head
	if c == nil {
		return false
	}
	w.head = c.next
	p.Give(c)
	return true
}

// Verify returns an error that names the first of the invariants W1 to W5 that does not hold.
func (w *Window) Verify() (err error) {
	if err = w.verifyChunks(); err != nil {
		return err
	}
	var n Tally
	last := uint64(0)
	w.Each(func(it Item) bool {
		if it.ID <= last {
			err = fmt.Errorf("W3: item %d follows item %d", it.ID, last)
		}
		last = it.ID
		n.Account(&it, 1)
		return err == nil
	})
	switch {
	case err != nil:
		return err
	case n != w.Tally:
		return fmt.Errorf("W1: window counts %+v, has %+v", w.Tally, n)
	case w.Count == 0 && (w.head != nil || w.Tail != nil):
		return fmt.Errorf("W2: an empty window holds a chunk")
	case w.Count > 0 && last > w.LastID():
		return fmt.Errorf("W4: the newest item in the window is %d, the next is %d", last, w.nextID)
	}
	return nil
}

// verifyChunks checks W5, and of W3 that chunks begin with items.
func (w *Window) verifyChunks() error {
	behind := w.Tally
	for c := w.head; c != nil; c = c.next {
		off, id := w.startOf(c)
		if off >= len(c.Buf) || c.Buf[off] >= GapFormat {
			return fmt.Errorf("W3: no image is at the start of the chunk of item %d", id)
		}
		var n Tally
		EachImage(c.Buf[off:], id, func(it Item) bool {
			n.Account(&it, 1)
			return true
		})
		if c != w.head && n != c.Tally {
			return fmt.Errorf("W5: the chunk of item %d counts %+v, has %+v", id, c.Tally, n)
		}
		behind.Add(n, -1)
	}
	if behind != (Tally{}) {
		return fmt.Errorf("W1: window counts %+v more than its chunks have", behind)
	}
	return nil
}

// startOf is where the first item of c is, and its id.
func (w *Window) startOf(c *Chunk) (off int, id uint64) {
	if c == w.head {
		return w.off, w.FirstID
	}
	return c.Off, c.FirstID
}
