package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is what the queues of a lane should hold. Items are numbers, which rise with each put of
// the lane.
type model struct {
	queues map[string]*modelQueue
	// routes says which queues a put to a name goes to. Its steps follow one another, and each puts
	// to all of its queues at once. A name that is missing is a queue of its own.
	routes map[string][][]string
}

// modelQueue is one queue.
type modelQueue struct {
	ready []int // in the order in which a fetch takes them
	open  []openItem
}

// openItem is an item that the lane has opened; oldest first in modelQueue.
type openItem struct {
	item int
	id   int64
}

func newModel(routes map[string][][]string) *model {
	return &model{queues: make(map[string]*modelQueue), routes: routes}
}

func (m *model) clone() *model {
	c := newModel(m.routes)
	for name, q := range m.queues {
		c.queues[name] = &modelQueue{slices.Clone(q.ready), slices.Clone(q.open)}
	}
	return c
}

func (m *model) queue(name string) *modelQueue {
	q := m.queues[name]
	if q == nil {
		q = &modelQueue{}
		m.queues[name] = q
	}
	return q
}

// durable is what a restart should find: an open read is an item still queued, in its place.
type durable map[string][]int

func (m *model) durable() durable {
	d := make(durable)
	for name, q := range m.queues {
		items := slices.Clone(q.ready)
		for _, o := range q.open {
			items = append(items, o.item)
		}
		if slices.Sort(items); len(items) > 0 {
			d[name] = items
		}
	}
	return d
}

func (d durable) equal(other durable) bool { return maps.EqualFunc(d, other, slices.Equal[[]int]) }

// String is the state in words; long queues are cut short.
func (d durable) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d)) {
		items := d[name]
		fmt.Fprintf(&b, "%s: %d items", name, len(items))
		if len(items) > 20 {
			fmt.Fprintf(&b, " %v … %v; ", items[:10], items[len(items)-10:])
			continue
		}
		fmt.Fprintf(&b, " %v; ", items)
	}
	return cmp.Or(b.String(), "nothing")
}

// apply does what r asks for and returns the answer that it should get. A crash may come between
// what r does: after each part that changes what is durable, it calls changed.
func (m *model) apply(r request, changed func()) answer {
	q := m.queue(r.queue)
	switch r.op {
	case opPut:
		m.put(r, changed)
		return answer{count: len(r.items)}
	case opGet:
		n := min(r.count, len(q.ready))
		taken := q.ready[:n]
		for range n {
			q.ready = q.ready[1:]
			changed()
		}
		return answer{items: expected(taken)}
	case opOpen:
		q.confirm(min(r.confirm, len(q.open)), changed)
		if len(q.ready) == 0 {
			return answer{}
		}
		item := q.ready[0]
		q.ready = q.ready[1:]
		q.open = append(q.open, openItem{item: item})
		return answer{items: expected([]int{item})}
	case opConfirm:
		q.confirm(r.count, changed)
		return answer{count: r.count}
	case opAbort:
		q.ready = slices.Insert(q.ready, 0, q.open[0].item)
		q.open = q.open[1:]
		return answer{count: 1}
	case opPeek:
		q.confirm(min(r.confirm, len(q.open)), changed)
		return answer{items: expected(q.ready[:min(1, len(q.ready))])}
	case opFlush:
		q.ready = nil
		changed()
		return answer{}
	case opDelete:
		delete(m.queues, r.queue)
		changed()
		return answer{}
	}
	panic(fmt.Sprintf("request %v", r))
}

func (m *model) put(r request, changed func()) {
	steps := m.routes[r.queue]
	if steps == nil {
		steps = [][]string{{r.queue}}
	}
	for _, item := range r.items {
		for _, names := range steps {
			for _, name := range names {
				q := m.queue(name)
				q.ready = append(q.ready, item)
			}
			changed()
		}
	}
}

// confirm takes the n oldest open reads away.
func (q *modelQueue) confirm(n int, changed func()) {
	for range n {
		q.open = q.open[1:]
		changed()
	}
}

// expected are items as an answer has them, with their numbers for data.
func expected(items []int) []fetched {
	var all []fetched
	for _, item := range items {
		all = append(all, fetched{id: int64(item)})
	}
	return all
}

// adopt makes the model what was found after a restart.
func (m *model) adopt(found durable) {
	clear(m.queues)
	for name, items := range found {
		m.queue(name).ready = slices.Clone(items)
	}
}
