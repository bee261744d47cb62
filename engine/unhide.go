package engine

import (
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/segment"
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
	f := r.Frames[n]
	q.shard.mu.Unlock()
	entries, err := s.readHidden(r, f)
	stale := func() bool { return q.deleted || !slices.Contains(h.Runs(), r) || r.Next() != n }
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if err != nil {
		if !stale() {
			s.hiddenFailed(q, r, err)
		}
		return
	}
	until := s.e.steady() + 2*s.e.readBack
	later := Time(0) // when the first is due that stays on disk
	if i := slices.IndexFunc(entries, func(e hidden.Entry) bool { return e.Due > until && e.Due > f.First }); i >= 0 {
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

// readHidden reads the items in a frame of a hidden run. The caller holds readMu; Data is valid until the next call.
func (s *spool) readHidden(r *hidden.Run, f hidden.Frame) (entries []hidden.Entry, err error) {
	tag, body, err := s.reader.Read(r.File, f.Offset, r.End, s.hiddenBody[:0])
	if err != nil {
		return nil, err
	}
	s.hiddenBody, s.hiddenEntries = body, s.hiddenEntries[:0]
	err = hidden.EachEntry(tag, body, func(e hidden.Entry) bool {
		e.Item = e.Item.Apart()
		s.hiddenEntries = append(s.hiddenEntries, e)
		return true
	})
	if err != nil {
		return nil, &segment.CorruptionError{Path: r.Path, Offset: f.Offset, Reason: err.Error()}
	}
	return s.hiddenEntries, nil
}

// eachIn calls f for the items of a hidden run, in its frames from one on, until it returns false. Their Data is valid
// during the call. The caller holds readMu.
func (s *spool) eachIn(r *hidden.Run, from int, f func(hidden.Entry) bool) error {
	for _, frame := range r.Frames[from:] {
		entries, err := s.readHidden(r, frame)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBacklog, err)
		}
		for _, e := range entries {
			if !f(e) {
				return nil
			}
		}
	}
	return nil
}

// hiddenEntry is what asideItems would know of an item of a hidden run.
func hiddenEntry(e hidden.Entry) aside.Entry {
	return aside.Entry{State: aside.Delayed, Due: e.Due, Count: e.Count}
}

// hiddenFailed notes that a hidden run cannot be read on. The caller holds the shard's mutex.
func (s *spool) hiddenFailed(q *queue, r *hidden.Run, err error) {
	q.aside.hidden.Fail(r, err)
	q.counters.readErrors++
	s.e.log.Error("delayed items could not be read: those in this file are not served", "queue", q.name, "file", r.Path, "err", err)
}

// eachHiddenEntry calls f for the items of hidden runs of q that are on disk alone, until f returns false. It goes run
// by run, and by their ids in each. Data is valid during the call.
func (s *spool) eachHiddenEntry(q *queue, f func(hidden.Entry) bool) error {
	if q.aside == nil {
		return nil
	}
	for _, r := range q.aside.hidden.Runs() {
		var all []hidden.Entry
		for i := r.Next(); r.Disk().Count > 0 && i < len(r.Frames); i++ {
			entries, err := s.readHidden(r, r.Frames[i])
			if err != nil {
				return err
			}
			for _, e := range entries {
				if r.OnDisk(e.ID) {
					e.Item = e.Item.Clone()
					all = append(all, e)
				}
			}
		}
		slices.SortFunc(all, hidden.ByID)
		for _, e := range all {
			if !f(e) {
				return nil
			}
		}
	}
	return nil
}
