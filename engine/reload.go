package engine

import (
	"errors"
	"runtime"

	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// Reload replaces the settings, which it keeps. Queues that exist take on their new options at
// once, for the items they hold too. It returns what Settings.Validate finds, and then changes
// nothing.
//
// If queues enter the journal or leave it, Reload waits until that is durable; an error that wraps
// ErrJournal says that it is not known to be. A queue whose backlog cannot be synced, so that it
// cannot enter the journal, keeps its options; the error says why.
func (e *Engine) Reload(s Settings) error {
	defer contain()
	if err := s.Validate(); err != nil {
		return err
	}
	e.reloadMu.Lock()
	defer e.reloadMu.Unlock()
	if e.closed.Load() {
		return ErrClosed
	}
	e.countAliases(s.Aliases, Now()) // before anybody can put to a new one
	current := newPolicy(s)
	e.settings.Store(current)
	var failed error
	e.eachQueue(func(q *queue) {
		opts, entering := current.shared(q.name), false
		set := func() {
			if !q.deleted {
				entering = e.setOptions(q, opts)
			}
		}
		defer func() {
			if entering {
				e.enterReads(q)
			}
		}()
		q.shard.mu.Lock()
		if opts.KeepJournal && !q.opts.KeepJournal && (q.backlog != nil || q.isLong()) {
			q.shard.mu.Unlock()
			failed = errors.Join(failed, e.enterLong(q, set))
			return
		}
		set()
		q.shard.mu.Unlock()
	})
	// Also what an earlier reload changed must be durable: its commit may have failed.
	end := e.journal.End()
	return errors.Join(failed, e.Commit(Ticket{Written: end, Synced: end}))
}

// enterLong calls set, which has q enter the journal, when the backlog has what is too long to be copied to the journal
// with the shard locked. It waits for the disk, and returns the error that keeps it from calling set.
func (e *Engine) enterLong(q *queue, set func()) error {
	if err := e.spool.whenSynced(q, func() {}); err != nil { // most of it, so that markAhead sees what is gone there
		return err
	}
	e.markAhead(q)
	return e.spool.whenSynced(q, set)
}

// OptionsFor returns the options that the queue called name has, or would have.
func (e *Engine) OptionsFor(name string) QueueOptions { return e.settings.Load().For(name) }

// setOptions gives q new options and, if they say so, takes it out of the journal or into it. A queue with
// waiters has nothing to hand out (I4), so new options cannot give them an item: only who may wait is looked at
// again. If it returns true, the caller unlocks the shard and calls enterReads.
func (e *Engine) setOptions(q *queue, opts *QueueOptions) (entering bool) {
	was := q.opts.KeepJournal
	q.opts = opts
	q.endRefused()
	switch {
	case was && !opts.KeepJournal:
		e.forgo(q, nil)
		q.letGoSegments()
	case !was && opts.KeepJournal:
		e.enterJournal(q, false)
		if entering = q.open.Len()+q.returned.Len() > 0; entering {
			q.aborting++
		}
	}
	if q.open.Len() > 0 && opts.OpenReadTimeout > 0 {
		q.shard.timed[q] = struct{}{}
	}
	e.shrink(q)
	return entering
}

// enterReads records the reads that enterJournal has left, in pieces. A fetch from the queue waits meanwhile, so what
// is open may come back, but what has come back is not opened again.
//
// A process that ends before a reload is acknowledged may leave a queue without these items: nobody relies on them yet.
func (e *Engine) enterReads(q *queue) {
	var last ReadRef // on its way to another queue, which may have been left too
	for at, more := (readCursor{}), true; more; {
		now := e.spool.now()
		q.shard.mu.Lock()
		if more = e.enterSomeReads(q, &at); !more {
			q.aborting--
			if r := q.moving.Last(); r != nil {
				last = ReadRef{r, r.id}
			}
			e.serve(q, now)
		}
		e.unlock(q.shard, now)
		if !at.large.IsZero() {
			e.keepLarge(at.large, &at.item, func(r *read) bool { return r.pinned == 0 && r.state != readMoving })
		}
		e.journal.Write(e.journal.End()) // or a client would write all of it; Reload's commit says what failed
		runtime.Gosched()
	}
	if !last.IsZero() {
		e.awaitMoves(q, last)
	}
}

// enterSomeReads records reads of checkpointBatch bytes, about, or one that is large. It reports whether there may be
// more.
func (e *Engine) enterSomeReads(q *queue, at *readCursor) (more bool) {
	at.large = ReadRef{}
	n, seen := 0, 0
	for lists := [...]*readList{&q.open, &q.returned}; q.inJournal() && at.list < len(lists); at.list++ {
		r := lists[at.list].First()
		if last := at.after; last.live() && last.r.q == q {
			r = last.r.link.Next()
		}
		for ; r != nil; r = r.link.Next() {
			if n >= checkpointBatch || seen >= readBatch {
				return true
			}
			at.after = ReadRef{r, r.id}
			seen++
			if r.pinned != 0 || q.backlog != nil && q.backlog.holds(r.item.ID) {
				continue
			}
			if r.item.HasOwnMemory() {
				at.large, at.item = at.after, r.item
				return true
			}
			e.keepRead(q, r)
			n += len(r.item.Data) + keepOverhead
		}
		at.after = ReadRef{}
	}
	return false
}

// letGoSegments has no item of q, which has left the journal, hold a segment of it.
func (q *queue) letGoSegments() {
	q.segments.Clear()
	for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} {
		for r := list.First(); r != nil; r = r.link.Next() {
			r.lieIn(0)
		}
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		q.lieIn(r, 0)
	}
}

// enterJournal records a queue that was not in the journal, and what it holds, under a new number:
// the old one may have been recorded as deleted. The runs of its backlog are synced, and nothing is
// on its way to them.
//
// It copies what of the queue is in memory alone in one hold of the lock: other clients of the shard wait for a
// millisecond per hundred KiB or so. When a RELOAD turns keep_journal on, that is smallBytes of its line at most, see
// enterLong, and what is aside, or has come back and counts. The other reads are left to enterReads, unless all is set.
// After a sync that failed all is set, since puts are refused anyway.
func (e *Engine) enterJournal(q *queue, all bool) LSN {
	next := q.nextID
	q.number, q.nextID = e.lastNumber.Add(1), 1
	q.removal, q.spilled = journal.Removal{}, false // they are about the old number
	e.recordName(q)
	q.nextID = next
	put := func(it Item) (seg uint64) {
		_, seg = e.journal.Put([]record.Destination{{Queue: q.number, Item: it.ID}}, it, record.Destination{})
		return seg
	}
	b := q.backlog
	q.segments.Clear()
	enter := func(it Item) bool {
		q.mark(put(it), it.ID)
		return true
	}
	if b != nil {
		for _, r := range b.spent {
			r.recorded = runs.State{} // open reads in it are recorded apart
		}
		for _, r := range b.runs {
			r.recorded = r.written
		}
	}
	e.recordBacklog(q)
	q.spilledTo = q.writtenTo
	q.window.From(&q.shard.pool, q.writtenTo+1, enter)
	if b != nil {
		b.recent.Each(enter)
	}
	for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} { // behind the puts, whose ids must rise
		for r := list.First(); r != nil; r = r.link.Next() {
			r.lieIn(0)
			inRun := b != nil && b.holds(r.item.ID)
			if r.changed || !inRun && (all || list == &q.moving) {
				e.keepRead(q, r)
			}
		}
	}
	if q.aside != nil {
		for _, r := range q.aside.hidden.Runs() {
			e.recordHidden(q, r)
		}
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		e.rewriteAside(q, r)
	}
	end := e.recordName(q) // with the next id, which may be past those of the items
	q.puts = recentPuts{newest: end}
	return end
}
