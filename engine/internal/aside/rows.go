package aside

import "unsafe"

const (
	rowShift = 8
	rowSize  = 1 << rowShift // elements
)

// rows is a list that grows and shrinks at its end, in rows of rowSize elements: no operation copies more than one row.
// The first row grows by doubling, so that a short list takes little. It stays when the list is empty.
type rows[T any] struct {
	rows  [][]T
	count int
	spare []T // an empty row; nil if there is none
}

func (r *rows[T]) at(i uint32) *T { return &r.rows[i>>rowShift][i&(rowSize-1)] }

// push adds v at the end.
func (r *rows[T]) push(v T) {
	last := r.count >> rowShift
	if last == len(r.rows) {
		row := r.spare
		r.spare = nil
		if row == nil && last > 0 {
			row = make([]T, 0, rowSize)
		}
		r.rows = append(r.rows, row)
	}
	r.rows[last] = append(r.rows[last], v)
	r.count++
}

// pop removes the last element and returns it.
func (r *rows[T]) pop() T {
	last := len(r.rows) - 1
	row := r.rows[last]
	n := len(row) - 1
	v := row[n]
	r.count--
	switch {
	case n > 0:
		r.rows[last] = row[:n]
	case last == 0:
		r.rows[0], r.spare = row[:0], nil
	default:
		r.rows[last] = nil
		r.rows, r.spare = r.rows[:last], row[:0]
	}
	return v
}

// memory is how many bytes the list takes.
func (r *rows[T]) memory() int64 {
	if len(r.rows) == 0 {
		return 0
	}
	var v T
	elements := cap(r.rows[0]) + (len(r.rows)-1)*rowSize + cap(r.spare)
	return int64(elements)*int64(unsafe.Sizeof(v)) + int64(cap(r.rows))*int64(unsafe.Sizeof(r.spare))
}
