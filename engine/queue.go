package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/list"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
)

// Item is an item of a queue as a reader sees it.
type Item = item.Item

// Time is an instant in milliseconds since the Unix epoch, the resolution of everything the engine
// keeps. Event loops read the clock once per turn and pass it on. As an expiry, zero means never.
type Time = item.Time

// At returns t as a Time; the zero time.Time gives zero.
func At(t time.Time) Time { return item.At(t) }

// Now is the present.
func Now() Time { return item.Now() }

// queue is a named FIFO of items. The mutex of its shard guards it; name, shard and created never change.
//
// Invariants, checked by verify after every test:
//
//	I1  An item is in exactly one place: window, returned, open, moving, aside, or gone.
//	I2  Items that no client has seen are in window in put order; those in returned are handed out
//	    before them, and those that are ready aside by their ids.
//	I3  A put, a remove, and whatever else must survive is acknowledged only with its Ticket.
//	I4  If somebody waits, nothing is queued, not even an expired item, unless the queue's head is
//	    busy, as headBusy says.
//	I5  A fanout child is in the children of its parent's name, in the same shard, as long as it
//	    exists.
//	I6  No item of the queue that has its place in the journal lies in a segment before
//	    windowSegment(), or before the first of its shard's pins if it was handed out or is aside.
//	I7  The alarm rings for the queue no later than something aside is due.
type queue struct {
	name    string
	number  uint64 // names the queue in the journal; zero: the journal has it no more, see forget
	shard   *shard
	created Time
	opts    *QueueOptions // shared with others; replaced as a whole by Reload
	deleted bool

	nextID   uint64
	returned readList       // handed out once and brought back; the next to hand out first
	window   item.Window    // never handed out
	backlog  *backlog       // of a queue that is in read-behind, or has runs left; nil otherwise
	aside    *asideItems    // nil until something is delayed or leased, and then for good
	keys     *keyindex.Keys // nil until something is put with a key, and then for good
	open     readList       // handed out and not confirmed, longest ago first
	moving   readList       // expired, on their way to another queue, in the order in which they arrive
	waiters  waiterList
	watchers list.List[Waiter]
	hearing  int64            // so many of the watchers, the first, are still to hear of something: see serveMore
	heard    error            // what they hear; nil: items may be there
	asked    *Waiter          // the next of waiters that a Reload has to look at; nil: none
	carried  bool             // somebody carries what is in moving: see finishMoves
	sweeping bool             // expired items at the head are being removed in the background: see sweepLater
	settling bool             // what is owed to items at the head is being done in the background: see settle
	aborting int              // calls of Return that bring items back in pieces, and a crossing
	crossing bool             // it enters the journal, or leaves it, in pieces: see crossBy
	entering bool             // it is about to enter the journal that replaces another, see enter; crossing is set too
	walks    []*idset.Bitmap  // ids that live, of what is being gathered by a goneWalk
	flushes  []*marks.Staying // of flushes that look for what stays
	keeping  *leaving         // what forgo is recording of it; nil if nothing
	letting  *run             // the one recorded last, until its reads have let go of their segments; then nil
	clears   uint64           // how often all that was queued was dropped
	family   *family          // of the queue's fanout children; nil without any
	child    bool             // it is a fanout child

	removal  journal.Removal   // of the last one
	puts     recentPuts        // see putTicket
	left     Ticket            // what removals wait for since it left the journal; zero: it has not
	segments trim.ItemSegments // see windowSegment
	// Items up to writtenTo that were in the window or behind it are in runs; up to spilledTo the journal says so.
	writtenTo, spilledTo uint64
	spilled              bool // the journal may mention runs, including deleted ones
	counters             queueCounters
	lastGone             Time // when the item removed last was added
	// readBehindLogged is when entering read-behind was logged last.
	readBehindLogged Time
	meter            *Meter // nil until the queue is used
}

// queueCounters count since the queue was made, or the process started.
type queueCounters struct {
	puts, putBytes  int64 // accepted by Put
	replayed        int64 // items found in the journal at start
	hits, misses    int64 // fetches and peeks that found an item, or none
	expired         int64
	discarded       int64
	flushes         int64
	opens, returns  int64 // open reads begun while items were queued; brought back
	readErrors      int64 // reads of the backlog that failed
	movedIn, lostIn int64 // expired items taken over from other queues, and those refused
	redelivered     int64 // deliveries of items that had been delivered before, as far as that counts
	deadLettered    int64 // items that went to the dead-letter queue
	refusedPuts     int64 // because of the queue itself: it is full, the item too large, or one key too many
}

// items is the number of items queued, open reads not included.
func (q *queue) items() int64 {
	if q.backlog != nil || q.aside != nil {
		return q.queued().Count
	}
	return q.window.Count + q.returned.Len()
}

// bytes is the size of their bodies.
func (q *queue) bytes() int64 {
	if q.backlog != nil || q.aside != nil {
		return q.queued().Bytes
	}
	return q.window.Bytes + q.returned.bytes
}

// queued is what items and bytes return.
func (q *queue) queued() item.Tally {
	t := item.Tally{Count: q.window.Count + q.returned.Len(), Bytes: q.window.Bytes + q.returned.bytes}
	if b := q.backlog; b != nil {
		t.Count += b.count + b.recent.Count
		t.Bytes += b.bytes + b.recent.Bytes
	}
	if q.aside != nil {
		t.Add(q.asideQueued(), 1)
	}
	return t
}

// first sets it to the item to hand out next, and reports whether there is one that is not on its way from disk. Its
// Data is valid until it is removed.
func (q *queue) first(it *Item) bool {
	if r := q.returned.First(); r != nil {
		*it = r.item
		return true
	}
	if q.aside != nil && q.firstReady(it) {
		return true
	}
	if q.window.Count > 0 {
		q.window.First(it)
		return true
	}
	return false
}

// atHand reports whether first has an item.
func (q *queue) atHand() bool {
	var it Item
	return q.first(&it)
}

// expired reports whether the item's time is over: its own expiry, or its age by the options of now.
func (q *queue) expired(it *Item, now Time) bool {
	if it.Expiry != 0 && it.Expiry < now {
		return true
	}
	return q.opts.MaxAge > 0 && it.Added.After(q.opts.MaxAge) < now
}

// admitProducer returns why the queue takes no put of that client, or nil. The list of a fanout
// child is ignored: who may put to the parent is asked once.
func (q *queue) admitProducer(clientID string) error {
	if c := q.opts.EnqueueClientID; c == "" || c == clientID || q.child {
		return nil
	}
	return &NotAdmittedError{Queue: q.name, ClientID: clientID, Enqueue: true}
}

// admitConsumer returns why that client may not remove from the queue, or nil.
func (q *queue) admitConsumer(clientID string) error {
	if c := q.opts.DequeueClientID; c == "" || c == clientID {
		return nil
	}
	return &NotAdmittedError{Queue: q.name, ClientID: clientID}
}

// admitDelay returns why the queue takes no delay of that length, or nil.
func (q *queue) admitDelay(d time.Duration) error {
	if d < 0 || q.opts.MaxDelay > 0 && d > q.opts.MaxDelay {
		return ErrDelayTooLong
	}
	return nil
}

// mayExpire reports whether the item to hand out next may have expired: most queues hold nothing
// that ever does, and need not look.
func (q *queue) mayExpire() bool {
	return q.window.Expiring > 0 || q.opts.MaxAge > 0 || q.returned.First() != nil || q.aside != nil
}

// drop removes it, which must be the item to hand out next, from memory.
func (e *Engine) drop(q *queue, it *Item) {
	q.lastGone = it.Added
	q.leaves(it)
	if r := q.returned.First(); r != nil {
		q.returned.remove(r)
		q.shard.freeRead(r)
		return
	}
	if q.aside != nil {
		if r, ok := q.readyNow(it); ok {
			q.dropAside(r)
			e.wantMore(q)
			return
		}
	}
	q.window.Pop(&q.shard.pool, it)
	if q.backlog != nil {
		e.popped(q)
	}
}

// takeNext takes the item to hand out next, which is it, out of line, and returns it as a free or returned read.
func (e *Engine) takeNext(q *queue, it *Item) *read {
	if r := q.returned.First(); r != nil {
		q.returned.remove(r)
		return r
	}
	if q.aside != nil {
		if r, ok := q.readyNow(it); ok {
			taken := q.takeAside(r)
			e.wantMore(q)
			return taken
		}
	}
	r := q.shard.newRead(q, it, q.segmentOf(it.ID))
	q.window.Pop(&q.shard.pool, it)
	if q.backlog != nil {
		e.popped(q)
	}
	return r
}

// remove records in the journal that item id is gone; size is that of its body.
func (q *queue) remove(j *journal.Journal, id uint64, size int) Ticket {
	if q.aside != nil {
		q.leaveRun(id, size)
	}
	if !q.opts.KeepJournal {
		return q.left
	}
	return q.ticket(j, j.Remove(&q.removal, q.number, id, q.nextID))
}

// rewriteItem records an item of q that was put before once more. Its place in the journal is then the
// segment returned, or a later one.
func (e *Engine) rewriteItem(q *queue, it *Item) (seg uint64) {
	q.leaveRun(it.ID, len(it.Data))
	return e.journal.Keep(&q.removal, q.number, *it)
}

// noteSegment notes that items from id on lie in segment or later, if that is news.
func (q *queue) noteSegment(seg, id uint64) {
	if q.segments.IsNews(seg) {
		q.trimSegments()
		q.segments.Add(seg, id)
	}
}

// journaled returns the lowest id of an item that was never handed out and has its place in the
// journal. It also returns whether there can be one.
func (q *queue) journaled() (first uint64, ok bool) {
	first = max(q.headID(), q.spilledTo+1)
	return first, first < q.nextID
}

// trimSegments forgets the segments that no item needs which was never handed out.
func (q *queue) trimSegments() {
	if first, ok := q.journaled(); ok {
		q.segments.Forget(first)
	} else {
		q.segments.Clear()
	}
}

// segmentOf returns a segment of the journal such that item id, which is in the window, lies there or later. It is zero
// if the item has its place in a run, or the queue is not in the journal.
func (q *queue) segmentOf(id uint64) uint64 {
	if id <= q.spilledTo {
		return 0
	}
	return q.segments.Of(id)
}

// windowSegment returns the oldest segment of the journal that may hold an item of the queue which
// was never handed out. It returns false if none does.
func (q *queue) windowSegment() (seg uint64, ok bool) {
	if !q.opts.KeepJournal {
		return 0, false
	}
	first, ok := q.journaled()
	if !ok {
		return 0, false
	}
	return q.segments.From(first)
}

// inJournal reports whether the journal has q: the process that comes next brings it back. The caller
// holds the shard's mutex, and asks again whenever it has unlocked it.
func (q *queue) inJournal() bool { return q.opts.KeepJournal && !q.deleted && !q.entering }

// sayAside records what an item aside is now, with its image if the journal has none of it.
func (e *Engine) sayAside(q *queue, r aside.Ref) Ticket {
	inRun := len(q.aside.hidden.Runs()) > 0 && q.leaveRun(q.aside.ID(r), len(q.aside.Item(r).Data))
	if !q.inJournal() {
		return e.ticketOf(q)
	}
	entry := q.aside.Get(r)
	c := record.Change{Due: entry.Due, Token: entry.Token, Count: entry.Count}
	if q.aside.Segment(r) != 0 && !inRun {
		return q.ticket(e.journal, e.journal.Change(q.number, q.aside.ID(r), c))
	}
	lsn, segment := e.journal.KeepChanged(&q.removal, q.number, q.aside.Item(r), c)
	q.lieIn(r, segment)
	return q.ticket(e.journal, lsn)
}

// ticketOf is what an operation on q must wait for that relies on all that has been recorded.
func (e *Engine) ticketOf(q *queue) Ticket {
	if !q.opts.KeepJournal {
		return q.left
	}
	return q.ticket(e.journal, e.journal.End())
}

// ticketSoFar is what an operation on q must wait for that relies on all that has happened to it, also by others.
func (e *Engine) ticketSoFar(q *queue) Ticket {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	return e.ticketOf(q)
}

// rewriteAside records an item aside again, as it is, unless it lives in a hidden run.
func (e *Engine) rewriteAside(q *queue, r aside.Ref) {
	q.lieIn(r, 0)
	if q.livesInRun(q.aside.ID(r)) != nil {
		return
	}
	if q.aside.Get(r).State == aside.Restored {
		it := q.aside.Item(r)
		q.lieIn(r, e.rewriteItem(q, &it))
		return
	}
	e.sayAside(q, r)
}

// sayCount records how often the item of a read was delivered, with its image if the journal has none of it.
func (e *Engine) sayCount(q *queue, r *read) Ticket {
	r.changed = true // and if the queue enters the journal later
	inRun := q.leaveRun(r.item.ID, len(r.item.Data))
	if !q.inJournal() {
		return e.ticketOf(q)
	}
	c := record.Change{Count: r.count}
	if r.pinned != 0 && !inRun {
		return q.ticket(e.journal, e.journal.Change(q.number, r.item.ID, c))
	}
	lsn, segment := e.journal.KeepChanged(&q.removal, q.number, r.item, c)
	r.lieIn(segment)
	return q.ticket(e.journal, lsn)
}

// keepRead rewrites the item of a read in the journal, with its count if the journal knows of one.
func (e *Engine) keepRead(q *queue, r *read) {
	q.leaveRun(r.item.ID, len(r.item.Data))
	if !r.changed {
		r.lieIn(e.journal.Keep(&q.removal, q.number, r.item))
		return
	}
	_, segment := e.journal.KeepChanged(&q.removal, q.number, r.item, record.Change{Count: r.count})
	r.lieIn(segment)
}

// leaves notes that nobody can have it any more.
func (q *queue) leaves(it *Item) {
	if it.HasKey() {
		q.forgetKey(it)
	}
}

// forgetKey is leaves for an item that has a key.
func (q *queue) forgetKey(it *Item) {
	if q.keys != nil {
		q.keys.Forget(it.Key(), it.ID)
	}
}
