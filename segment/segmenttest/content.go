package segmenttest

import (
	"bytes"
	"io"
	"maps"
)

const (
	pageSize   = 4096 // bytes; the unit of copying
	sectorSize = 512  // bytes; the unit a disk writes whole or not at all
)

// zeros is what an absent page reads as.
var zeros [pageSize]byte

// page holds pageSize bytes of a file. Only contents of the table that owns it may change it.
type page struct {
	owner *pageTable
	data  [pageSize]byte
}

// pageTable maps page numbers to pages. An absent page is zero.
type pageTable struct {
	pages map[int64]*page
}

// content is the bytes of a file, stored sparsely. The zero value is an empty file. Copy it only
// with share, which makes both copies clone table and pages before they change them.
type content struct {
	size   int64      // bytes
	table  *pageTable // nil while no page was ever written
	shared bool       // table also belongs to another content and must not be changed
}

// share returns a copy in constant time. Both copies may then be changed, each under its own lock.
func (c *content) share() content {
	c.shared = true
	return *c
}

// readAt fills p from offset off and returns io.EOF if the file ends first.
func (c *content) readAt(p []byte, off int64) (int, error) {
	n := int(max(0, min(int64(len(p)), c.size-off)))
	for done := 0; done < n; {
		number, at := (off+int64(done))/pageSize, (off+int64(done))%pageSize
		src := zeros[at:]
		if c.table != nil {
			if pg := c.table.pages[number]; pg != nil {
				src = pg.data[at:]
			}
		}
		done += copy(p[done:n], src)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// bytes returns a copy of the whole content.
func (c *content) bytes() []byte {
	p := make([]byte, c.size)
	c.readAt(p, 0) // of exactly size bytes, so neither short nor at the end
	return p
}

// nextData returns the offset from off on before which the file has no page.
func (c *content) nextData(off int64) int64 {
	for number := off / pageSize; number*pageSize < c.size; number++ {
		if c.has(number) {
			return max(off, number*pageSize)
		}
	}
	return max(off, c.size)
}

// write puts p at offset off and grows the file if it must. Zeros over an absent page stay absent.
func (c *content) write(p []byte, off int64) {
	for done := 0; done < len(p); {
		number, at := (off+int64(done))/pageSize, (off+int64(done))%pageSize
		part := p[done:min(len(p), done+int(pageSize-at))]
		if c.has(number) || !isZero(part) {
			copy(c.ownPage(number).data[at:], part)
		}
		done += len(part)
	}
	c.size = max(c.size, off+int64(len(p)))
}

// zero makes size bytes from offset off read as zero, within the length the file has.
func (c *content) zero(off, size int64) {
	if c.table == nil || size <= 0 {
		return
	}
	first, last := off/pageSize, (off+size-1)/pageSize
	if last-first < int64(len(c.table.pages)) {
		for number := first; number <= last; number++ {
			c.zeroPage(number, off, off+size)
		}
		return
	}
	for number := range c.table.pages { // zeroPage may give c another map; this one stays whole
		c.zeroPage(number, off, off+size)
	}
}

// zeroPage zeroes what of a page lies between two offsets in the file.
func (c *content) zeroPage(number, from, to int64) {
	start := number * pageSize
	from, to = max(from, start), min(to, start+pageSize)
	if from >= to || !c.has(number) {
		return
	}
	if to-from == pageSize {
		c.own()
		delete(c.table.pages, number)
		return
	}
	clear(c.ownPage(number).data[from-start : to-start])
}

// resize cuts or extends the file. Bytes cut off read as zero when it is extended again.
func (c *content) resize(size int64) {
	if size < c.size {
		// To the end of the last page, where a partly cut page ends.
		c.zero(size, c.size-size+pageSize)
	}
	c.size = size
}

func (c *content) has(number int64) bool {
	return c.table != nil && c.table.pages[number] != nil
}

// own makes the table c's alone.
func (c *content) own() {
	switch {
	case c.table == nil:
		c.table = &pageTable{}
	case c.shared:
		c.table = &pageTable{pages: maps.Clone(c.table.pages)}
	}
	if c.table.pages == nil {
		c.table.pages = make(map[int64]*page)
	}
	c.shared = false
}

// ownPage returns a page that only c has.
func (c *content) ownPage(number int64) *page {
	c.own()
	pg := c.table.pages[number]
	switch {
	case pg == nil:
		pg = &page{owner: c.table}
	case pg.owner != c.table:
		pg = &page{owner: c.table, data: pg.data}
	default:
		return pg
	}
	c.table.pages[number] = pg
	return pg
}

// isZero reports whether p holds zeros only.
func isZero(p []byte) bool {
	for len(p) > 0 {
		n := min(len(p), pageSize)
		if !bytes.Equal(p[:n], zeros[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}
