package engine

import (
	"strings"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// queue is a named FIFO of items. The mutex of its shard guards it; name, shard and created never
// change.
//
// Invariants, checked by verify after every test:
//
//	I1  An item is in exactly one place: window, returned, open, moving, aside, or gone.
//	I2  Items that no client has seen are in window in put order; those in returned are handed out
//	    before them, and those that are ready aside by their ids.
//	I3  A put, a remove, and whatever else must survive is acknowledged only with its Ticket.
//	I4  If somebody waits, nothing is queued, not even an expired item, unless the queue's head is
//	    unsettled.
//	I5  A fanout child is in the children of its parent's name, in the same shard, as long as it
//	    exists.
//	I6  No item of the queue that has its place in the journal lies in a segment before
//	    windowSegment(), or before the first of its shard's pins if it was handed out or is aside.
//	I7  The alarm rings for the queue no later than something aside is due.
type queue struct {
	name    string
	number  uint64 // names the queue in the journal; zero: the journal has it no more, see forgo
	shard   *shard
	created Time
	opts    *QueueOptions // shared with others; replaced as a whole by Reload
	deleted bool

	nextID   uint64
	returned readList    // handed out once and brought back; the next to hand out first
	window   item.Window // never handed out
	backlog  *backlog    // of a queue that is in read-behind, or has runs left; nil otherwise
	aside    *sideline   // nil until something is delayed or leased, and then for good
	open     readList    // handed out and not confirmed, longest ago first
	moving   readList    // expired, on their way to another queue, in the order in which they arrive
	waiters  waiterList
	carried  bool    // somebody carries what is in moving: see finishMoves
	sweeping bool    // expired items at the head are being removed in the background: see sweepLater
	aborting int     // AbortAll calls that bring items back in pieces
	family   *family // of the queue's fanout children; nil without any

	removal  journal.Removal // of the last one
	puts     recentPuts      // see putTicket
	segments []segmentMark   // see windowSegment
	// Items up to writtenTo that were in the window or behind it are in runs; up to spilledTo the
	// journal says so.
	writtenTo, spilledTo uint64
	spilled              bool // the journal may mention runs, including deleted ones
	counters             queueCounters
	lastGone             Time // when the item removed last was added
	// behindLogged is when entering read-behind was logged last.
	behindLogged Time
	meter        *Meter // nil until the queue is used
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
}

// segmentMark says that items from id on lie in this segment of the journal or a later one.
type segmentMark struct {
	segment uint64
	id      uint64
}

// queueMemory is how many bytes a queue takes that holds nothing, about: itself with its histograms,
// of which a busy one has more, and its places in tables. TestQueueMemory holds it to what is measured.
const queueMemory = 1280

// memory is what of the memory limit the queue takes beside its items.
func (q *queue) memory() int64 { return queueMemory + int64(len(q.name)) }

// items is the number of items queued, open reads not included.
func (q *queue) items() int64 {
	n := q.window.Count + q.returned.Len()
	if b := q.backlog; b != nil {
		n += b.count + b.recent.Count
	}
	if q.aside != nil {
		n += q.asideQueued().Count
	}
	return n
}

// bytes is the size of their bodies.
func (q *queue) bytes() int64 {
	n := q.window.Bytes + q.returned.bytes
	if b := q.backlog; b != nil {
		n += b.bytes + b.recent.Bytes
	}
	if q.aside != nil {
		n += q.asideQueued().Bytes
	}
	return n
}

// isChild reports whether the queue is a fanout child.
func (q *queue) isChild() bool { return strings.Contains(q.name, "+") }

// first returns the item to hand out next, unless there is none or it is on its way from disk. Its
// Data is valid until it is removed.
func (q *queue) first() (it Item, ok bool) {
	if r := q.returned.First(); r != nil {
		return r.item, true
	}
	if q.aside != nil {
		if it, ok := q.firstReady(); ok {
			return it, true
		}
	}
	if q.window.Count > 0 {
		return q.window.First(), true
	}
	return it, false
}

// expired reports whether the item's time is over: its own expiry, or its age by the options of
// now.
func (q *queue) expired(it Item, now Time) bool {
	if it.Expiry != 0 && it.Expiry < now {
		return true
	}
	return q.opts.MaxAge > 0 && it.Added.After(q.opts.MaxAge) < now
}

// admitEnqueue returns why the queue takes no put of that client, or nil. The list of a fanout
// child is ignored: who may put to the parent is asked once.
func (q *queue) admitEnqueue(clientID string) error {
	if c := q.opts.EnqueueClientID; c == "" || c == clientID || q.isChild() {
		return nil
	}
	return &NotAdmittedError{Queue: q.name, ClientID: clientID, Enqueue: true}
}

// admitDequeue returns why that client may not remove from the queue, or nil.
func (q *queue) admitDequeue(clientID string) error {
	if c := q.opts.DequeueClientID; c == "" || c == clientID {
		return nil
	}
	return &NotAdmittedError{Queue: q.name, ClientID: clientID}
}

// mayExpire reports whether the item to hand out next may have expired: most queues hold nothing
// that ever does, and need not look.
func (q *queue) mayExpire() bool {
	return q.window.Expiring > 0 || q.opts.MaxAge > 0 || q.returned.First() != nil || q.aside != nil
}

// drop removes it, which must be the item to hand out next, from memory.
func (e *Engine) drop(q *queue, it Item) {
	q.lastGone = it.Added
	if r := q.returned.First(); r != nil {
		q.returned.remove(r)
		q.shard.freeRead(r)
		return
	}
	if r, ok := q.readyNow(it); ok {
		q.dropAside(r)
		return
	}
	q.window.Pop(&q.shard.pool, it)
	if q.backlog != nil {
		e.popped(q)
	}
}

// takeNext takes the item to hand out next, which is it, out of line, and returns it as a read, in state
// free or returned.
func (e *Engine) takeNext(q *queue, it Item) *read {
	if r := q.returned.First(); r != nil {
		q.returned.remove(r)
		return r
	}
	if r, ok := q.readyNow(it); ok {
		return q.takeAside(r)
	}
	r := q.shard.newRead(q, it, q.segmentOf(it.ID))
	q.window.Pop(&q.shard.pool, it)
	if q.backlog != nil {
		e.popped(q)
	}
	return r
}

// remove records in the journal that item id is gone.
func (q *queue) remove(j *journal.Journal, id uint64) Ticket {
	if !q.opts.KeepJournal {
		return Ticket{}
	}
	return q.ticket(j, j.Remove(&q.removal, q.number, id, q.nextID))
}

// recordName records that q exists, and its next id.
func (e *Engine) recordName(q *queue) LSN {
	return e.journal.Record(q.number, func(b []byte) []byte {
		return record.AppendQueue(b, q.number, q.nextID, q.created, q.name)
	})
}

// rewriteItem records an item of q that was put before once more. Its place in the journal is then the
// segment returned, or a later one.
func (e *Engine) rewriteItem(q *queue, it Item) (seg uint64) {
	return e.journal.Keep(&q.removal, q.number, it)
}

// ticket is what an operation of the queue, just recorded up to lsn, must wait for.
func (q *queue) ticket(j *journal.Journal, lsn LSN) Ticket {
	if d := q.opts.Sync.Period(); d > 0 {
		j.SyncWithin(d)
	}
	return q.ticketAt(lsn)
}

// recentPuts says where in the journal the newest items of a queue are: those up to id have no record
// behind older, the others none behind newest. So a fetch knows what the put of its item waits for, and
// no item has to carry it.
type recentPuts struct {
	id            uint64
	older, newest LSN
}

// notePut notes that items from first on were recorded up to lsn. As soon as all items are committed
// it distinguishes those from the new ones.
func (q *queue) notePut(j *journal.Journal, first uint64, lsn LSN) {
	if p := &q.puts; j.Committed(q.ticketAt(p.older)) {
		p.id, p.older = first-1, p.newest
	}
	q.puts.newest = lsn
}

// putTicket is what the put of item id waited for, or of one put a little later.
func (q *queue) putTicket(id uint64) Ticket {
	if id <= q.puts.id {
		return q.ticketAt(q.puts.older)
	}
	return q.ticketAt(q.puts.newest)
}

// ticketAt is what an operation of the queue that is recorded up to lsn waits for.
func (q *queue) ticketAt(lsn LSN) Ticket {
	switch {
	case !q.opts.KeepJournal:
		return Ticket{}
	case q.opts.Sync == SyncAlways:
		return Ticket{Written: lsn, Synced: lsn}
	}
	return Ticket{Written: lsn}
}

// mark notes that items from id on lie in segment or later, if that is news.
func (q *queue) mark(seg, id uint64) {
	if n := len(q.segments); n == 0 || q.segments[n-1].segment < seg {
		q.trimSegments()
		q.segments = append(q.segments, segmentMark{seg, id})
	}
}

// journaled returns the lowest id that an item may have which was never handed out and has its
// place in the journal, and whether there can be one.
func (q *queue) journaled() (first uint64, ok bool) {
	first = max(q.headID(), q.spilledTo+1)
	return first, first < q.nextID
}

// trimSegments forgets the marks that no item needs which was never handed out.
func (q *queue) trimSegments() {
	first, ok := q.journaled()
	if !ok {
		q.segments = q.segments[:0]
		return
	}
	n := 0
	for n+1 < len(q.segments) && q.segments[n+1].id <= first {
		n++
	}
	q.segments = append(q.segments[:0], q.segments[n:]...)
}

// segmentOf returns a segment of the journal before which item id, which is in the window, does not
// lie; zero if it has its place in a run, or the queue is not in the journal.
func (q *queue) segmentOf(id uint64) uint64 {
	if id <= q.spilledTo {
		return 0
	}
	return q.markOf(id)
}

// markOf returns the segment that the marks name for item id.
func (q *queue) markOf(id uint64) (seg uint64) {
	for _, m := range q.segments {
		if m.id > id {
			break
		}
		seg = m.segment
	}
	return seg
}

// windowSegment returns the oldest segment of the journal that may hold an item of the queue which
// was never handed out, and false if none does.
func (q *queue) windowSegment() (seg uint64, ok bool) {
	if !q.opts.KeepJournal {
		return 0, false
	}
	first, ok := q.journaled()
	if !ok || len(q.segments) == 0 {
		return 0, false
	}
	return max(q.markOf(first), q.segments[0].segment), true
}

// inJournal reports whether the journal has q: the process that comes next brings it back. The caller
// holds the shard's mutex, and asks again whenever it has unlocked it.
func (q *queue) inJournal() bool { return q.opts.KeepJournal && !q.deleted }
