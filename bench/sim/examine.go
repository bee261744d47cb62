package main

import (
	"maps"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// contents is what a restart has found: the items of each queue, in order.
type contents map[string][]handed

// crash says how a process ended.
type crash struct {
	cut    bool // the power was cut
	at     time.Time
	faulty bool // the disk failed meanwhile: what was not synced may be lost, however old
	stop   bool // it ended by itself
	live   bool // nothing ended: this is a look at a server at rest
}

// slackTime is how much longer than its period a periodic sync may take.
const slackTime = 5 * time.Second

// examine compares what a restart has found with what was promised, and takes it as the truth from
// now on, unless the server lives on.
func (l *ledger) examine(c contents, how crash) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen, l.stopping = false, false
	for _, entries := range l.queues {
		for _, e := range entries {
			e.seen = false
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(c)) {
		l.examineQueue(queue, c[queue], how)
	}
	for _, queue := range slices.Sorted(maps.Keys(l.queues)) {
		l.examineLosses(queue, how)
	}
	if how.live {
		return
	}
	for queue, n := range l.allowed {
		if l.traced != nil && n > 0 {
			l.traced("%s: up to %d items may have been taken", queue, n)
		}
	}
	clear(l.allowed)
	clear(l.first)
	for _, le := range l.leases {
		le.doubt = le.doubt || how.cut || l.stepped
	}
	l.toggling = false
	for queue, entries := range l.queues {
		l.live[queue] = 0
		for _, e := range entries {
			l.adoptLease(e, how)
			l.accept(e)
		}
	}
}

// accept takes what an examination saw of e as the truth.
func (l *ledger) accept(e *entry) {
	l.trace(e, "after the end: seen %t, put %d, state %d, lost %t", e.seen, e.put, e.state, e.lost)
	e.unheard = false
	e.holder, e.touched, e.fragile, e.moving = nil, time.Time{}, false, false
	switch {
	case e.seen:
		if e.put != confirmed {
			e.put = found
			e.ended = l.now()
		}
		e.state = here
		l.live[e.queue] += int64(len(l.items[e.n].data))
	case e.put == refused:
	case e.state == gone && l.stepped && l.mayHaveExpired(e) && l.set.For(e.queue).ExpireTo == "":
		e.state = maybe // its removal may be undone, and the clock hide it until it is set back
	case e.put < found: // it may still be in doubt: a cut may bring a torn write back
		e.put, e.lost = unsure, false
		e.state = maybe
	case e.state != gone:
		e.state, e.goneAt, e.goneSync = maybe, l.now(), engine.SyncNever
	}
}

// weak reports whether a crash may undo what was acknowledged at a time.
func (how crash) weak(sync engine.SyncPolicy, at time.Time) bool {
	switch {
	case !how.cut || sync == engine.SyncAlways:
		return false
	case sync == engine.SyncNever || how.faulty:
		return true
	}
	return how.at.Sub(at) <= sync.Period()+slackTime
}

// examineQueue looks at what was found in a queue.
func (l *ledger) examineQueue(queue string, found []handed, how crash) {
	var latest *entry // of those before, the one whose put began last
	keys := make(map[string]*entry)
	for _, h := range found {
		e := l.find(queue, h.data)
		if e == nil {
			continue
		}
		switch {
		case e.seen:
			l.violate("twice", "%v was found twice, in %s", e, queue)
		case e.put == refused:
			l.violate("refused", "%v was refused, and found in %s", e, queue)
		case e.lost:
			l.violate("back", "%v was lost, and found in %s", e, queue)
		case e.state == gone && !e.fragile && !how.weak(e.goneSync, e.goneAt):
			l.violate("undone", "%v was removed for good, and found in %s", e, queue)
		case !l.set.For(queue).KeepJournal && !how.live && !l.toggling:
			l.violate("unjournaled", "%v was found", e)
		case e.buried && queue == e.queue && !how.cut && !how.faulty: // while the journal fails, what is handed out may come back
			l.violate("twice", "%v is a dead letter, and found in %s", e, queue)
		case queue == e.queue && int64(h.deliveries) <= e.low && e.low > 0 && !how.cut && l.set.For(queue).MaxDeliveries > 0:
			l.violate("count", "%v was found after %d deliveries", e, h.deliveries-1)
		}
		if other := keys[e.key]; other != nil && e.key != "" && queue == e.queue {
			l.violate("key", "%v and %v have the key %s", other, e, e.key)
		}
		keys[e.key] = e
		e.seen = true
		e.buried = e.buried && !how.cut && !how.faulty
		if l.judgeDead(e, queue); h.late {
			e.buried = false // it may be leased, and come back in time
			e.blurred = later(e.blurred, how.at.Add(maxLease+lostTime))
		}
		if e.queue != queue || e.put != confirmed || e.key != "" || l.mayBeAside(e, how) {
			continue
		}
		if latest != nil && !e.ended.IsZero() && e.ended.Before(latest.started) && !how.live {
			l.violate("order", "%v was found behind %v", e, latest)
		}
		if latest == nil || latest.started.Before(e.started) {
			latest = e
		}
	}
}

// mayBeAside reports whether an item may have been delayed or leased when a process ended. The caller holds mu.
func (l *ledger) mayBeAside(e *entry, how crash) bool {
	at := how.at
	if _, messages := l.set.Queues[deadLetterQueue]; messages && l.stepped {
		return true // a clock that is set back hides again what was due
	}
	return e.lease != nil || e.delayed || !e.hidden.IsZero() || e.blurred.After(at) || e.readyAt.After(at) || l.asides[e.queue].After(at) ||
		!e.touched.IsZero() && (how.cut || l.set.For(e.queue).RedeliveryDelay[0] > 0)
}

// examineLosses looks at what was not found of what was put to a queue.
func (l *ledger) examineLosses(queue string, how crash) {
	o := l.set.For(queue)
	allowed := l.allowed[queue] + l.taking[queue]
	var firstLost *entry
	for _, e := range l.queues[queue] {
		if e.seen {
			if firstLost != nil && e.put == confirmed && firstLost.ended.Before(e.started) {
				l.violate("hole", "%v was lost, and %v was not, after a %s at %s", firstLost, e, how, since(how.at))
				firstLost = nil
			}
			continue
		}
		if e.put != confirmed && e.put != found || e.state != here || e.lost {
			continue
		}
		wasAside := l.mayBeAside(e, how)
		mayExpire := l.mayHaveExpired(e) || wasAside && !l.expiry(e, e.started).IsZero()
		switch {
		case o.DiscardOldWhenFull && o.MaxItems < 1<<20:
		case !o.KeepJournal || l.toggling && queue == "journal":
		case mayExpire && o.ExpireTo == "":
		case mayExpire && l.mayLose(o.ExpireTo):
		case l.mayBeDead(e, 0) && l.mayLose(l.deadLetters(queue)):
		case e.moving && how.stop && allowed == 0:
			l.violate("pending", "%v had expired when its queue was flushed, and was not found after SIGTERM at %s", e,
				since(how.at))
		case how.live && e.holder != nil:
		case allowed > 0:
			allowed--
			e.state = maybe
		case how.cut && (e.put == found || how.weak(e.sync, e.ended)):
			e.lost = true
			if e.put == confirmed && firstLost == nil && !mayExpire {
				firstLost = e
			}
		default:
			l.violate("lost", "%v was not found after a %s at %s", e, how, since(how.at))
		}
	}
}

// mayLose reports whether items that expire into a queue may be lost there. The caller holds mu.
func (l *ledger) mayLose(queue string) bool { return l.allowed[queue]+l.taking[queue] > 0 }

// adoptLease takes what an examination saw of the lease and the delay of e as the truth. The caller holds mu.
func (l *ledger) adoptLease(e *entry, how crash) {
	if l.mayBeAside(e, how) {
		e.blurred = later(e.blurred, how.at.Add(maxLease+lostTime))
	}
	if e.newest = e.newestLease; how.cut { // open reads are forgotten by every death
		e.newest, e.newestLease = time.Time{}, time.Time{}
	}
	e.back, e.aside = time.Time{}, false
	e.high++ // a delivery of which nobody has heard
	if o := l.set.For(e.queue); o.MaxDeliveries == 0 || how.cut {
		e.low = 0
	}
	if !e.seen {
		e.lease, e.hidden = nil, time.Time{}
		return
	}
	// After a power cut a lease, or a return, may be forgotten; and what is due is due by the clock.
	if (how.cut || l.stepped) && e.lease != nil {
		e.lease.doubt = true
	}
	if l.stepped || how.cut && !e.hiddenByPut {
		e.hidden = time.Time{}
	}
}
