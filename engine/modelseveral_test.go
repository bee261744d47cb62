package engine

import (
	"errors"
	"fmt"
	"slices"
)

// modelSeveral is what a wait for one of several queues has beside others.
type modelSeveral struct {
	wait  AnyWait
	names []string // of the queues, in the order in which they were asked
	left  int      // queues that it waits at
	ended bool     // one has served it, or the last was deleted
	over  bool     // one has served it while it asked the next
}

// joins adds a wait to the waiters of q.
func (w *modelWaiter) joins(q *modelQueue) {
	if q.waiters = append(q.waiters, w); w.several != nil {
		w.several.left++
	}
}

// isOver reports whether the wait is one for several queues that has ended.
func (w *modelWaiter) isOver() bool { return w != nil && w.several != nil && w.several.ended }

// leaves takes a queue of w away, which is deleted, and reports whether the wait ends by that.
func (w *modelWaiter) leaves() bool {
	v := w.several
	if v == nil {
		return true
	}
	v.left--
	if v.ended || v.left > 0 {
		return false
	}
	v.ended = true
	return true
}

// fetchSeveral returns the item, and the place of its queue among the names; -1 if there is none. Then w waits.
func (m *model) fetchSeveral(
	now Time, names []string, access Access, f *FetchRequest, token func(name string) func() uint64, w *modelWaiter,
) (it Item, r *modelRead, which int) {
	for i, name := range names {
		it, r, ok := m.fetch(now, name, access, f.Lease, token(name), w)
		switch {
		case ok:
			return it, r, i
		case w != nil && w.several.over:
			return it, nil, -1
		}
	}
	return it, nil, -1
}

// copiedOf is a receiver of FetchAny.
type copiedOf struct {
	copied
	from int
}

func (c *copiedOf) From(i int) { c.from = i }

// fetchSeveral fetches from some queues, in some order. The first that has an item hands it out, and otherwise the
// client waits at all of them.
func (r *modelRun) fetchSeveral() {
	var names []string
	for _, i := range r.Perm(len(modelNames))[:1+r.IntN(4)] {
		names = append(names, modelNames[i])
	}
	if r.IntN(8) == 0 {
		names = slices.Insert(names, r.IntN(len(names)+1), "alias")
	}
	if r.spilling { // which item is at hand, and which is on its way from disk, the model does not know
		for rounds, came := 0, true; came || rounds < 2; rounds++ {
			if came = false; rounds == 20 {
				r.fail("the first items of %q never are in memory together", names)
			}
			for _, name := range names { // what one wakes may spill another: dead letters
				if came = r.bringFirst(name) || came; r.fsys.Stopped() {
					return
				}
			}
		}
	}
	var about Delivery
	request := FetchRequest{Access: Access(r.IntN(4)), Delivery: &about, Immediate: r.IntN(3) == 0}
	if request.Access == Lease || request.Access == OpenRead && r.IntN(2) == 0 {
		request.Lease = r.instant(3000)
	}
	r.op = fmt.Sprintf("fetch from %q, access %d, lease %v, immediate %v", names, request.Access, request.Lease, request.Immediate)
	v := &modelSeveral{names: names}
	w := &modelWaiter{
		request: request, several: v, notified: func(w *modelWaiter) { r.notified = append(r.notified, w) },
	}
	v.wait.Notify = w
	var queues [][]byte
	for _, name := range names {
		queues = append(queues, []byte(name))
	}
	var got copiedOf
	f, which, err := r.e.FetchAny(r.now, queues, request, &v.wait, &got)
	if r.fsys.Stopped() {
		return
	}
	waiter := w
	if request.Immediate {
		waiter = nil
	}
	token := func(name string) func() uint64 { return r.token(name, &about) }
	it, read, want := r.m.fetchSeveral(r.now, names, request.Access, &request, token, waiter)
	waits := want < 0 && !request.Immediate && v.left > 0
	switch {
	case f.Waiting != waits:
		r.fail("waiting = %v, want %v", f.Waiting, waits)
	case want < 0 && !errors.Is(err, ErrEmpty) || want >= 0 && err != nil:
		r.fail("error %v, want an item of queue %d", err, want)
	case want >= 0:
		if which != want || got.from != want {
			r.fail("an item of queue %d, from %d, want %d", which, got.from, want)
		}
		r.m.did.several++
		r.compareItem(names[want], got.item, it)
	case waits:
		r.waits = append(r.waits, w)
	}
	if read != nil {
		read.ref, read.client = f.Read, r.IntN(3)
		r.reads = append(r.reads, read)
	}
	r.maybeCommit(f.Ticket)
}

// bringFirst looks at the first item of a queue, which is in memory then.
func (r *modelRun) bringFirst(name string) (came bool) {
	r.op = fmt.Sprintf("look at %q", name)
	var got copied
	request := FetchRequest{Access: Peek}
	_, err := r.e.Fetch(r.now, []byte(name), request, &got)
	for ; err == ErrComing && !r.fsys.Stopped(); _, err = r.e.Fetch(r.now, []byte(name), request, &got) {
		r.bring(name)
		came = true
	}
	if r.fsys.Stopped() {
		return false
	}
	it, _, ok := r.m.fetch(r.now, name, Peek, 0, nil, nil)
	if ok != (err == nil) {
		r.fail("error %v, want that there is an item = %v", err, ok)
	} else if ok {
		r.compareItem(name, got.item, it)
	}
	r.noteNumbers()
	r.noteWritten() // the queue may be new, and its name not written before the spool works for the next one
	return came
}

// endSeveral takes over how a wait for several queues has ended.
func (r *modelRun) endSeveral(w *modelWaiter) {
	which, ref, err := r.e.EndAny(&w.several.wait)
	w.Read, w.Err = ref, err
	r.m.forgetWait(w)
	if w.read != nil && w.several.names[which] != w.read.q.name {
		r.fail("a wait got an item of %q, want one of %q", w.several.names[which], w.read.q.name)
	}
}
