package engine

// AnyReceiver takes an item of one of several queues. From says, by its place among the names, which queue the
// next item is of.
type AnyReceiver interface {
	Receiver
	From(i int)
}

// FetchAny is Fetch from the first of several queues, at most MaxAny of different names, that has an item at hand. If
// there is no item, the wait a, which is not nil, joins the waiters of the queues; the Waiter of f is not used. It
// returns the place of the queue, among the names, that the item is of. A queue that cannot be fetched from is passed
// over, and if there is no item its error is returned. Otherwise the error is that of Fetch; ErrComing stands for any
// of the queues.
func (e *Engine) FetchAny(
	now Time, names [][]byte, f FetchRequest, a *AnyWait, r AnyReceiver,
) (got Fetched, which int, err error) {
	defer contain()
	a.begin(len(names))
	var refused error
	err = ErrEmpty
	made := Ticket{}
	for i, name := range names {
		f.Waiter = &a.waiters[i]
		r.From(i)
		one, over, failed := e.fetchFor(now, name, &f, r)
		made = made.Merge(one.Ticket)
		one.Ticket = made
		switch {
		case over:
			return Fetched{Ticket: made, Waiting: true, Meter: one.Meter}, 0, ErrEmpty
		case failed == nil, failed == ErrNotTaken:
			e.leaveQueues(a)
			return one, i, failed
		case failed == ErrComing:
			err = ErrComing
		case failed != ErrEmpty && refused == nil:
			refused = failed
		}
		if got.Meter == nil {
			got.Meter = one.Meter
		}
		got.Alias = one.Alias && (i == 0 || got.Alias)
	}
	got.Ticket = made
	switch {
	case refused != nil && a.win(nil):
		e.leaveQueues(a)
		return got, 0, refused
	case refused == nil && a.left.Add(-1) == 0 && a.win(nil):
		return got, 0, err
	}
	got.Waiting = true
	return got, 0, err
}

// MaxAny is how many queues FetchAny may be asked for.
const MaxAny = 16

// fetchFor is Fetch for the Waiter of f, which is one of several. Over says that another queue has served it.
func (e *Engine) fetchFor(now Time, name []byte, f *FetchRequest, r Receiver) (got Fetched, over bool, err error) {
	q, made, err := e.lockForFetch(now, name)
	if err != nil {
		got.Alias = err == ErrEmpty
		return got, false, err
	}
	got.Ticket, got.Meter = made, e.measured(q)
	var one [1]ReadRef
	if err = e.admitFetch(q, f); err == nil {
		a := f.Waiter.any
		a.left.Add(1)
		if q.atHand() && !q.headBusy() && !a.win(nil) {
			over = true
		} else if _, err = e.handOver(q, now, f, 1, r, one[:0], &got); !got.Waiting {
			a.left.Add(-1)
		}
	}
	e.unlock(q.shard, now)
	got.Read = one[0]
	return got, over, err
}

// leaveQueues takes what is left of a wait that is over from the waiters of its queues.
func (e *Engine) leaveQueues(a *AnyWait) {
	for i := range a.waiters {
		w := &a.waiters[i]
		if w.shard == nil {
			continue
		}
		w.shard.mu.Lock()
		if w.q != nil {
			w.q.takeOut(w)
		}
		w.shard.mu.Unlock()
	}
}

// CancelAny ends a wait of FetchAny. It reports false if the wait has already ended: then Notify has heard of
// it, or is hearing of it.
func (e *Engine) CancelAny(a *AnyWait) bool {
	defer contain()
	if !a.win(nil) {
		return false
	}
	e.leaveQueues(a)
	return true
}

// EndAny returns how a wait of FetchAny has ended, once Notify has heard. That is the place of the queue among the
// names, and what the Read and the Err of a Waiter are.
func (e *Engine) EndAny(a *AnyWait) (which int, ref ReadRef, err error) {
	defer contain()
	e.leaveQueues(a)
	for i := range a.waiters {
		if w := &a.waiters[i]; w == a.ended {
			return i, w.Read, w.Err
		}
	}
	return 0, ReadRef{}, ErrEmpty
}
