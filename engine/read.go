package engine

import (
	"math/bits"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/list"
)

// readState is where the item of a read is. Only (*read).to changes it; the shard's mutex guards it.
//
//	free     -> open      fetched tentatively, or delivered to a waiter
//	free     -> copied    shown to a waiting peek; the item itself stays queued
//	free     -> moving    expired or given up, on its way to another queue
//	open     -> returned  aborted, timed out, or its client went away
//	open     -> free      confirmed, leased or delayed, or its queue was deleted
//	open     -> moving    given up, on its way to the dead-letter queue
//	returned -> open      fetched tentatively again
//	returned -> moving    expired, on its way to another queue
//	returned -> free      fetched for good, leased, expired, discarded, flushed, or its queue was deleted
//	copied   -> free      received, or its waiter went away
//	moving   -> free      arrived in the other queue, lost, or set aside again
//	moving   -> returned  the dead-letter queue cannot take it
type readState uint8

const (
	readFree readState = iota
	readOpen
	readReturned
	readCopied
	readMoving
)

// readEdges has a bit for each state that a read may go to.
var readEdges = [...]uint8{
	readFree:     1<<readOpen | 1<<readCopied | 1<<readMoving,
	readOpen:     1<<readReturned | 1<<readFree | 1<<readMoving,
	readReturned: 1<<readOpen | 1<<readMoving | 1<<readFree,
	readCopied:   1 << readFree,
	readMoving:   1<<readFree | 1<<readReturned,
}

// read is an item outside its queue's window: open, or returned to the head, or about to leave. It
// holds a copy of the item, or the memory of a large one. The shard's mutex guards it; shard itself never changes.
type read struct {
	shard *shard
	id    uint64 // identity of this use; 0 while free. A ReadRef with another id is stale
	state readState
	kept  uint8 // which of freeReads it comes back to, plus one; zero: none
	q     *queue
	item  Item // Data aliases buf
	// No segment of the journal before this one holds the item. Zero: the item has its place in a
	// run, or the queue is not in the journal. Only lieIn changes it.
	pinned uint64
	opened Time
	held   bool   // fetched with Hold: the queue's open-read timeout is not for it
	target string // the queue it goes to; of moving reads alone
	dead   Why    // why it goes to the dead-letter queue; zero: it does not
	again  Time   // when it is due again, if that queue cannot be made; zero: at once
	// Deliveries that have ended and count. changed says that the journal has a change record of the item.
	count    uint16
	changed  bool
	deadline Time         // when its lease lapses; zero without one
	leaseAt  int          // its place among the leases of its queue
	buf      []byte       // of a size class, or as long as one large item
	shared   *item.Shared // instead of buf: other copied reads have the same memory; nil: none has

	link list.Link[read] // in a list of the queue, or a pool
}

func (r *read) to(s readState) {
	if readEdges[r.state]&(1<<s) == 0 {
		r.misstep(s)
	}
	r.state = s
}

func (r *read) misstep(s readState) {
	panic(invariant("read of item %d of queue %q goes from state %d to %d", r.item.ID, r.q.name, r.state, s))
}

// ReadRef names an open read. A caller may use it after the read has ended by a timeout or with its queue; it then
// names nothing. The zero ReadRef names nothing.
type ReadRef struct {
	r  *read
	id uint64
}

// IsZero reports whether ref is the zero ReadRef.
func (ref ReadRef) IsZero() bool { return ref.r == nil }

// live reports whether ref still names its read: those of a deleted queue may not have been given back
// yet. The caller holds the shard's mutex.
func (ref ReadRef) live() bool {
	return ref.id != 0 && ref.r.id == ref.id && (ref.r.state != readOpen || !ref.r.q.deleted)
}

// readList is a list of reads.
type readList struct {
	list.List[read]
	bytes int64               // of the items' bodies
	byID  *list.Ordered[read] // nil unless there are many; see index
}

func (l *readList) pushBack(r *read) {
	l.PushBack(&r.link, r)
	l.took(r)
}

func (l *readList) pushFront(r *read) {
	l.PushFront(&r.link, r)
	l.took(r)
}

// took counts r, and notes for those who walk over the reads of its queue that it goes to a list.
func (l *readList) took(r *read) {
	l.bytes += int64(len(r.item.Data))
	r.q.noteTaken(r.item.ID, r.state != readReturned)
	if k := r.q.keeping; k != nil {
		k.note(r)
	}
	if l.byID != nil || l.Len() > fewReads {
		l.index(r)
	}
}

// fewReads is how many reads of a list are gone through one by one.
const fewReads = 256

// index has r, which has come into the list, be found by its id: and all the others, if only now there are many.
func (l *readList) index(r *read) {
	if l.byID != nil {
		r.shard.pool.Memory.Add(l.byID.Add(r.item.ID, r))
		return
	}
	l.byID = new(list.Ordered[read])
	for o := l.First(); o != nil; o = o.link.Next() {
		r.shard.pool.Memory.Add(l.byID.Add(o.item.ID, o))
	}
}

// unindex is index for a read that has left.
func (l *readList) unindex(r *read) {
	r.shard.pool.Memory.Add(l.byID.Remove(r.item.ID))
	if l.byID.Len() < fewReads/2 {
		r.shard.pool.Memory.Add(-l.byID.Memory())
		l.byID = nil
	}
}

// find returns the read of the item with an id, or nil.
func (l *readList) find(id uint64) *read {
	if l.byID != nil {
		return l.byID.Find(id)
	}
	for r := l.First(); r != nil; r = r.link.Next() {
		if r.item.ID == id {
			return r
		}
	}
	return nil
}

// eachFrom calls f with the reads of items from an id on. Many come in the order of ids, until f returns false.
func (l *readList) eachFrom(id uint64, f func(*read) bool) {
	if l.byID != nil {
		l.byID.EachFrom(id, f)
		return
	}
	for r := l.First(); r != nil; r = r.link.Next() {
		if r.item.ID >= id {
			f(r)
		}
	}
}

func (l *readList) remove(r *read) {
	r.letGo()
	l.Remove(&r.link)
	l.bytes -= int64(len(r.item.Data))
	if l.byID != nil {
		l.unindex(r)
	}
}

// Read buffers come in sizes 64 · 4^k bytes.
const (
	minReadSize  = 64
	readClasses  = 7   // up to 256 KiB
	readOverhead = 224 // bytes of the read itself, about
)

func readClassSize(class int) int { return minReadSize << (2 * class) }

// readClass is the class of the smallest buffers with room for n bytes, or readClasses if none has.
func readClass(n int) int {
	if n <= minReadSize {
		return 0
	}
	return min((bits.Len(uint(n-1))-6+1)/2, readClasses)
}

// memory is how many bytes the read takes.
func (r *read) memory() int { return cap(r.buf) + readOverhead }

// newRead returns a read of q in state free, with an identity of its own. It holds a copy of the item, or the memory
// that a large item has of its own.
func (sh *shard) newRead(q *queue, it *Item, seg uint64) *read {
	stored := it.Stored()
	class := readClass(len(stored))
	var r *read
	if class == readClasses { // nobody changes what it has
		r = &read{shard: sh, buf: stored[:len(stored):len(stored)]}
	} else {
		if r = sh.freeReads[class].Pop(); r != nil {
			sh.pool.Free.Reuse(r.memory())
		} else {
			r = &read{shard: sh, kept: uint8(1 + class), buf: make([]byte, readClassSize(class))}
		}
		copy(r.buf, stored)
	}
	sh.pool.Memory.Add(int64(r.memory()))
	sh.lastRead++
	r.id, r.q = sh.lastRead, q
	r.item = *it
	r.item.Data = r.buf[:len(it.Data)]
	r.pin(seg)
	return r
}

// show returns a copied read of it, for a waiter that peeks. Those that see the same item have one copy of it; last is
// the one before.
func (sh *shard) show(q *queue, it *Item, last *read) *read {
	sh.lastRead++
	r := &read{shard: sh, id: sh.lastRead, q: q}
	if last != nil && last.item.ID == it.ID {
		r.item, r.shared = last.item, last.shared
	} else {
		if r.item = *it; !it.HasOwnMemory() {
			r.item = it.Clone()
		}
		r.shared = &item.Shared{Size: int64(len(it.Stored()))}
		sh.pool.Memory.Add(r.shared.Size)
	}
	r.shared.Use()
	sh.pool.Memory.Add(int64(r.memory()))
	r.to(readCopied)
	return r
}

// freeRead ends a read that is in no list.
func (sh *shard) freeRead(r *read) {
	r.to(readFree)
	if r.shared != nil && r.shared.Drop() {
		sh.pool.Memory.Add(-r.shared.Size)
	}
	r.unpin()
	r.q.unhold(r)
	r.id, r.q, r.item, r.target = 0, nil, Item{}, ""
	r.dead, r.again, r.count, r.changed = 0, 0, 0, false
	sh.pool.Memory.Add(-int64(r.memory()))
	if r.kept == 0 || !sh.pool.Free.Store(r.memory()) {
		r.buf = nil // references to r may outlive it
		return
	}
	sh.freeReads[r.kept-1].Push(&r.link, r)
}

// trimBatch is how many chunks and reads trim lets go of at most before the shard is unlocked for a moment.
const trimBatch = 256

// trim leaves chunks and reads to the collector that nobody has needed since the last trim. It reports
// whether that was all of them; what is left then counts as not needed until somebody does.
func (sh *shard) trim() (all bool) {
	for range trimBatch {
		if !sh.pool.Trim() && !sh.trimRead() {
			sh.pool.Free.CountIdle()
			return true
		}
	}
	return false
}

// trimRead is pool.trim for the largest read.
func (sh *shard) trimRead() bool {
	for class := readClasses - 1; class >= 0; class-- {
		if r := sh.freeReads[class].Top(); r != nil && sh.pool.Free.IsIdle(r.memory()) {
			sh.freeReads[class].Pop()
			sh.pool.Free.Release(r.memory())
			return true
		}
	}
	return false
}

// lieIn notes that the item of r lies in that segment of the journal, or in a later one. Zero says
// that it lies in none.
func (r *read) lieIn(seg uint64) {
	r.unpin()
	r.pin(seg)
}

// pin is lieIn for a read whose item lies in no segment.
func (r *read) pin(seg uint64) {
	if seg != 0 && r.q.opts.KeepJournal && !r.q.entering {
		r.pinned = seg
		r.shard.pins.Of(seg).Add(1, int64(len(r.item.Data))+keepOverhead)
	}
}

// unpin is lieIn of no segment.
func (r *read) unpin() {
	if r.pinned != 0 {
		r.shard.pins.Of(r.pinned).Add(-1, -int64(len(r.item.Data))-keepOverhead)
		r.pinned = 0
	}
}

// letGo unpins the segment of r if its item is in a run that was just recorded, and has no change record. A start
// then has the item from the run alone.
func (r *read) letGo() {
	if o := r.q.letting; o != nil && !r.changed && o.recorded.Contains(r.item.ID) {
		r.lieIn(0)
	}
}

// leaving is the ids of runs whose files are to go, and reads in them that move meanwhile, and might be passed over.
type leaving struct {
	ids  idset.Bitmap
	late []ReadRef
}

// has reports whether the place of the item of r is in one of the runs.
func (l *leaving) has(r *read) bool { return r.pinned == 0 && l.ids.Has(r.item.ID) }

// note has a read looked at again that goes to another list. The caller holds the shard's mutex.
func (l *leaving) note(r *read) {
	if l.has(r) {
		l.late = append(l.late, ReadRef{r, r.id})
	}
}
