package worklist

import "sync"

// Set is a set of values that a goroutine looks at now and then. Its methods may be called from any goroutine, and take
// little time, but for All: whoever adds or removes a value may hold a lock. The zero Set is empty.
type Set[T any] struct {
	mu     sync.Mutex
	values map[*T]struct{}
}

// Add takes a value in, if it is not there.
func (s *Set[T]) Add(value *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = make(map[*T]struct{})
	}
	s.values[value] = struct{}{}
}

// Remove takes a value out, if it is there.
func (s *Set[T]) Remove(value *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, value)
}

// allPiece is how many values All copies before it lets others have the mutex: they may have locked something else.
const allPiece = 4096

// All returns the values, those included that are there as long as it runs. Between two pieces of many it calls pause.
func (s *Set[T]) All(pause func()) (all []*T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all = make([]*T, 0, len(s.values))
	for value := range s.values { // it may change between two pieces
		if all = append(all, value); len(all)%allPiece == 0 {
			s.mu.Unlock()
			pause()
			s.mu.Lock()
		}
	}
	return all
}
