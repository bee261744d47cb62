package main

import (
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// lease is one lease of an item, which any client may end that knows the receipt, also one of a later process.
type lease struct {
	entry   *entry
	queue   string
	receipt uint64
	heard   time.Time // when its client got the item
	safe    time.Time // until then nobody else gets it, unless the lease is ended
	until   time.Time // from then on the lease has lapsed for certain
	busy    bool      // somebody is ending it, or makes it longer
	ended   bool      // that was acknowledged: the receipt holds nothing any more
	doubt   bool      // nobody knows what it holds
}

// leased notes that a request has brought an item under a lease for some time. It is in doubt if the journal
// was not in order.
func (l *ledger) leased(c *asker, f *fetching, h handed, d time.Duration, healthy bool) {
	e := l.handedOut(c, f, h, leasing)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e == nil || l.frozen {
		return
	}
	now := l.now()
	e.newestLease = later(e.newestLease, f.began)
	le := &lease{
		entry: e, queue: f.queue, receipt: h.id.(uint64), heard: now, safe: f.began.Add(d), until: now.Add(d), doubt: !healthy,
	}
	if le.doubt = le.doubt || e.blurred.After(now) || l.mayTimeOut(f.queue); e.holder == nil && e.state != gone {
		e.lease = le
	}
	l.leases = append(l.leases, le)
}

// pickLease returns one of the leases that were ever given, mostly a recent one, and nil if there is none at
// hand. Until leaseEnded nobody else gets it.
func (l *ledger) pickLease(n int) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.leases) > mostLeases {
		l.leases = append(l.leases[:0], l.leases[len(l.leases)-mostLeases/2:]...)
	}
	if len(l.leases) == 0 || l.frozen {
		return nil
	}
	le := l.leases[len(l.leases)-1-n%len(l.leases)]
	if le.busy {
		return nil
	}
	le.busy = true
	return le
}

// mostLeases is how many leases the ledger keeps.
const mostLeases = 64

// leaseEnd is a request about a lease that is under way.
type leaseEnd struct {
	lease *lease
	how   ending
	delay time.Duration // of an abort or release; a new length
	began time.Time
	stale bool // the receipt holds nothing
	holds bool // it holds the item
	takes bool // the item is leaving on its account
}

// ending begins to end a lease, or to make it longer.
func (l *ledger) ending(le *lease, how ending, delay time.Duration) *leaseEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, e := &leaseEnd{lease: le, how: how, delay: delay, began: l.now()}, le.entry
	current := e.lease == le && !le.doubt
	x.stale = !le.doubt && (le.ended || e.newest.After(le.heard) || e.state == gone && e.goneAt.Before(x.began))
	x.holds = current && !le.ended && e.state == here && x.began.Before(le.safe) && !e.cleared.After(le.heard)
	e.delayed = e.delayed || how != endExtend && (delay > 0 || l.set.For(le.queue).RedeliveryDelay[0] > 0)
	switch {
	case how == endReject:
		e.rejected = true // it may be a dead letter from now on
	case how == endExtend && x.began.Add(delay).Before(le.safe):
		le.safe = x.began.Add(delay)
	case how == endConfirm && !x.stale && (e.state == here || e.confirming > 0):
		x.takes = true
		e.confirming++
		if e.state == here {
			e.state = leaving
		}
		e.goneSync = l.set.For(le.queue).Sync
	}
	l.trace(e, "%s of %d: stale %t, holds %t", how, le.receipt, x.stale, x.holds)
	return x
}

// leaseEnded says what came of that: nil, errNone if the receipt holds nothing, or that nobody knows.
func (l *ledger) leaseEnded(x *leaseEnd, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le, now := x.lease, l.now()
	e := le.entry
	le.busy = false
	if x.takes {
		e.confirming--
	}
	if l.frozen {
		return
	}
	l.trace(e, "%s of %d has ended: %v", x.how, le.receipt, err)
	switch err {
	case nil:
		if x.stale {
			l.violate("stale", "%s of %v by receipt %d of %s was acknowledged; the item was handed out by a request of %s",
				x.how, e, le.receipt, since(le.heard), since(e.newest))
		}
		l.endedLease(x, now)
	case errNone:
		if x.holds && now.Before(le.safe) && e.state != gone && e.cleared.Before(le.heard) && !l.deleting(le.queue) && !l.toggling {
			l.violate("receipt", "%s of %v by receipt %d was refused at %s; the lease ends at %s at the earliest", x.how, e,
				le.receipt, since(now), since(le.safe))
		}
		x.stays()
	case errRefused: // nothing has happened
		x.stays()
	default:
		le.doubt = true
		e.high++
		e.blurred = now.Add(maxLease + lostTime)
		if x.takes && e.state == leaving {
			e.state = maybe
		}
	}
}

// stays notes that the request has not removed the item. A flush or a delete that ended meanwhile may have, and
// another confirm that is under way may yet.
func (x *leaseEnd) stays() {
	switch e := x.lease.entry; {
	case !x.takes || e.state != leaving || e.confirming > 0:
	case e.cleared.Before(x.began):
		e.state = here
	default:
		e.state = maybe
	}
}

// deleting reports whether somebody is deleting a queue. The caller holds mu.
func (l *ledger) deleting(queue string) bool {
	return slices.ContainsFunc(l.clearings, func(s *clearing) bool { return s.open && s.queue == queue && !s.ended })
}

// endedLease is leaseEnded for what was acknowledged. The caller holds mu.
func (l *ledger) endedLease(x *leaseEnd, now time.Time) {
	le, o := x.lease, l.set.For(x.lease.queue)
	e := le.entry
	if x.how == endExtend {
		le.safe, le.until = x.began.Add(x.delay), now.Add(x.delay)
		return
	}
	le.ended = true
	if e.lease == le {
		e.lease = nil
	}
	if x.how == endConfirm {
		if e.state == leaving {
			e.state, e.goneAt, e.holder = gone, now, nil
			l.live[e.queue] -= int64(len(l.items[e.n].data))
		}
		return
	}
	e.touched = now
	delay := x.delay
	if x.how == endAbort {
		e.low, e.high = e.low+1, e.high+1
		if delay == 0 {
			delay = shortest(o.RedeliveryDelay)
		}
	}
	e.back, e.backBegan, e.aside = now, x.began, true
	e.hidden, e.readyAt = time.Time{}, now.Add(max(delay, longest(o.RedeliveryDelay)))
	if delay > 0 && x.how != endReject {
		e.hidden, e.hiddenByPut = x.began.Add(delay), false
	}
}

func shortest(b engine.Backoff) time.Duration { return b[0] } // the generator's rise

func longest(b engine.Backoff) (d time.Duration) {
	for _, next := range b {
		d = max(d, next)
	}
	return d
}

// aborted notes that the return of an open read was acknowledged, which began at a time. counted says that the queue's
// redelivery delay is for it.
func (l *ledger) aborted(e *entry, began time.Time, counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e == nil || l.frozen {
		return
	}
	e.high++
	if counted {
		e.low++
	}
	o := l.set.For(e.queue)
	e.blurred = time.Time{}
	e.back, e.backBegan, e.touched, e.aside = l.now(), began, l.now(), false
	e.hidden, e.readyAt = time.Time{}, e.back
	if d := longest(o.RedeliveryDelay); d > 0 && counted {
		e.aside, e.readyAt = true, e.back.Add(d)
		e.hidden, e.hiddenByPut = began.Add(shortest(o.RedeliveryDelay)), false
	}
}
