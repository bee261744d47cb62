package worklist

import (
	"slices"
	"sync"
)

// List is a FIFO of values that wait for a goroutine. Its methods may be called from any goroutine, and take little time
// however many values there are: whoever adds one may hold a lock.
type List[T any] struct {
	mu     sync.Mutex
	values []*T // from head on
	head   int
	wake   chan struct{} // capacity 1
}

// New returns an empty List.
func New[T any]() *List[T] { return &List[T]{wake: make(chan struct{}, 1)} }

// Add adds a value behind the others.
func (l *List[T]) Add(value *T) {
	l.mu.Lock()
	l.values = append(l.values, value)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // a wake-up that is still pending is enough
	}
}

// Take takes out the value that has waited longest, and returns it; nil if there is none.
func (l *List[T]) Take() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head == len(l.values) {
		return nil
	}
	value := l.values[l.head]
	l.values[l.head] = nil
	if l.head++; l.head > len(l.values)/2 { // what is moved is less than what was taken since
		l.values = slices.Delete(l.values, 0, l.head)
		l.head = 0
	}
	return value
}

// Work has handle handle the values, one after the other, until stop is closed.
func (l *List[T]) Work(stop <-chan struct{}, handle func(*T)) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if value := l.Take(); value != nil {
			handle(value)
			continue
		}
		select {
		case <-stop:
			return
		case <-l.wake:
		}
	}
}
