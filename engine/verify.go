package engine

import "fmt"

// Verify checks the invariants of every queue and returns the first one that is broken. It looks at
// every item, one queue at a time, and is meant for tests.
func (e *Engine) Verify() (err error) {
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if err == nil && !q.deleted {
			err = q.verify()
		}
	})
	return err
}

func (q *queue) verify() error {
	broken := func(format string, args ...any) error {
		return fmt.Errorf("queue %q: %s", q.name, fmt.Sprintf(format, args...))
	}
	seen := make(map[uint64]string) // I1
	for _, list := range []struct {
		name  string
		state readState
		*readList
	}{
		{"returned", readReturned, &q.returned},
		{"open", readOpen, &q.open},
		{"moving", readMoving, &q.moving},
	} {
		var count, bytes int64
		for r := list.head; r != nil; r = r.next {
			if where := seen[r.item.ID]; where != "" {
				return broken("I1: item %d is in %s and in %s", r.item.ID, where, list.name)
			}
			seen[r.item.ID] = list.name
			if r.state != list.state || r.q != q || r.id == 0 {
				return broken("read of item %d in %s: state %d, id %d",
					r.item.ID, list.name, r.state, r.id)
			}
			count++
			bytes += int64(len(r.item.Data))
		}
		if count != list.count || bytes != list.bytes {
			return broken("%s counts %d items of %d bytes, has %d of %d",
				list.name, list.count, list.bytes, count, bytes)
		}
	}
	if err := q.verifyWindow(seen, broken); err != nil {
		return err
	}
	if it, ok := q.first(); ok && q.waiters.head != nil { // I4
		return broken("I4: %d wait, and item %d is there", q.waiters.count, it.ID)
	}
	if parent, ok := parentOf(q.name); ok { // I5
		for _, child := range q.shard.families[parent].children {
			if child == q {
				return nil
			}
		}
		return broken("I5: not among the children of %q", parent)
	}
	if q.family != q.shard.families[q.name] {
		return broken("I5: has another family than its name")
	}
	return nil
}

// verifyWindow checks W1 to W4, and I1 and I2 as far as the window goes.
func (q *queue) verifyWindow(seen map[uint64]string, broken func(string, ...any) error) error {
	var err error
	var count, bytes, expiring int64
	last := uint64(0)
	w := &q.window
	q.window.each(func(it Item) bool {
		switch where := seen[it.ID]; {
		case where != "":
			err = broken("I1: item %d is in the window and in %s", it.ID, where)
		case it.ID <= last:
			err = broken("W3: item %d follows item %d", it.ID, last)
		case it.ID >= q.nextID:
			err = broken("item %d is not below the next id %d", it.ID, q.nextID)
		}
		last = it.ID
		count++
		bytes += int64(len(it.Data))
		if it.Expiry != 0 {
			expiring++
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if count > 0 && last+1 != w.nextID {
		return broken("W4: the newest item in the window is %d, the next is %d", last, w.nextID)
	}
	if count != w.count || bytes != w.bytes {
		return broken("W1: window counts %d items of %d bytes, has %d of %d",
			w.count, w.bytes, count, bytes)
	}
	if expiring != w.expiring {
		return broken("W1: window counts %d items that expire, has %d", w.expiring, expiring)
	}
	if w.count == 0 && (w.head != nil || w.tail != nil) {
		return broken("W2: an empty window holds a chunk")
	}
	if w.count == 0 || !q.opts.KeepJournal {
		return nil
	}
	if it := w.first(); len(q.segments) == 0 || q.segments[0].id > it.ID {
		return broken("I6: no segment is known for item %d", it.ID)
	}
	return nil
}
