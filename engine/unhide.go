package engine

import (
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
)

const (
	// unhideBatch is how many frames of a queue are read back before others have their turn. unhidePiece is how many
	// items are read back before the shard is unlocked.
	unhideBatch = 16
	unhidePiece = 128
)

// unhide reads frames of hidden runs of q back, as long as they are needed now.
func (s *spool) unhide(q *queue) {
	q.shard.mu.Lock()
	if q.aside == nil || len(q.aside.hidden.Runs()) == 0 {
		q.shard.mu.Unlock()
		return
	}
	h := &q.aside.hidden
	h.queuedRead, h.reading = false, true
	overdue := s.e.hiddenComing(q)
	q.shard.mu.Unlock()
	for range unhideBatch {
		q.shard.mu.Lock()
		wanted := s.e.mayReadBack(q)
		q.shard.mu.Unlock()
		if !wanted {
			break
		}
		s.unhideFrame(q)
	}
	now := s.now()
	q.shard.mu.Lock()
	s.e.readSoon(q)
	h.reading = false
	s.e.setAlarm(q)
	if overdue && q.waiters.First() != nil { // some may wait for what has come, or has not come
		s.e.wake(q, now)
		s.e.serveWaiters(q, now)
	}
	s.e.unlock(q.shard, now)
}

// unhideFrame reads the next frame of the hidden runs of q back.
func (s *spool) unhideFrame(q *queue) {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	h := &q.aside.hidden
	q.shard.mu.Lock()
	r, _ := h.Soonest()
	if r == nil || q.deleted || s.closed {
		q.shard.mu.Unlock()
		return
	}
	n := r.Next()
	first := r.Frames[n].First
	q.shard.mu.Unlock()
	entries, err := s.hiddenReader.Frame(r, n)
	stale := func() bool { return q.deleted || !slices.Contains(h.Runs(), r) || r.Next() != n }
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if err != nil {
		if !stale() {
			s.hiddenFailed(q, r, err)
		}
		return
	}
	until := s.e.precise.Now() + 2*s.e.readBack
	later := Time(0) // when the first is due that stays on disk
	if i := slices.IndexFunc(entries, func(e hidden.Entry) bool { return e.Due > until && e.Due > first }); i >= 0 {
		entries, later = entries[:i], entries[i].Due
	}
	for some := range slices.Chunk(entries, unhidePiece) {
		if stale() {
			return
		}
		for _, e := range some {
			if h.ReadBack(r, n, e.ID, len(e.Data)) {
				s.e.setAside(q, &e.Item, 0, aside.Entry{State: aside.Delayed, Due: e.Due, Count: e.Count})
			}
		}
		q.shard.mu.Unlock()
		q.shard.mu.Lock()
	}
	switch {
	case stale():
	case later > 0:
		h.Postpone(r, n, later)
	default:
		h.Pass(r, n)
	}
}

// hiddenFailed notes that a hidden run cannot be read on. The caller holds the shard's mutex.
func (s *spool) hiddenFailed(q *queue, r *hidden.Run, err error) {
	q.aside.hidden.Fail(r, err)
	q.counters.readErrors++
	s.e.log.Error("delayed items could not be read: those in this file are not served", "queue", q.name, "file", r.Path, "err", err)
}
