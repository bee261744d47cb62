package main

import "time"

// fetching is a request under way that may hold items of a queue until it ends.
type fetching struct {
	queue string
	began time.Time
	turn  int  // number among the fetches of the queue
	alone bool // no other was under way when it began
	hold  time.Duration
	done  bool
}

// fetch notes that a request begins. It may hold items of a queue until it ends, and for some time longer if nobody
// hears of it.
func (l *ledger) fetch(queue string, hold time.Duration) *fetching {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetching[queue]++
	l.turns[queue]++
	l.fetched[queue] = l.now()
	if hold > 0 && hold <= maxLease {
		l.leasing[queue]++
	}
	return &fetching{
		queue: queue, began: l.now(), turn: l.turns[queue], alone: l.fetching[queue] == 1, hold: hold,
	}
}

// ended says that the request has ended: with err, which may say that nobody knows what it holds.
func (l *ledger) ended(f *fetching, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.done {
		return
	}
	f.done = true
	if l.traced != nil {
		l.traced("%s: fetch %d of %s from %s ends: %v", since(l.now()), f.turn, f.queue, since(f.began), err)
	}
	l.fetching[f.queue]--
	leases := f.hold > 0 && f.hold <= maxLease
	if leases {
		l.leasing[f.queue]--
	}
	if err == errBroken || err == errUnsure || err == errFull {
		l.unheard[f.queue]++
		l.blur(f.queue, l.now().Add(f.hold+lostTime))
		if until := l.now().Add(f.hold + lostTime); leases && l.asides[f.queue].Before(until) {
			l.asides[f.queue] = until
		}
	}
}

// clear reports whether everything that the queue of f holds was known all the time since f began, but for
// what others have put. The caller holds mu.
func (l *ledger) clear(f *fetching) bool {
	if !f.alone || l.turns[f.queue] != f.turn || !l.blurred[f.queue].Before(f.began) || l.toggling || l.stopping ||
		l.allowed[f.queue] > 0 || l.fetched[f.queue].After(f.began) || l.stepped {
		return false
	}
	for _, s := range l.clearings {
		if s.queue == f.queue && !s.ended {
			return false
		}
	}
	o := l.set.For(f.queue)
	return o.KeepJournal && !o.DiscardOldWhenFull && l.set.Aliases[f.queue] == nil
}

// isReady reports whether an item was in line in its queue from before a time on, for certain. The caller holds
// mu.
func (l *ledger) isReady(e *entry, t time.Time) bool {
	if e.put != confirmed || e.state != here || e.lost || e.holder != nil || e.blurred.After(t) || e.moving || !e.ended.Before(t) ||
		l.mayHaveExpired(e) || l.mayBeDead(e, 0) || !e.cleared.IsZero() {
		return false
	}
	if e.lease != nil {
		return !e.lease.doubt && !e.lease.busy && e.lease.until.Add(clockTime).Before(t)
	}
	if e.delayed && (l.now().Before(l.began.Add(lostTime)) || l.mayLieOnDisk(e)) {
		return false // it is being read from disk, or has to wait for that
	}
	known := e.touched.IsZero() || e.touched.Equal(e.back)
	return known && e.readyAt.Add(clockTime).Before(t)
}

// What a server keeps in memory of delayed items that are due: it reads back so many of them at once.
const (
	readBackShare    = 4               // of the memory of the queue, one in so many bytes
	readBackOverhead = 96              // bytes for each beside its body
	readBackTime     = 3 * time.Second // before they are due
)

// mayLieOnDisk reports whether a delayed item may be on disk still although it is due, because too many like it wait
// for a fetch. The caller holds mu.
func (l *ledger) mayLieOnDisk(e *entry) bool {
	many, largest, soon := int64(0), int64(0), l.now().Add(readBackTime)
	for _, x := range l.inQueue(e.queue) {
		if x.delayed && x.state != gone && !x.hidden.After(soon) {
			many, largest = many+1, max(largest, int64(len(l.items[x.n].data)))
		}
	}
	return many*(readBackOverhead+largest) >= l.set.For(e.queue).MaxMemorySize/readBackShare
}

// foundNone is called when a request that does not wait has got no item.
func (l *ledger) foundNone(f *fetching) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen || l.faulty() || !l.clear(f) {
		return
	}
	if l.traced != nil {
		l.traced("%s: a request of %s gets nothing from %s", since(l.now()), since(f.began), f.queue)
	}
	for _, e := range l.inQueue(f.queue) {
		if l.isReady(e, f.began) {
			l.violate("missed", "%v was in line from %s on, and a request of %s got nothing", e, since(later(e.ended, e.readyAt)),
				since(f.began))
			return
		}
	}
}

// passes checks that no item was before the one that a request has brought. The caller holds mu, and has noted
// nothing of the delivery yet.
func (l *ledger) passes(f *fetching, e *entry) {
	if e.queue != f.queue || e.key != "" || !l.clear(f) { // one with a key may have the place of another
		return
	}
	back := !e.touched.IsZero() && e.touched.Equal(e.back) // and so is known when
	placed := e.touched.IsZero() || back && e.aside || e.lease != nil
	if !placed && !back || e.blurred.After(f.began) {
		return
	}
	for _, x := range l.inQueue(f.queue) {
		if x == e || !l.isReady(x, f.began) {
			continue
		}
		returned := x.lease == nil && !x.back.IsZero() && !x.aside
		before := false
		switch {
		case placed && returned:
			before = true
		case placed:
			before = x.ended.Before(e.started)
		case returned: // what was returned last comes first
			before = x.backBegan.After(e.back)
		}
		if before {
			l.violate("passed", "%v came by a request of %s; %v was in line before it, from %s on", e, since(f.began), x,
				since(later(x.ended, x.readyAt)))
			return
		}
	}
}

// inQueue returns the entries of a queue from the first on that is not gone for good.
func (l *ledger) inQueue(queue string) []*entry {
	all := l.queues[queue]
	at := l.first[queue]
	for at < len(all) && (all[at].state == gone || all[at].put == refused || all[at].lost) {
		at++
	}
	l.first[queue] = at
	return all[at:]
}

// handedOut notes that a request has brought an item to c.
func (l *ledger) handedOut(c *asker, f *fetching, h handed, how access) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return nil
	}
	queue, began := f.queue, f.began
	e := l.find(queue, h.data)
	if e == nil {
		return nil
	}
	l.delivered++
	l.trace(e, "handed out to %s %p, %d, by a request of %s", c.protocol, c, how, since(began))
	now := l.now()
	if how == leasing && !e.touched.IsZero() && !began.After(e.touched) && e.put != refused && !e.lost {
		l.overtaken(e, now) // the lease may have lapsed before somebody else got the item
		return e
	}
	switch {
	case e.put == refused:
		l.violate("refused", "%v was refused, and delivered", e)
	case e.lost:
		l.violate("back", "%v was lost, and is back", e)
	case e.state == gone && e.goneAt.Before(began):
		l.violate("twice", "%v was delivered by a request of %s", e, since(began))
	case e.buried && queue == e.queue:
		l.violate("twice", "%v is a dead letter, and was delivered by a request of %s", e, since(began))
	case e.holder != nil && e.holder != c && !l.mayTimeOut(e.queue) && !l.stopping:
		l.doubt(e.holder, "open", "%v is open, and was delivered by a request of %s", e, since(began))
	case queue == e.queue && now.Add(clockTime).Before(e.hidden):
		l.violate("early", "%v was delivered by a request of %s at %s", e, since(began), since(now))
	case e.lease != nil && !e.lease.doubt && !e.lease.busy && began.After(e.lease.heard) && now.Before(e.lease.safe):
		l.violate("leased", "%v was delivered by a request of %s at %s", e, since(began), since(now))
	case queue == e.queue && h.deliveries > 0 && int64(h.deliveries) <= e.low:
		l.violate("count", "%v came as delivery %d", e, h.deliveries)
	}
	if e.put == confirmed && e.queue == queue && l.hasExpired(e, began) {
		l.violate("expired", "%v expired at %s, and was delivered by a request of %s", e,
			since(l.expiry(e, e.ended)), since(began))
	}
	l.judgeDead(e, queue)
	l.passes(f, e)
	l.moved(e, f)
	e.touched = now
	if how == forGood {
		e.state, e.goneAt, e.goneSync, e.holder = gone, now, l.set.For(queue).Sync, nil
		l.live[e.queue] -= int64(len(h.data))
		return e
	}
	if e.state == gone {
		return e // it was given back before somebody got it for good, whose reply came first
	}
	if e.state, e.holder = here, c; how == leasing {
		e.holder = nil
	}
	if !e.cleared.Before(began) {
		e.state = maybe // it may have been open already when its queue was flushed or deleted
	}
	return e
}

// overtaken notes that a request leased an item, and that the reply to a later one may have come first. The
// caller holds mu.
func (l *ledger) overtaken(e *entry, now time.Time) {
	if e.lease != nil {
		e.lease.doubt = true
	}
	e.high++
	e.blurred = now.Add(maxLease + lostTime)
}

// moved notes that an item was handed out by f: a lease that it had is over. The caller holds mu.
func (l *ledger) moved(e *entry, f *fetching) {
	if le := e.lease; le != nil {
		switch {
		case !f.began.After(le.heard): // nobody knows which came first
			le.doubt = true
			e.high++
		case le.doubt || le.busy:
			e.high++
		default: // it has lapsed
			e.low, e.high = e.low+1, e.high+1
		}
		e.lease = nil
	}
	e.hidden, e.hiddenByPut, e.blurred = time.Time{}, false, time.Time{}
	e.newest = later(e.newest, f.began)
}
