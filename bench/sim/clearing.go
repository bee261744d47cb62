package main

import (
	"maps"
	"slices"
	"time"
)

// returnTime is how long an item that was given back may take to be in its queue.
const returnTime = 70 * time.Second

// clearing is a flush or delete.
type clearing struct {
	queue   string
	began   time.Time
	open    bool // open reads go too
	entries []*entry
	busy    bool // somebody may have held items when it began
	ended   bool
}

// beginClearing begins a flush, or a delete, of a queue.
func (l *ledger) beginClearing(queue string, open bool) *clearing {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &clearing{queue: queue, began: l.now(), open: open}
	s.busy = !open && l.fetching[queue] > 0
	l.clearings = append(l.clearings, s)
	if _, ok := l.set.Aliases[queue]; ok {
		return s
	}
	o := l.set.For(queue)
	for _, e := range l.mayBeIn(queue) {
		if e.put == refused || e.lost || e.state == gone {
			continue
		}
		// What came back may stand behind what has not expired, or aside. So may what a process before has delayed, also if
		// nobody knows whether a power cut has left it so.
		untouched := e.touched.IsZero() && e.lease == nil && e.hidden.IsZero() && !e.blurred.After(s.began)
		if o.ExpireTo != "" && !open && e.put >= found && untouched && l.hasExpired(e, s.began) {
			e.moving = true // it goes elsewhere
			continue
		}
		s.entries = append(s.entries, e)
	}
	return s
}

// endClearing ends a flush, or a delete, and says whether it was acknowledged.
func (l *ledger) endClearing(s *clearing, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.frozen {
		l.applyClearing(s, ok)
	}
}

// applyClearing is endClearing, with mu held.
func (l *ledger) applyClearing(s *clearing, ok bool) {
	s.ended = true
	o := l.set.For(s.queue)
	busy := !s.open && (l.fetching[s.queue] > 0 || !l.fetched[s.queue].Before(s.began))
	for _, e := range s.entries {
		e.cleared = l.now()
		if e.state == gone {
			continue
		}
		untouched := s.open || e.holder == nil && e.touched.Add(returnTime).Before(s.began)
		if e.touched.IsZero() {
			untouched = true
		}
		expires := o.ExpireTo != "" && l.mayHaveExpired(e) || l.mayBeDead(e, l.leasing[e.queue]) // it may be there already
		sure := ok && !expires && !busy && !s.busy && e.state == here && e.queue == s.queue && e.put == confirmed && e.ended.Before(s.began) &&
			e.touched.Before(s.began) && untouched && !(e.holder != nil && !s.open)
		if e.blurred.After(s.began) || l.asides[e.queue].After(s.began) {
			sure = sure && s.open // it may be leased
		}
		if s.open {
			e.holder = nil
		}
		stays := e.holder != nil && !s.open && !l.stopping && !l.mayTimeOut(e.queue) // open reads do
		if le := e.lease; le != nil {                                                // and leases
			sure = false
			stays = !s.open && !le.doubt && !le.busy && l.now().Before(le.safe) && le.heard.Before(s.began) && e.newest.Before(le.heard)
			if s.open {
				le.doubt = true
			}
		}
		l.trace(e, "flushed or deleted: sure %t", sure)
		if !sure {
			if e.state == here && !stays {
				e.state = maybe
			}
			continue
		}
		e.state, e.goneAt, e.goneSync, e.holder = gone, l.now(), l.set.For(s.queue).Sync, nil
		l.live[e.queue] -= int64(len(l.items[e.n].data))
	}
	// What was put meanwhile may be gone too.
	for _, e := range l.mayBeIn(s.queue) {
		if e.state == gone || e.started.Before(s.began) {
			continue
		}
		if e.cleared = l.now(); e.state == here && e.holder == nil {
			e.state = maybe
		}
		if e.lease != nil && s.open {
			e.lease.doubt = true
		}
	}
}

// mayBeIn returns the entries that may be in a queue: those put to it, and those that expire into it.
func (l *ledger) mayBeIn(queue string) []*entry {
	all := l.queues[queue]
	if queue == deadLetterQueue {
		all = slices.Clone(all)
		for _, name := range slices.Sorted(maps.Keys(l.queues)) {
			for _, e := range l.queues[name] {
				if name != queue && l.deadLetters(name) == queue && l.mayBeDead(e, l.leasing[e.queue]) {
					all = append(all, e)
				}
			}
		}
	}
	if queue == "dead" {
		all = slices.Concat(all, l.queues["x"])
	}
	return all
}

// mayMove reports whether an item that was put to a queue may end in another one. That may be where it expires to, or
// what takes the dead letters of either. The caller holds mu.
func (l *ledger) mayMove(from, to string) bool {
	expired := l.set.For(from).ExpireTo
	return expired == to || l.deadLetters(from) == to || expired != "" && l.deadLetters(expired) == to
}
