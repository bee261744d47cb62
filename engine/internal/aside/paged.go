package aside

import "unsafe"

const (
	pageShift = 8
	pageSize  = 1 << pageShift // elements
)

// paged is a list that grows and shrinks at its end, in pages: no operation copies more than one. The
// first page grows by doubling, so that a short list takes little. It stays when the list is empty.
type paged[T any] struct {
	pages [][]T
	count int
	spare []T // an empty page; nil if there is none
}

func (p *paged[T]) at(i uint32) *T { return &p.pages[i>>pageShift][i&(pageSize-1)] }

// push adds v at the end.
func (p *paged[T]) push(v T) {
	last := p.count >> pageShift
	if last == len(p.pages) {
		page := p.spare
		p.spare = nil
		if page == nil && last > 0 {
			page = make([]T, 0, pageSize)
		}
		p.pages = append(p.pages, page)
	}
	p.pages[last] = append(p.pages[last], v)
	p.count++
}

// pop removes the last element and returns it.
func (p *paged[T]) pop() T {
	last := len(p.pages) - 1
	page := p.pages[last]
	n := len(page) - 1
	v := page[n]
	p.count--
	switch {
	case n > 0:
		p.pages[last] = page[:n]
	case last == 0:
		p.pages[0], p.spare = page[:0], nil
	default:
		p.pages[last] = nil
		p.pages, p.spare = p.pages[:last], page[:0]
	}
	return v
}

// memory is how many bytes the list takes.
func (p *paged[T]) memory() int64 {
	if len(p.pages) == 0 {
		return 0
	}
	var v T
	elements := cap(p.pages[0]) + (len(p.pages)-1)*pageSize + cap(p.spare)
	return int64(elements)*int64(unsafe.Sizeof(v)) + int64(cap(p.pages))*int64(unsafe.Sizeof(p.spare))
}
