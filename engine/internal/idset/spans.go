package idset

import "iter"

// Spans finds values by ids in their ranges. A look passes over many at once if ranges of values that were added one
// after the other lie close to each other. The zero Spans is empty.
type Spans[T any] struct {
	ranges []Range
	values []T     // by the places of their ranges
	groups []Range // each has the ranges of so many places
}

// groupSize is how many values are in a group.
const groupSize = 64

// Add adds a value.
func (s *Spans[T]) Add(ids Range, value T) {
	if len(s.ranges)%groupSize == 0 {
		s.groups = append(s.groups, ids)
	}
	g := &s.groups[len(s.groups)-1]
	g.First, g.Last = min(g.First, ids.First), max(g.Last, ids.Last)
	s.ranges, s.values = append(s.ranges, ids), append(s.values, value)
}

// Of yields the values whose ranges have ids of within, in the order in which they were added. The caller may make
// within smaller meanwhile.
func (s *Spans[T]) Of(within *Range) iter.Seq[T] {
	return func(yield func(T) bool) {
		for g, all := range s.groups {
			if !all.meets(*within) {
				continue
			}
			for i := g * groupSize; i < min((g+1)*groupSize, len(s.ranges)); i++ {
				if s.ranges[i].meets(*within) && !yield(s.values[i]) {
					return
				}
			}
		}
	}
}

// DropIf takes out the values of which gone says so.
func (s *Spans[T]) DropIf(gone func(T) bool) {
	ranges, values := s.ranges, s.values
	s.ranges, s.values, s.groups = ranges[:0], values[:0], s.groups[:0]
	for i, value := range values {
		if !gone(value) {
			s.Add(ranges[i], value)
		}
	}
	clear(values[len(s.values):])
}
