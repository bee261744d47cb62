package engine

import (
	"iter"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// checkpointRecords is how many records of a queue's state are made with its shard locked: a fraction of a
// millisecond of work.
const checkpointRecords = 256

// recordState records the state of every queue: its name and next id and, if it had a backlog, what is in it. It does
// so in pieces of some records of one queue, and yields the bytes of each when no lock is held.
func (e *Engine) recordState() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for i := range e.shards {
			for _, q := range e.shards[i].list(nil) {
				if !e.recordQueue(q, yield) {
					return
				}
			}
		}
	}
}

// recordQueue is recordState for one queue. The pieces need not be in one frame: what earlier records
// say holds until the checkpoint is complete, and what happens between two pieces is recorded behind
// the first. It reports whether to go on.
func (e *Engine) recordQueue(q *queue, yield func(int64) bool) bool {
	t := telling{e: e, q: q, yield: yield}
	hiding := q.hiddenRuns()
	q.shard.mu.Lock()
	t.number = q.number
	var runs []*run
	if !q.crossing { // else enterBacklog records them, behind what is gone
		runs = q.recordedRuns()
	}
	gone := q.beginGone(q.inJournal() && !q.crossing && (len(runs) > 0 || q.spilled))
	q.shard.mu.Unlock()
	all := gone.end()
	more := t.piece(func(buf []byte) []byte {
		return record.AppendQueue(buf, q.number, q.nextID, q.created, q.name)
	})
	more = more && t.runs(runs)
	for _, r := range hiding {
		more = more && yield(e.recordHiddenAgain(q, r))
	}
	return more && (all.IsEmpty() || t.gone(all))
}

// telling records the state of a queue in pieces. It records no more once the queue has left the journal, also if it
// has entered it again under another number: what was gathered before need not be true of that.
type telling struct {
	e      *Engine
	q      *queue
	number uint64
	yield  func(int64) bool // takes the bytes of a piece, with no lock held, and reports whether to go on
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

func (t *telling) runs(runs []*run) (more bool) {
	more = true
	for some := range slices.Chunk(runs, checkpointRecords) {
		more = more && t.piece(func(buf []byte) []byte { return t.q.appendRuns(buf, some) })
	}
	return more
}

// gone records which ids are gone: in a file, as far as that is worth it.
func (t *telling) gone(all idset.Bitmap) bool {
	others := t.e.mark(t.q, t.number, &all)
	if m, _ := t.q.marksNow(); m != nil && !t.yield(t.e.recordMarksAgain(t.q, m)) {
		return false
	}
	left := make(idset.Set, 0, checkpointRecords)
	tell := func() bool {
		defer func() { left = left[:0] }()
		return len(left) == 0 || t.piece(func(buf []byte) []byte { return t.q.appendGone(buf, slices.Values(left)) })
	}
	for ids := range others.Within(idset.Between(1, math.MaxUint64)) {
		if left = append(left, ids); len(left) == checkpointRecords && !tell() {
			return false
		}
	}
	return tell()
}

// recordMarksAgain records the file m with what is gone of q, if it is still that, and returns how many bytes that
// took.
func (e *Engine) recordMarksAgain(q *queue, m *marksFile) (n int64) {
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
	if !q.inJournal() || !slices.Contains(q.aside.hidden.Runs(), r) {
		return 0
	}
	return e.recordHidden(q, r)
}

// recordBacklog records the runs of q and what is gone of the items in them, and in those runs that
// are gone as a whole: what the journal says of them may outlive what it says of their items.
func (e *Engine) recordBacklog(q *queue) {
	runs := q.recordedRuns()
	if len(runs) == 0 && !q.spilled {
		return
	}
	b := q.backlog
	if b == nil || b.marks == nil {
		e.recordRuns(q, runs, idset.Between(1, math.MaxUint64))
		return
	}
	q.spilled = true
	g := q.goneAmong(idset.Between(1, math.MaxUint64))
	gone := g.Set()
	part := marks.Ragged(&gone, e.opts.markLong)
	others, _ := b.marks.beside(&gone, &part)
	e.journal.Record(q.number, func(buf []byte) []byte { return q.appendRuns(buf, runs) })
	e.recordMarks(q, &others)
}

// recordRuns records what of runs of q is synced, and what is gone among ids. Both are in one frame, so that no crash
// leaves the one without the other (B6). The caller holds the shard's mutex.
func (e *Engine) recordRuns(q *queue, runs []*run, ids idset.Range) LSN {
	q.spilled = q.spilled || len(runs) > 0
	g := q.goneAmong(ids)
	gone := g.Set()
	return e.journal.Record(q.number, func(buf []byte) []byte {
		return q.appendGone(q.appendRuns(buf, runs), gone.Within(idset.Between(1, math.MaxUint64)))
	})
}

func (q *queue) appendRuns(buf []byte, runs []*run) []byte {
	for _, r := range runs {
		buf = record.AppendSpill(buf, q.number, r.ID, r.recorded)
	}
	return buf
}

// forgo writes to the journal what must stand there before something goes that its records rely on (B6).
// Code that removes such a thing calls it first:
//
//   - the files of runs: forgo rewrites the open reads whose place is in them, and the removals of what is
//     gone of them;
//   - q itself, if runs is nil: it leaves the journal, because it is deleted or no longer has one. Its
//     number goes with it, so that no later record can name it.
//
// A file may be removed once the journal is synced up to the LSN that forgo returns. The caller holds
// the shard's mutex.
func (e *Engine) forgo(q *queue, runs []*run) LSN {
	if runs == nil {
		end := e.journal.Delete(q.number)
		q.number = 0
		return end
	}
	if q.inJournal() {
		e.keepReads(q, runs)
		for _, r := range runs {
			for _, ids := range r.recorded.IDs().Minus(q.thinnedFrom(r)) {
				e.recordRuns(q, nil, ids)
			}
		}
	}
	return e.journal.End()
}

// keepLargeReads records the large ones of the reads that forgo would record. It does so one by one, so that it does
// not copy them with the shard locked. It is called before, with no lock held.
func (e *Engine) keepLargeReads(q *queue, runs []*run) {
	needed := func(r *read) bool {
		return r.item.HasOwnMemory() && r.state != readMoving && slices.ContainsFunc(runs, r.liesIn)
	}
	next := func() (ref ReadRef, it Item) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if !q.inJournal() {
			return ref, it
		}
		for _, list := range [...]*readList{&q.returned, &q.open} {
			for r := list.First(); r != nil; r = r.link.Next() {
				if needed(r) {
					return ReadRef{r, r.id}, r.item
				}
			}
		}
		return ref, it
	}
	for ref, it := next(); !ref.IsZero(); ref, it = next() {
		e.keepLarge(ref, &it, needed)
	}
}

// keepReads records open reads, and what is aside, whose place is in one of the runs in the journal.
func (e *Engine) keepReads(q *queue, runs []*run) {
	for _, list := range [...]*readList{&q.returned, &q.open} {
		for r := list.First(); r != nil; r = r.link.Next() {
			in := func(o *run) bool { return r.liesIn(o) }
			if slices.ContainsFunc(runs, in) {
				e.keepRead(q, r)
			}
		}
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		in := func(o *run) bool { return o.recorded.Count > 0 && o.recorded.Holds(id) }
		if q.aside.Segment(r) == 0 && slices.ContainsFunc(runs, in) {
			e.rewriteAside(q, r)
		}
	}
}
