package engine

import (
	"iter"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// This file records the state of every queue, in pieces, and what is to be recorded before the file of a run goes.

// checkpointRecords is how many records of a queue's state are made with its shard locked: far less than a millisecond.
const checkpointRecords = 256

// recordState records the state of every queue: its name and next id and, if it had a backlog, what is in it. It does
// so in pieces of some records of one queue, and yields the bytes of each when no lock is held.
func (e *Engine) recordState() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		passed := 0
		for i := range e.shards {
			for q := range processor.InTurn(e.shards[i].list(nil), &passed, e.opts.yield) {
				if !e.recordQueue(q, yield) {
					return
				}
			}
		}
	}
}

// recordQueue is recordState for one queue. The pieces need not be in one frame. Earlier records count until the
// checkpoint is complete, and what happens between two pieces is recorded behind the first. It reports whether to go
// on.
func (e *Engine) recordQueue(q *queue, yield func(int64) bool) bool {
	t := telling{e: e, q: q, yield: yield}
	q.shard.mu.Lock()
	t.begin()
	hiding := q.hiddenRuns()
	var recorded []*run
	if !q.crossing || q.spilled { // else enterBacklog is to record them, behind what is gone
		recorded = q.recordedRuns()
	}
	gone := q.beginGone(q.inJournal() && (len(recorded) > 0 || q.spilled))
	q.shard.mu.Unlock()
	all := gone.end()
	more := t.piece(func(buf []byte) []byte {
		return record.AppendQueue(buf, q.number, q.nextID, q.created, q.name)
	})
	more = more && (all.IsEmpty() || t.gone(all)) && t.runs(recorded)
	for _, r := range hiding {
		more = more && yield(e.recordHiddenAgain(q, r))
	}
	return more
}

// telling records the state of a queue in pieces. It records no more once the queue has left the journal. The queue may
// have entered it again under another number, and what was gathered before need not be true of that.
type telling struct {
	e      *Engine
	q      *queue
	number uint64
	file   *marks.File      // with what was gone before; nil: there was none
	yield  func(int64) bool // takes the bytes of a piece, with no lock held, and reports whether to go on
}

// begin notes how the journal has the queue. The caller holds the shard's mutex, and then looks for what is gone.
func (t *telling) begin() {
	t.number = t.q.number
	if b := t.q.backlog; b != nil {
		t.file = b.marks
	}
}

// pause lets others have the processor between two pieces. If much has been recorded it writes that before, or a client
// would have to write it. Reload's commit says what failed.
func (e *Engine) pause() {
	if end := e.journal.End(); e.journal.Unwritten(Ticket{Written: end}) >= int64(e.opts.enterBatch) {
		e.journal.Write(end)
	}
	e.opts.yield()
}

func (t *telling) piece(encode func([]byte) []byte) bool {
	q, n := t.q, int64(0)
	q.shard.mu.Lock()
	if q.inJournal() && q.number == t.number {
		t.e.journal.Record(q.number, func(buf []byte) []byte {
			n = -int64(len(buf))
			buf = encode(buf)
			n += int64(len(buf))
			return buf
		})
	}
	q.shard.mu.Unlock()
	return t.yield(n)
}

func (t *telling) runs(recorded []*run) (more bool) {
	more = true
	for some := range slices.Chunk(recorded, checkpointRecords) {
		more = more && t.piece(func(buf []byte) []byte { return t.q.appendRuns(buf, some) })
	}
	return more
}

// gone records which ids are gone: in a file, as far as that is worth it.
func (t *telling) gone(all idset.Bitmap) bool {
	others := t.e.writeMarks(t, &all)
	if m, _ := t.q.marksNow(); m != nil && !t.yield(t.e.recordMarksAgain(t.q, m)) {
		return false
	}
	return t.ranges(others.Within(idset.Between(1, math.MaxUint64)))
}

// ranges records that ids are gone, some ranges at a time.
func (t *telling) ranges(gone iter.Seq[idset.Range]) (more bool) {
	left := make(idset.Set, 0, checkpointRecords)
	tell := func() bool {
		defer func() { left = left[:0] }()
		return len(left) == 0 || t.piece(func(buf []byte) []byte { return record.AppendGone(buf, t.q.number, slices.Values(left)) })
	}
	for ids := range gone {
		if left = append(left, ids); len(left) == checkpointRecords && !tell() {
			return false
		}
	}
	return tell()
}

// recordMarksAgain records the file with what is gone of q, if that is still m. It returns how many bytes that took.
func (e *Engine) recordMarksAgain(q *queue, m *marks.File) (n int64) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if b := q.backlog; !q.inJournal() || b == nil || b.marks != m {
		return 0
	}
	e.recordMarks(q, new(idset.Bitmap))
	return record.MaxMarksSize
}

// recordHiddenAgain records a hidden run of q for a checkpoint, and returns how many bytes that took.
func (e *Engine) recordHiddenAgain(q *queue, r *hidden.Run) (n int64) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if !q.inJournal() || r.IsDropped() {
		return 0
	}
	return e.recordHidden(q, r)
}

// recordSpilled records how much of a run of q is synced. The caller holds the shard's mutex.
func (e *Engine) recordSpilled(q *queue, r *run) {
	q.spilled = true
	e.journal.Record(q.number, func(buf []byte) []byte { return q.appendRuns(buf, []*run{r}) })
}

func (q *queue) appendRuns(buf []byte, recorded []*run) []byte {
	for _, r := range recorded {
		if r.recorded.End > 0 { // else forgo lets go of it meanwhile
			buf = record.AppendSpill(buf, q.number, r.ID, r.recorded)
		}
	}
	return buf
}

// forget records that q leaves the journal: it is deleted, or no longer has one. Its number goes with it, so that no
// later record can name it (B6). The caller holds the shard's mutex.
func (e *Engine) forget(q *queue) LSN {
	end := e.journal.Delete(q.number)
	q.number = 0
	return end
}

// forgo writes to the journal, in pieces, what must stand there before the files of spent runs of q go (B6). That is
// reads and items aside that live in them, and what is gone of them. It returns the runs whose files may go once the
// journal is synced up to end: out of the others an item is moving. The caller holds recordMu, so q cannot enter the
// journal.
func (e *Engine) forgo(q *queue, spent []*run) (free []*run, end LSN) {
	sh, k := q.shard, keeping{e: e, q: q}
	for _, r := range spent { // what is recorded of them changes with recordMu held alone
		if r.recorded.Count > 0 {
			k.ids.AddRange(r.recorded.IDs())
		}
	}
	sh.mu.Lock()
	if !q.inJournal() || len(spent) == 0 {
		sh.mu.Unlock()
		return spent, e.journal.End()
	}
	q.keeping = &k.leaving
	t := telling{e: e, q: q, number: q.number, yield: func(int64) bool { e.pause(); return true }}
	sh.mu.Unlock()
	for q.keeping != nil { // nobody else sets it
		sh.mu.Lock()
		if !k.piece() {
			q.keeping = nil
		}
		sh.mu.Unlock()
		e.pause()
	}
	free = slices.DeleteFunc(spent, func(r *run) bool { return k.stay.Count(r.recorded.IDs()) > 0 })
	var wanted idset.Set
	for some := range slices.Chunk(free, checkpointRecords) {
		sh.mu.Lock()
		for _, r := range some {
			for _, ids := range r.recorded.IDs().Minus(q.thinnedFrom(r)) {
				wanted = wanted.Add(ids)
			}
			r.unrecord() // no checkpoint may name it behind what is recorded now
		}
		sh.mu.Unlock()
		e.pause()
	}
	sh.mu.Lock()
	gone := q.beginGone(true)
	sh.mu.Unlock()
	all := gone.end()
	for _, ids := range wanted {
		t.ranges(all.Within(ids))
	}
	return free, e.journal.End()
}

// keeping records in pieces what lives of runs whose files are to go.
type keeping struct {
	leaving
	e    *Engine
	q    *queue
	at   readCursor
	stay idset.Bitmap // ids of items that are on their way to another queue: the runs that have them stay
}

// needs reports whether a read is to be recorded.
func (k *keeping) needs(r *read) bool {
	if r.state == readMoving && k.has(r) {
		k.stay.Add(r.item.ID)
		return false
	}
	return k.has(r)
}

// piece is a part of forgo of a batch of items. It reports whether there may be more.
func (k *keeping) piece() (more bool) {
	q, seen, bytes := k.q, 0, 0
	if !q.inJournal() {
		return false
	}
	full := func() bool { return seen >= readBatch || bytes >= k.e.opts.enterBatch }
	keep := func(r *read) {
		if seen++; k.needs(r) {
			k.e.keepRead(q, r)
			bytes += len(r.item.Data) + keepOverhead
		}
	}
	for r := range k.at.reads(q, &q.returned, &q.open, &q.moving) {
		if full() {
			return true
		}
		keep(r)
	}
	for r := range k.at.asides(q) {
		if full() {
			return true
		}
		it := q.aside.Item(r)
		if seen++; q.aside.Segment(r) != 0 || !k.ids.Has(it.ID) {
			continue
		}
		bytes += int(pinSize(len(it.Data)))
		k.e.rewriteAside(q, r)
	}
	for len(k.late) > 0 {
		if full() {
			return true
		}
		ref := k.late[len(k.late)-1]
		if k.late = k.late[:len(k.late)-1]; ref.live() && ref.r.q == q {
			keep(ref.r)
		}
	}
	return false
}
