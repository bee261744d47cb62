package main

import (
	"errors"
	"fmt"
)

// inspection looks at what queues hold without changing it: it opens every item, and ends the
// connection, so that all of them go back.
type inspection struct {
	t *trial
	c *client
	// arriving says that items may come into the queue at hand meanwhile: from another one, in which they expire.
	arriving bool
}

func inspect(t *trial, s *server) (*inspection, error) {
	c, err := dial(s, "memcache")
	if err != nil {
		return nil, err
	}
	return &inspection{t: t, c: c}, nil
}

// lane returns what the queues of a lane hold. Items that are not the lane's, or not as they were
// put, or out of order, are violations.
func (v *inspection) lane(l *lane) (durable, error) {
	found := make(durable)
	for _, queue := range l.queues {
		items, err := v.queue(l, queue)
		if err != nil {
			return nil, err
		}
		for i := 1; i < len(items); i++ {
			if items[i] <= items[i-1] {
				v.t.violate("queue %s holds item %d before item %d", queue, items[i-1], items[i])
			}
		}
		if len(items) > 0 {
			found[queue] = items
		}
	}
	return found, nil
}

// openAtOnce is how many fetches an inspection sends ahead.
const openAtOnce = 64

// queue opens what a queue of the lane holds and nobody has opened. A queue that says that it is empty, and then
// hands out an item, is a violation: clients would have gone away.
func (v *inspection) queue(l *lane, queue string) (items []int, err error) {
	requests := make([]request, openAtOnce)
	for i := range requests {
		requests[i] = request{op: opOpen, queue: queue}
	}
	for {
		if err := v.c.send(requests, l.body); err != nil {
			return nil, fmt.Errorf("inspect %s: %w", queue, err)
		}
		ended := false
		for _, r := range requests {
			a, err := v.c.receive(r)
			if err != nil {
				return nil, fmt.Errorf("inspect %s: %w", queue, err)
			}
			if a.refusal != "" { // nothing is broken on purpose while a server is inspected
				v.t.violate("queue %s cannot be opened: %s", queue, a.refusal)
				return nil, fmt.Errorf("inspect %s: %s", queue, a.refusal)
			}
			before := ended
			if ended = len(a.items) == 0; ended {
				continue
			}
			item, err := l.itemOf(a.items[0].data)
			if err != nil {
				v.t.violate("queue %s holds %v", queue, err)
			}
			if before && !v.arriving {
				v.t.violate("queue %s says that it is empty, and then hands out item %d", queue, item)
			}
			items = append(items, item)
			v.t.counts.items.Add(1)
		}
		if ended {
			return items, nil
		}
	}
}

// inspectAll compares what all lanes hold with what they may; from says from which request on. The
// connection it returns has all items open.
func inspectAll(t *trial, s *server, lanes []*lane, from func(*lane) int) (*inspection, error) {
	v, err := inspect(t, s)
	if err != nil {
		return nil, err
	}
	for _, l := range lanes {
		found, err := v.lane(l)
		if err != nil {
			return nil, errors.Join(err, v.c.conn.Close())
		}
		l.found(found, from(l))
	}
	return v, nil
}
