package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// Delayed items that take too much memory, or hold old segments of the journal, go to hidden runs (see package hidden).
// They come back into memory shortly before they are due. hide.go writes runs, and reads them back.
//
// Where an item lives decides what a start takes it from. An item aside, or in a read, may live in a run: it was read
// back, or has stayed in memory since. Then the journal need not have it. A record of what becomes of it has its image
// too, and it leaves the run. A record that it is gone has none.

const (
	// defaultReadBack is how long before they are due items are read back. When they are written, their due time must
	// be twice as far away.
	defaultReadBack = 3 * time.Second
	// delayedOverhead is how many bytes a delayed item takes in memory beside its body, about.
	delayedOverhead = 96
	// hideShare is the part of a queue's memory, one in so many bytes, that delayed items may take before they are
	// written. readShare is the part for items that were read back. smallShare is what is worth a run.
	hideShare, readShare, smallShare = 2, 4, 16
	// hideRetry is how long a queue is left alone in which nothing could be hidden.
	hideRetry = time.Second
	// hiddenPiece is how many hidden runs a walk looks at before it unlocks the shard.
	hiddenPiece = 1024
)

// hiddenRuns are the hidden runs of a queue, and what is wanted of them. The shard's mutex guards them.
//
// H5  An item aside may have no place in the journal, which has its queue. Then it lives in a run that is written,
// unless it is Restored. One that is on disk alone is nowhere else.
type hiddenRuns struct {
	hidden.Set
	registered             bool // the spool tends it
	queuedHide, queuedRead bool // on the spool's lists
	reading                bool // being read back: the spool sets the alarm when it has
	urgent                 bool // little is worth a run too
	blocked                bool // the next frame is to be read when there is room for it
	retryAt                Time // nothing is hidden before
}

// livesInRun returns the run that is written and has an item; nil if none has.
func (q *queue) livesInRun(id uint64) *hidden.Run {
	if q.aside == nil || len(q.aside.hidden.Runs()) == 0 {
		return nil
	}
	if r := q.aside.hidden.Find(id); r != nil && !r.IsWriting() {
		return r
	}
	return nil
}

// hiddenRuns returns the hidden runs of q.
func (q *queue) hiddenRuns() []*hidden.Run {
	if q.aside == nil {
		return nil
	}
	return slices.Clone(q.aside.hidden.Runs())
}

// leaveRun notes that an item with a body of that size does not live in a hidden run any more. It reports
// whether the item lived in one that is written: then the journal has no image of it.
func (q *queue) leaveRun(id uint64, size int) bool {
	if q.aside == nil || len(q.aside.hidden.Runs()) == 0 {
		return false
	}
	r := q.aside.hidden.Leave(id, size)
	return r != nil && !r.IsWriting()
}

// delayedMemory is how many bytes the delayed items in memory take, about.
func (q *queue) delayedMemory() int64 {
	if q.aside == nil {
		return 0
	}
	t := q.aside.Tally(aside.Delayed)
	return t.Bytes + delayedOverhead*t.Count
}

// hiddenDisk is what of the queue is on disk alone in hidden runs.
func (q *queue) hiddenDisk() (t item.Tally) {
	if q.aside == nil {
		return t
	}
	return q.aside.hidden.Disk()
}

// eachIn calls f for the items of a hidden run, in its frames from one on, until it returns false. Their Data is valid
// during the call. The caller holds readMu.
func (s *spool) eachIn(r *hidden.Run, from int, f func(hidden.Entry) bool) error {
	if err := s.hiddenReader.EachFrom(r, from, f); err != nil {
		return fmt.Errorf("%w: %w", ErrBacklog, err)
	}
	return nil
}

// hiddenEntry is what asideItems would know of an item of a hidden run.
func hiddenEntry(e hidden.Entry) aside.Entry {
	return aside.Entry{State: aside.Delayed, Due: e.Due, Count: e.Count}
}

// hideMany asks for delayed items of q to be hidden if they take too much memory.
func (e *Engine) hideMany(q *queue) {
	if q.delayedMemory() > q.opts.MaxMemorySize/hideShare {
		e.wantHide(q, false)
	}
}

// wantHide asks for delayed items of q to be hidden. The caller holds the shard's mutex.
func (e *Engine) wantHide(q *queue, urgent bool) {
	h := &q.aside.hidden
	if h.queuedHide || q.deleted || e.precise.Now() < h.retryAt {
		return
	}
	h.queuedHide, h.urgent = true, urgent
	e.spool.hides.Add(q)
}

// hiddenSoon is when the next frame of q is to be read back; zero if nothing is on disk, or it is asked for.
func (e *Engine) hiddenSoon(q *queue) Time {
	h := &q.aside.hidden
	r, due := h.Soonest()
	switch {
	case r == nil || h.queuedRead || h.reading:
		return 0
	case !h.blocked:
		return max(due-e.readBack, 1)
	case due >= e.precise.Now():
		return max(due, 1)
	}
	return 0 // when others have been taken; see wantMore
}

// mayReadBack reports whether the next frame of q is to be read back now. Then its items are due soon, and there is
// room for them, or nothing else to hand out.
func (e *Engine) mayReadBack(q *queue) bool {
	h := &q.aside.hidden
	r, due := h.Soonest()
	if r == nil || due-e.readBack >= e.precise.Now() {
		return false
	}
	if due < e.precise.Now() && q.aside.Tally(aside.Ready).Count == 0 {
		return true
	}
	disk := h.Disk()
	each := delayedOverhead + disk.Bytes/max(disk.Count, 1)
	return h.Read()*each < q.opts.MaxMemorySize/readShare && !e.memoryShort()
}

// readSoon has the next frame of q read back if its items are due soon. The caller holds the shard's mutex.
func (e *Engine) readSoon(q *queue) {
	h := &q.aside.hidden
	r, due := h.Soonest()
	if r == nil || h.queuedRead || due-e.readBack >= e.precise.Now() {
		return
	}
	if h.blocked = !e.mayReadBack(q); !h.blocked {
		e.wantRead(q)
	}
}

// wantRead asks for the next frame of q.
func (e *Engine) wantRead(q *queue) {
	if h := &q.aside.hidden; !h.queuedRead {
		h.queuedRead = true
		e.spool.fills.Add(q)
	}
}

// wantMore is called when an item that was aside has been taken: there may be room for others.
func (e *Engine) wantMore(q *queue) {
	if q.aside.hidden.blocked {
		e.readSoon(q)
	}
}

// hiddenComing reports whether an item of q that is due is on its way from a hidden run.
func (e *Engine) hiddenComing(q *queue) bool {
	if q.aside == nil {
		return false
	}
	r, due := q.aside.hidden.Soonest()
	return r != nil && due < e.precise.Now()
}

// recordHidden records what lives in a hidden run of q, if it is written, and returns how many bytes that took,
// about. The caller holds the shard's mutex.
func (e *Engine) recordHidden(q *queue, r *hidden.Run) int64 {
	if r.IsWriting() || r.Live().Count == 0 {
		return 0
	}
	state := record.Hidden{
		Index: r.Index, End: r.End, From: int64(r.From()), Bytes: r.Live().Bytes, IDs: r.IDs().AppendTo(nil),
	}
	e.journal.RecordNew(q.number, func(b []byte) []byte { return record.AppendHidden(b, q.number, r.ID, state) })
	return int64(len(state.IDs)) + record.MaxHiddenSize
}

// eachHidden calls f for the hidden runs of q, some at a time with the shard locked.
func (s *spool) eachHidden(q *queue, f func(*hidden.Run)) {
	q.shard.mu.Lock()
	all := q.hiddenRuns()
	q.shard.mu.Unlock()
	processor.EachInPieces(&q.shard.mu, s.e.opts.yield, all, func(r *hidden.Run) {
		if !r.IsDropped() {
			f(r)
		}
	})
}
