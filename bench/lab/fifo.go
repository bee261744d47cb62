package main

import (
	"fmt"
	"slices"
)

// fifo checks the order of one queue over any number of crashes. One client puts numbered items in
// order, and another takes them.
type fifo struct {
	next  int // no item below comes any more
	acked int // the last item whose put was acknowledged
	// slack is how many items, from next on, requests without an answer may have taken.
	slack int
	// maybe are the items whose puts were not answered: of each span a beginning may be there.
	maybe []span
}

// span is the items from first to last.
type span struct{ first, last int }

// came notes the item that came. It returns how that breaks a promise, or nil.
func (f *fifo) came(item int) error {
	if item < f.next {
		return fmt.Errorf("item %d came, again or late: item %d was to come", item, f.next)
	}
	for missing := f.next; missing < item; missing++ {
		if f.absent(missing, item) {
			continue
		}
		if f.slack == 0 {
			return fmt.Errorf("item %d came, and item %d is missing", item, missing)
		}
		f.slack--
	}
	f.next, f.slack = item+1, 0
	f.certain(item)
	return nil
}

// absent reports whether it is no wonder that an item is not there although a later one is.
func (f *fifo) absent(item, later int) bool {
	for _, s := range f.maybe {
		if s.first <= item && item <= s.last {
			return later > s.last
		}
	}
	return false
}

// certain notes that an item was there, and with it what was put before it in one go.
func (f *fifo) certain(item int) {
	for i, s := range f.maybe {
		if s.first <= item && item <= s.last {
			f.maybe[i].first = item + 1
		}
	}
}

// ended notes that the queue had no item, at a time when the puts up to acked had been acknowledged. It
// returns how that breaks a promise, or nil.
func (f *fifo) ended(acked int) error {
	slack := f.slack
	for item := f.next; item <= acked; item++ {
		if f.absent(item, acked+1) {
			continue
		}
		if slack == 0 {
			return fmt.Errorf("the queue has no item, and item %d is missing", item)
		}
		slack--
	}
	return nil
}

// crashed notes that the server is gone: puts up to sent were sent, and the items from next on come
// again. Requests that were not answered may have taken some of them.
func (f *fifo) crashed(next, sent, taken int) {
	f.next, f.slack = next, f.slack+taken
	f.maybe = slices.DeleteFunc(f.maybe, func(s span) bool {
		return s.first > s.last || s.last < next
	})
	if sent > f.acked {
		f.maybe = append(f.maybe, span{f.acked + 1, sent})
	}
	f.acked = sent
}

// clone returns a copy that shares nothing with f.
func (f *fifo) clone() *fifo {
	c := *f
	c.maybe = slices.Clone(f.maybe)
	return &c
}
