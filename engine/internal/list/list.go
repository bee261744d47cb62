package list

// Link is a value's place in a list. A value holds one for each list that it may be in at a time; the zero
// Link is in none.
type Link[T any] struct {
	prev, next *Link[T]
	of         *T // the value; nil in no list
}

// Next returns the value behind this one, or nil at the end, and in no list.
func (l *Link[T]) Next() *T { return l.next.value() }

// Prev returns the value in front of this one, or nil at the beginning, and in no list.
func (l *Link[T]) Prev() *T { return l.prev.value() }

func (l *Link[T]) value() *T {
	if l == nil {
		return nil
	}
	return l.of
}

// List is a list of values. The zero List is empty. It must not be copied while a value is removed or
// added; a copy then takes the place of the original.
type List[T any] struct {
	head, tail *Link[T]
	count      int64
}

// First returns the first value, or nil if the list is empty.
func (l *List[T]) First() *T { return l.head.value() }

// Last returns the last value, or nil if the list is empty.
func (l *List[T]) Last() *T { return l.tail.value() }

// Len returns how many values there are.
func (l *List[T]) Len() int64 { return l.count }

// PushBack adds a value, whose Link is in no list, behind the last one.
func (l *List[T]) PushBack(link *Link[T], value *T) {
	link.prev, link.next, link.of = l.tail, nil, value
	if l.tail == nil {
		l.head = link
	} else {
		l.tail.next = link
	}
	l.tail = link
	l.count++
}

// PushFront adds a value, whose Link is in no list, in front of the first one.
func (l *List[T]) PushFront(link *Link[T], value *T) {
	link.prev, link.next, link.of = nil, l.head, value
	if l.head == nil {
		l.tail = link
	} else {
		l.head.prev = link
	}
	l.head = link
	l.count++
}

// Remove takes out the value whose Link is in the list.
func (l *List[T]) Remove(link *Link[T]) {
	if link.prev == nil {
		l.head = link.next
	} else {
		link.prev.next = link.next
	}
	if link.next == nil {
		l.tail = link.prev
	} else {
		link.next.prev = link.prev
	}
	*link = Link[T]{}
	l.count--
}

// Stack is a list of values of which only the newest can be taken out. The zero Stack is empty.
type Stack[T any] struct{ top *Link[T] }

// Top returns the value that Pop takes out, or nil.
func (s *Stack[T]) Top() *T { return s.top.value() }

// Push adds a value, whose Link is in no list.
func (s *Stack[T]) Push(link *Link[T], value *T) { link.next, link.of, s.top = s.top, value, link }

// Pop takes out the newest value, and returns it, or nil if there is none.
func (s *Stack[T]) Pop() *T {
	link := s.top
	value := link.value()
	if link != nil {
		s.top = link.next
		*link = Link[T]{}
	}
	return value
}
