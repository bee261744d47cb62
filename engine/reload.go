package engine

import (
	"errors"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// Reload replaces the settings, which it keeps. Queues that exist take on their new options at once, for the items they
// hold too. It returns what Settings.Validate finds, and then changes nothing.
//
// If queues enter the journal or leave it, Reload waits until that is durable. An error that wraps ErrJournal says
// that it may not be. A queue whose backlog cannot be synced, so that it cannot enter the journal, keeps its options;
// the error says why.
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
	e.aliases.Know(s.Aliases, Now()) // before anybody can put to a new one
	current := newPolicy(s)
	e.settings.Store(current)
	var failed error
	e.eachQueue(func(q *queue) { failed = errors.Join(failed, e.reloadQueue(q, current.shared(q.name))) })
	// Also what an earlier reload changed must be durable: its commit may have failed.
	end := e.journal.End()
	return errors.Join(failed, e.Commit(Ticket{Written: end, Synced: end}))
}

// reloadQueue gives q new options. It does in pieces what a queue with much that is open or aside needs to enter the
// journal, or to leave it.
func (e *Engine) reloadQueue(q *queue, opts *QueueOptions) (err error) {
	cross := func(*queue) {}
	set := func() {
		if !q.deleted {
			cross = e.setOptions(q, opts)
		}
	}
	q.shard.mu.Lock()
	if opts.KeepJournal && !q.opts.KeepJournal && (q.backlog != nil || q.isLong()) {
		q.shard.mu.Unlock()
		err = e.spool.whenSynced(q, set) // of what is long, most is in the backlog then
	} else {
		set()
		q.shard.mu.Unlock()
	}
	cross(q)
	processor.InPieces(&q.shard.mu, e.opts.yield, q.endRefused)
	return err
}

// OptionsFor returns the options that the queue called name has, or would have.
func (e *Engine) OptionsFor(name string) QueueOptions { return e.settings.Load().For(name) }

// setOptions gives q new options and, if they say so, takes it out of the journal or into it. A queue with waiters
// has nothing to hand out (I4), so new options cannot give them an item. Reload only checks again which of them may
// wait. The caller unlocks the shard and then calls cross.
func (e *Engine) setOptions(q *queue, opts *QueueOptions) (cross func(*queue)) {
	was, leaves := q.opts.KeepJournal, q.opts.KeepJournal && !opts.KeepJournal
	if leaves {
		q.left = q.ticket(e.journal, e.forget(q)) // as its options said until now
	}
	q.opts = opts
	if opts.DequeueClientID != "" {
		q.asked = q.waiters.First()
	}
	cross = func(*queue) {}
	switch {
	case leaves:
		q.segments.Clear()
		cross = q.crossBy(e.letGo)
	case !was && opts.KeepJournal:
		e.beginEntering(q)
		cross = q.crossBy(func(q *queue) { e.enterRest(q, e.pause) })
	}
	if q.open.Len() > 0 && opts.OpenReadTimeout > 0 {
		q.shard.timed[q] = struct{}{}
	}
	e.shrink(q)
	return cross
}

// crossBy returns f, by which q enters the journal, or leaves it, in pieces, or a function that does nothing.
func (q *queue) crossBy(f func(*queue)) func(*queue) {
	if q.hasMore() {
		q.beginCrossing()
		return f
	}
	return func(*queue) {}
}

// hasMore reports whether q has more than the items in line in memory.
func (q *queue) hasMore() bool {
	return q.open.Len()+q.returned.Len()+q.moving.Len() > 0 || q.aside != nil || q.backlog != nil
}

// beginCrossing has fetches from q wait until endCrossing: what is open or aside may come back, but what came back is
// not taken again.
func (q *queue) beginCrossing() {
	q.crossing = true
	q.aborting++
}

// endCrossing ends what crossBy has begun. Items that are on their way to another queue have arrived when it returns.
func (e *Engine) endCrossing(q *queue) {
	now, last := e.spool.now(), ReadRef{}
	q.shard.mu.Lock()
	q.crossing, q.entering = false, false
	q.aborting--
	if q.inJournal() {
		q.puts = recentPuts{newest: e.journal.End()}
	}
	if r := q.moving.Last(); r != nil {
		last = ReadRef{r, r.id}
	}
	if q.backlog != nil {
		e.spool.wantRecord(q) // it was put off
	}
	e.serveWaiters(q, now)
	e.unlock(q.shard, now)
	if !last.IsZero() {
		e.awaitMoves(q, last)
	}
}

// letGo has no item of q, which has left the journal, hold a segment of it. It does so in pieces.
func (e *Engine) letGo(q *queue) {
	e.letGoAll(q)
	e.endCrossing(q)
}

func (e *Engine) letGoAll(q *queue) {
	var at readCursor
	processor.InPieces(&q.shard.mu, e.opts.yield, func() (more bool) { return q.letGoSome(&at) })
}

// letGoSome is a piece of letGo, and reports whether there may be more.
func (q *queue) letGoSome(at *readCursor) (more bool) {
	return at.each(q, readBatch, func(r *read) { r.lieIn(0) }, func(r aside.Ref) { q.lieIn(r, 0) },
		&q.open, &q.returned, &q.moving)
}

// enterRest records in pieces what beginEntering has left. Runs of the backlog come last. Each id in the range of one
// is in it then, or in a record (B6).
//
// A process that ends before a reload is acknowledged may leave a queue without a part of its items: nobody relies on
// them yet.
func (e *Engine) enterRest(q *queue, pause func()) {
	for at, more := (readCursor{}), true; more; pause() {
		q.shard.mu.Lock()
		more = e.enterSome(q, &at)
		q.shard.mu.Unlock()
	}
	q.shard.mu.Lock()
	hiding := q.hiddenRuns()
	q.shard.mu.Unlock()
	for _, r := range hiding {
		e.recordHiddenAgain(q, r)
		pause()
	}
	e.enterBacklog(q, pause)
	e.endCrossing(q)
}

// enterSome records reads and items aside of enterBatch bytes, about. It reports whether there may be more.
func (e *Engine) enterSome(q *queue, at *readCursor) (more bool) {
	if !q.inJournal() {
		return false
	}
	n, seen := 0, 0
	full := func() bool { return n >= e.opts.enterBatch || seen >= readBatch }
	for r := range at.reads(q, &q.open, &q.returned) {
		if full() {
			return true
		}
		if seen++; r.pinned != 0 || !r.changed && q.backlog != nil && q.backlog.contains(r.item.ID) {
			continue
		}
		e.keepRead(q, r)
		n += len(r.item.Data) + keepOverhead
	}
	for r := range at.asides(q) {
		if full() {
			return true
		}
		if seen++; q.aside.Segment(r) != 0 || q.livesInRun(q.aside.ID(r)) != nil {
			continue
		}
		n += int(pinSize(len(q.aside.Item(r).Data)))
		e.rewriteAside(q, r)
	}
	return false
}

// enterBacklog records the backlog of q in pieces: what is gone, and then the runs.
func (e *Engine) enterBacklog(q *queue, pause func()) {
	t := telling{e: e, q: q, yield: func(int64) bool { pause(); return true }}
	q.shard.mu.Lock()
	known := q.recordedRuns()
	q.spilled = q.spilled || len(known) > 0
	t.begin()
	gone := q.beginGone(q.inJournal() && q.spilled)
	q.shard.mu.Unlock()
	all := gone.end()
	if all.IsEmpty() || t.gone(all) {
		t.runs(known)
	}
}

// beginEntering records a queue that was not in the journal under a new number: the old one may have been recorded as
// deleted. The runs of its backlog are synced, and nothing is on its way to them.
//
// It copies to the journal the items in line that are in memory alone, and keeps the shard locked meanwhile. That is
// smallBytes, about; see whenSynced. The others are left to enterRest.
func (e *Engine) beginEntering(q *queue) {
	next := q.nextID
	q.number, q.nextID = e.lastNumber.Add(1), 1
	q.removal, q.spilled = journal.Removal{}, false // they are about the old number
	e.recordName(q)
	q.nextID = next
	q.segments.Clear()
	enter := func(it Item) bool {
		_, segment := e.journal.Put([]record.Destination{{Queue: q.number, Item: it.ID}}, it, record.Destination{})
		q.noteSegment(segment, it.ID)
		return true
	}
	q.spilledTo = q.writtenTo
	q.window.From(&q.shard.pool, q.writtenTo+1, enter)
	if b := q.backlog; b != nil {
		for _, r := range b.spent {
			r.unrecord() // open reads in it are recorded apart
		}
		for _, r := range b.runs {
			r.recorded = r.written
		}
		b.recent.Each(enter)
	}
	q.puts = recentPuts{newest: e.recordName(q)} // with the next id, which may be past those of the items
}
