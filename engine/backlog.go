package engine

import (
	"cmp"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// backlog is the part of a queue that is on disk, and what belongs to it. A queue that has outgrown
// its memory is in read-behind; it then consists of, oldest first:
//
//	queue.window      read back from the runs, or kept in memory when it was written to them
//	behind            on disk alone: from next on to the end of the runs
//	leaving           chunks that are being written, or wait for it
//	recent            in memory, and in the journal
//
// Items come back into the window in the order of their ids, so a fetch looks at the window alone.
// The queue leaves read-behind when nothing is between window and recent any more; the two are then
// joined. Runs stay, also after that, as long as an item in them is in the window.
//
// The mutex of the queue's shard guards it.
//
// Invariants, checked by verify:
//
//	B1  count is that of behind and leaving; onDisk is the count of behind. So are bytes, beside those of unsized.
//	B2  Unless the queue is in read-behind, count is zero, and leaving and recent are empty.
//	B3  Ids rise from the window over behind and leaving to recent, and from run to run.
//	B4  Every item in the window with an id up to the queue's writtenTo is in a run of runs; an
//	    item that is not in memory is in one too.
//	B5  Up to the queue's spilledTo the runs are synced, and the journal says so. What is behind
//	    that has its place in the journal still (I6).
//	B6  Every id that a run's range names is in the run, or is covered by a record that the journal
//	    still has: it is gone, rewritten, or the queue is deleted. Behind the record that deletes a
//	    queue the journal says nothing of its number. See forgo, forget.
//	B7  What the file of marks says is gone does not live. Of runs that are recorded, the journal says everything else
//	    that is gone.
type backlog struct {
	inReadBehind bool
	count        int64
	bytes        int64
	onDisk       int64
	nextID       uint64 // no item of behind and leaving has an id below it
	leaving      item.Window
	recent       item.Window
	next         place // of the first item behind; no run if there is none
	// oldest is when the first item was added that a start has found behind; zero if it could not be read.
	oldest Time

	runs    []*run // oldest first
	growing *run   // the last of runs, if the next chunk goes into it
	// spent holds runs that no item of the queue needs any more but open ones; reclaim moves those
	// to the journal and removes the files.
	spent []*run
	// gone are ids of removed items that runs may still have, from headID on: they were removed out of their order.
	gone idset.Bitmap
	// marks is the file that has gone, as the last checkpoint left it; nil if there is none. spentMarks are those
	// that the journal does not name any more, once it is synced.
	marks      *marks.File
	spentMarks []*marks.File
	// unsized are those of gone whose bodies bytes still counts: nobody has seen how large they are.
	unsized idset.Bitmap
	// failed is why nothing more can be read: damage, or an error of the disk.
	failed error
	// epoch is raised when everything queued is dropped: work under way outside the lock then comes to nothing.
	epoch uint64
	// left is how often the queue has left read-behind.
	left uint64

	owed

	entered     bool          // that q is in read-behind is to be logged
	leaveLogged bool          // that it leaves is logged, as entering was
	writing     int64         // items of count in chunks that are being written
	flying      []*item.Chunk // that are being written
	spilling    bool          // a batch is being written, even if all of it was removed meanwhile
	cut         []uint64      // ids that were cut out of these
	hold        bool          // nothing leaves recent for now
	missed      bool          // a fetch has found nothing but what cannot be written
	back        bool          // that has come back into the window, and is to leave again
	thin        bool          // a run may be to be written again without what is gone
	thinAt      Time          // none is before
	thinFrom    uint64        // runs with lower ids alone have been looked at
	recordDue   bool          // what is written is to be synced and recorded at the next opportunity

	queuedSpill, queuedFill, queuedRecord bool // on the spool's lists
}

// place is where reading of the runs goes on.
type place = runs.Cursor[run]

// frontLimit is how many bytes of items a queue in read-behind may read into its window: half of its memory.
func (q *queue) frontLimit() int64 { return q.opts.MaxMemorySize / 2 }

// fillLimit is up to how many bytes of items its window is filled from the disk. What is read much
// earlier than it is asked for has left the processor's caches by then; a few items are, however large.
func (q *queue) fillLimit() int64 {
	if q.window.Count < minFilled {
		return q.frontLimit()
	}
	return min(q.frontLimit(), maxFilled)
}

// refillAt is down to how many bytes its window goes before it is filled again. The spool fills little and often. A
// large fill would keep the processor from the event loops for long. It would also not use the chunks that the loops
// have just given back.
func (q *queue) refillAt() int64 {
	limit := q.fillLimit()
	return max(limit/2, limit-fillBatch)
}

// recentLimit is how many bytes of items its recent part may hold: the other half, or what a window
// that is larger leaves of it.
func (q *queue) recentLimit() int64 {
	limit := q.opts.MaxMemorySize
	return max(min(limit/2, limit-q.window.Bytes), 0)
}

// outgrows reports whether an item of n bytes would take the queue over its memory.
func (q *queue) outgrows(n int) bool {
	return q.window.Count > 0 && q.window.Bytes+int64(n) > q.opts.MaxMemorySize
}

// needBacklog returns the backlog of q, and makes it if there is none.
func (e *Engine) needBacklog(q *queue) *backlog {
	if q.backlog == nil {
		q.backlog = &backlog{}
		e.spool.queues.Add(q)
	}
	return q.backlog
}

// enterReadBehind makes the part of the window that is in no run the recent part. The caller
// detaches from it what is too much.
func (e *Engine) enterReadBehind(q *queue) {
	b := e.needBacklog(q)
	if b.inReadBehind {
		return
	}
	b.inReadBehind, b.entered = true, true
	b.recent = q.window.Split(q.writtenTo)
}

// newest returns the window that takes the next item, of n bytes; q enters read-behind if it has no
// room. The caller calls overflow when it has pushed to it.
func (e *Engine) newest(q *queue, n int) *item.Window {
	b := q.backlog
	if b == nil || !b.inReadBehind {
		if !q.outgrows(n) || b != nil && b.hold {
			return &q.window
		}
		e.enterReadBehind(q)
	}
	return &q.backlog.recent
}

// overflow has what is too much in the recent part of q leave.
func (e *Engine) overflow(q *queue) {
	b := q.backlog
	if b == nil || !b.inReadBehind {
		return
	}
	e.detach(q, q.recentLimit())
	if b.count == 0 { // all that was too much is in runs already
		e.detach(q, -1)
	}
}

// detach has the oldest recent chunks leave until no more than limit bytes are left; all of them if limit is negative.
func (e *Engine) detach(q *queue, limit int64) {
	b := q.backlog
	if b.recent.Bytes <= limit || b.recent.Count == 0 || b.hold {
		return
	}
	for b.recent.Count > 0 && b.recent.Bytes > limit {
		c := b.recent.Detach()
		if b.count == 0 {
			b.nextID = c.FirstID
		}
		b.count += c.Count
		b.bytes += c.Bytes
		b.leaving.Attach(c)
	}
	e.spool.wantSpill(q)
}

// leaveReadBehind joins window and recent, between which nothing is any more. The run that was
// growing takes no more: live items between two of its frames would be taken for removed ones.
func (e *Engine) leaveReadBehind(q *queue) {
	b := q.backlog
	b.inReadBehind, b.growing, b.next = false, nil, place{}
	b.left++
	q.window.Seal()
	q.window.Join(&b.recent)
	e.spool.wantRecord(q)
}

// popped is called after an item has left the window of a queue with a backlog.
func (e *Engine) popped(q *queue) {
	b := q.backlog
	if b.onDisk > 0 && q.window.Bytes <= q.refillAt() && !e.memoryShort() {
		e.wantFill(q)
	}
	if len(b.runs) > 0 && b.runs[0].written.LastID < q.headID() {
		e.retire(q)
	}
}

// shrink has a queue whose memory holds more than it may spill the rest.
func (e *Engine) shrink(q *queue) {
	if q.outgrows(0) && q.window.Count > 1 {
		e.enterReadBehind(q)
	}
	if b := q.backlog; b != nil && b.inReadBehind {
		e.overflow(q)
		if q.window.Count > 1 && q.window.Bytes > q.frontLimit() {
			e.unload(q)
		}
		if b.count == 0 {
			e.leaveReadBehind(q)
		}
	}
}

// coming reports whether items of q are on their way into its empty window.
func (q *queue) coming() bool { return q.backlog != nil && q.backlog.count > 0 }

// retire moves runs from which every item was handed out to spent, for reclaim. A run that still takes items, or is
// about to, stays.
func (e *Engine) retire(q *queue) {
	b, head, n := q.backlog, q.headID(), 0
	for n < len(b.runs) && b.runs[n] != b.growing && !b.runs[n].busy && b.runs[n].written.LastID < head {
		n++
	}
	if n > 0 {
		b.spent = append(b.spent, b.runs[:n]...)
		clear(b.runs[:n])
		b.runs = b.runs[n:]
		e.spool.wantRecord(q)
	}
	b.gone.RemoveBelow(head)
}

// runsFrom returns the runs that have items from one on.
func (b *backlog) runsFrom(id uint64) []*run {
	i, _ := slices.BinarySearchFunc(b.runs, id, func(r *run, id uint64) int { return cmp.Compare(r.written.LastID, id) })
	return b.runs[i:]
}

// runOf returns the run that has the item of id, which lives, or nil.
func (b *backlog) runOf(id uint64) *run {
	if from := b.runsFrom(id); len(from) > 0 && from[0].written.Contains(id) {
		return from[0]
	}
	return nil
}

// contains reports whether id, which lives, is that of an item in a run.
func (b *backlog) contains(id uint64) bool { return b.runOf(id) != nil }

// unload drops the window of a queue in read-behind from memory; it can be read again.
func (e *Engine) unload(q *queue) {
	b, w := q.backlog, &q.window
	b.next = runs.At(b.runsFrom(w.FirstID)[0], w.FirstID)
	b.nextID = w.FirstID
	b.count, b.bytes, b.onDisk = b.count+w.Count, b.bytes+w.Bytes, b.onDisk+w.Count
	w.Clear(&q.shard.pool)
}

// dropBacklog forgets every queued item of the backlog; the runs are spent. The caller gives the memory
// of those that were in memory back.
func (e *Engine) dropBacklog(q *queue) {
	b := q.backlog
	b.epoch++
	b.leaving, b.recent = item.Window{}, item.Window{}
	b.count, b.bytes, b.onDisk, b.failed = 0, 0, 0, nil
	b.spent = append(b.spent, b.runs...)
	b.runs = nil
	b.inReadBehind, b.growing, b.next, b.gone, b.unsized = false, nil, place{}, idset.Bitmap{}, idset.Bitmap{}
	b.flying = nil
	b.owed = owed{}
	e.spool.wantRecord(q)
}

// headID returns an id from which on everything lies that was never handed out.
func (q *queue) headID() uint64 {
	if q.window.Count > 0 {
		return q.window.FirstID
	}
	if b := q.backlog; b != nil {
		if b.count > 0 {
			return b.nextID
		}
		if b.recent.Count > 0 {
			return b.recent.FirstID
		}
	}
	return q.nextID
}

// A put is in the journal at once, and in memory. The disk takes it a second time, for the backlog, in the
// background. Clients that are faster than the disk would get ahead of it without bound. Items that wait to be
// written take memory. Until they are recorded and synced, the journal cannot drop them, and a restart reads it. So
// puts say so, in Stored.Ahead, and their clients wait.

// maxLeaving is how many bytes of items may wait to be written for a queue in read-behind, beyond its MaxMemorySize.
// Beyond that puts to it are ahead of the disk. More would not be faster, and takes new memory, which an event loop is
// the first to touch.
const maxLeaving = 8 << 20

// Ahead reports whether a client should wait before it puts more to the queue called name. Its fanout children count
// too, and so do the queues that an alias stands for; see Stored. Any goroutine may call it, at any time.
func (e *Engine) Ahead(name []byte) bool {
	defer contain()
	for _, target := range e.settings.Load().Aliases[string(name)] {
		if e.Ahead([]byte(target)) {
			return true
		}
	}
	sh, q := e.lockQueue(name)
	defer sh.mu.Unlock()
	if q == nil || e.closed.Load() { // nothing is written any more
		return false
	}
	if q.family != nil {
		for _, child := range q.family.children {
			if e.ahead(child) {
				return true
			}
		}
	}
	return e.ahead(q)
}

// ahead reports whether q is ahead of the disk. One that fails is not waited for: puts are refused
// when there is no room for them any more. The caller holds the shard's mutex.
func (e *Engine) ahead(q *queue) bool {
	b := q.backlog
	readBehind := b != nil && b.inReadBehind
	if readBehind && q.inMemory()+b.leaving.Bytes > q.opts.MaxMemorySize+maxLeaving {
		return !e.spool.failing.Load()
	}
	if q.delayedMemory() > q.opts.MaxMemorySize+maxLeaving {
		return !e.spool.hideFailing.Load()
	}
	return q.opts.KeepJournal && e.journal.Outgrown(readBehind) && !e.spool.failing.Load()
}

// run is one file of a queue's backlog. The mutex of the queue's shard guards it; its File never changes.
type run struct {
	runs.File

	written runs.State
	// recorded is the part that is synced and, as the journal says, part of the queue; its end is
	// zero if there is none.
	recorded runs.State
	// writer is that of the file while it may have to be written or synced. The spool's writing side writes to it as
	// long as the run grows; the recording side syncs it, and closes it after that.
	writer *segment.RunWriter
	// busy says that the writing side is writing a batch to the file. The run stays the queue's, and
	// the writer open, until addBatch or putBack has accounted for the batch.
	busy bool
	// made is when the file was made: see nameInDoubt.
	made runs.Birth
	// places says where frames begin. The spool's readMu guards it.
	places runs.Places
	// extended says that items that are not plain may be in it.
	extended bool
	thin     thinning
	removed  bool // the file; of a spent run
	// broken says that a sync failed: what is written and not recorded can be read for now, and is
	// to be written elsewhere.
	broken bool
}

// unrecord has the journal not name r again.
func (r *run) unrecord() { r.recorded = runs.State{} }

// inMemory is how many bytes of items spilling the queue would take out of memory.
func (q *queue) inMemory() int64 {
	n := q.window.Bytes
	if b := q.backlog; b != nil {
		n += b.recent.Bytes
	}
	return n
}

// isLong reports whether more than smallBytes of the queue's line are in memory alone. The caller holds the shard's
// mutex.
func (q *queue) isLong() bool {
	n := 0
	add := func(it Item) bool {
		n += len(it.Data) + item.PlainImageSize
		return n <= smallBytes
	}
	q.window.From(&q.shard.pool, q.writtenTo+1, add)
	if b := q.backlog; b != nil {
		b.leaving.Each(add)
		b.recent.Each(add)
	}
	return n > smallBytes
}
