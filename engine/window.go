package engine

// window is the part of a queue that lies in memory: a FIFO of stored items in a list of chunks.
//
// Invariants:
//
//	W1  count and bytes are those of the items between the read offset and the end of the last
//	    chunk.
//	W2  A window without items has no chunk: any number of idle queues takes no memory for items.
//	W3  Ids rise from the head to the tail.
type window struct {
	head  *chunk // oldest; nil without items
	tail  *chunk
	off   int   // read offset in head
	count int64 // items
	bytes int64 // of their bodies
}

// push copies it to the tail.
func (w *window) push(p *pool, it Item) {
	need := storedSize(len(it.Data))
	if w.tail == nil || cap(w.tail.buf)-len(w.tail.buf) < need {
		w.grow(p, need)
	}
	w.tail.buf = appendStored(w.tail.buf, it)
	w.count++
	w.bytes += int64(len(it.Data))
}

// grow adds a chunk with room for need bytes: four times the last one's size, as far as that goes.
func (w *window) grow(p *pool, need int) {
	class := 0
	if w.tail != nil {
		if class = chunkClass(cap(w.tail.buf)); class < 0 || class+1 >= chunkClasses {
			class = chunkClasses - 1
		} else {
			class++
		}
	}
	c := p.take(class, need)
	if w.tail == nil {
		w.head, w.off = c, 0
	} else {
		w.tail.next = c
	}
	w.tail = c
}

// first returns the oldest item, which must exist. Its Data is valid until the item is popped.
func (w *window) first() Item { return loadStored(w.head.buf[w.off:]) }

// pop removes the oldest item, which must be it.
func (w *window) pop(p *pool, it Item) {
	w.count--
	w.bytes -= int64(len(it.Data))
	w.off += storedSize(len(it.Data))
	if w.off < len(w.head.buf) {
		return
	}
	w.off = 0
	next := w.head.next
	p.give(w.head)
	if w.head = next; next == nil {
		w.tail = nil
	}
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
	off := w.off
	for c := w.head; c != nil; c = c.next {
		for off < len(c.buf) {
			it := loadStored(c.buf[off:])
			if !f(it) {
				return
			}
			off += storedSize(len(it.Data))
		}
		off = 0
	}
}
