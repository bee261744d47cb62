package engine

import (
	"iter"
	"math"
	"runtime"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

const (
	// spareSegments is how many dropped segments the journal keeps at most to use again: as many as
	// it takes for a queue that spills at full speed never to ask for a new one. A new file, and new
	// pages of the cache, cost more than writing over old ones, and whoever writes pays for them.
	spareSegments = 16
	// idleSegments is how many it keeps when they are not needed.
	idleSegments = 5
	// checkpointRecords is how many records of a queue's state are made with its shard locked, and
	// checkpointBatch how many bytes of them gather before they are written: a fraction of a millisecond
	// of work either.
	checkpointRecords = 256
	checkpointBatch   = 32 << 10
)

// checkpoint records the state of every queue, so that segments before the one in which it began
// are needed for items only. It waits for the disk. It returns the number of that segment.
//
// Others go on meanwhile, and must not wait for all of it: what has gathered is written every now and
// then, or the next commit of a client would have to, and the processor left to who wants it.
func (e *Engine) checkpoint() (seg uint64, err error) {
	seg = e.journal.Segment()
	end, gathered := e.journal.End(), int64(0)
	for n := range e.recordState() {
		e.rewriting.wrote(n)
		if gathered += n; gathered < checkpointBatch {
			continue
		}
		gathered = 0
		if end = e.journal.End(); e.journal.Write(end) != nil {
			break // the commit says why
		}
		runtime.Gosched()
	}
	end = e.journal.End()
	return seg, e.Commit(Ticket{Written: end, Synced: end})
}

// recordState records the state of every queue: its name and next id and, if it had a backlog, what
// is in it. It does so in pieces of some records of one queue, and yields the bytes of each when no
// lock is held.
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
	piece := func(encode func([]byte) []byte) (n int64) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if q.inJournal() {
			e.journal.Record(q.number, func(buf []byte) []byte {
				n = -int64(len(buf))
				buf = encode(buf)
				n += int64(len(buf))
				return buf
			})
		}
		return n
	}
	var runs []*run
	gone := goneIDs{Range: idset.Between(1, 0)} // nothing
	n := piece(func(buf []byte) []byte {
		if runs = q.recordedRuns(); len(runs) > 0 || q.spilled {
			gone = q.goneAmong(idset.Between(1, math.MaxUint64))
		}
		return record.AppendQueue(buf, q.number, q.nextID, q.created, q.name)
	})
	more := yield(n)
	for some := range slices.Chunk(runs, checkpointRecords) {
		more = more && yield(piece(func(buf []byte) []byte { return q.appendRuns(buf, some) }))
	}
	for some := range slices.Chunk(gone.ranges(), checkpointRecords) {
		more = more && yield(piece(func(buf []byte) []byte { return q.appendGone(buf, some) }))
	}
	return more
}

// recordBacklog records the runs of q and what is gone of the items in them, and in those runs that
// are gone as a whole: what the journal says of them may outlive what it says of their items.
func (e *Engine) recordBacklog(q *queue) {
	if runs := q.recordedRuns(); len(runs) > 0 || q.spilled {
		e.recordRuns(q, runs, idset.Between(1, math.MaxUint64))
	}
}

// recordedRuns returns the runs of q that the journal knows.
func (q *queue) recordedRuns() (runs []*run) {
	if b := q.backlog; b != nil {
		for _, list := range [...][]*run{b.spent, b.runs} {
			for _, r := range list {
				if r.recorded.End > 0 {
					runs = append(runs, r)
				}
			}
		}
	}
	return runs
}

// recordRuns records what of runs of q is synced and what is gone among those ids: in one frame, so
// that no crash leaves the one without the other (B6). The caller holds the shard's mutex.
func (e *Engine) recordRuns(q *queue, runs []*run, ids idset.Range) LSN {
	q.spilled = q.spilled || len(runs) > 0
	g := q.goneAmong(ids)
	gone := g.ranges()
	return e.journal.Record(q.number, func(buf []byte) []byte {
		return q.appendGone(q.appendRuns(buf, runs), gone)
	})
}

func (q *queue) appendRuns(buf []byte, runs []*run) []byte {
	for _, r := range runs {
		buf = record.AppendSpill(buf, q.number, r.id, r.recorded)
	}
	return buf
}

func (q *queue) appendGone(buf []byte, gone idset.Set) []byte {
	for _, r := range gone {
		for first := r.First; first <= r.Last; {
			more := min(r.Last-first, math.MaxUint32)
			buf = record.AppendRemove(buf, q.number, first, uint32(more))
			first += more + 1
		}
	}
	return buf
}

// goneIDs says which ids of a range are gone: those in front of the head of the queue, unless they
// are among the reads, and those behind it that are said to be.
type goneIDs struct {
	idset.Range // in front of the head; empty if first is above last
	reads       []uint64
	behind      idset.Set
}

// goneAmong looks for what is gone among ids. The caller holds the shard's mutex.
func (q *queue) goneAmong(ids idset.Range) goneIDs {
	head := q.headID()
	g := goneIDs{Range: idset.Between(max(ids.First, 1), min(ids.Last, head-1))}
	for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} {
		for r := list.First(); r != nil; r = r.link.Next() {
			if id := r.item.ID; g.First <= id && id <= g.Last {
				g.reads = append(g.reads, id)
			}
		}
	}
	if q.backlog != nil {
		g.behind = q.backlog.gone.Within(idset.Between(max(ids.First, head), ids.Last))
	}
	return g
}

// ranges returns the ids that are gone. It needs no lock.
func (g *goneIDs) ranges() (gone idset.Set) {
	return append(g.Minus(idset.Of(g.reads)), g.behind...)
}

// trimJournal drops the segments at the front of the journal that no item needs any more. It waits
// for the disk.
//
// What made them unneeded is made durable first. Otherwise a crash could leave, of a queue whose
// deletion was not written yet, items without the name that was dropped; or of two items, confirmed
// one after the other, only the one confirmed first.
func (e *Engine) trimJournal() error {
	if e.journal.Failing() {
		return nil // a checkpoint could not be written now; do not gather one after the other
	}
	segments := e.journal.Segments()
	if len(segments) == 1 {
		return nil
	}
	oldest := segments[0].Number
	needed := e.oldestSegment(segments[len(segments)-1].Number)
	if needed <= oldest {
		return nil
	}
	if free := bytesBefore(segments, needed); e.checkpointed <= oldest &&
		e.measureUse(segments).state > e.rewriting.affords(free) {
		return nil // not worth a checkpoint
	}
	unneeding := e.journal.End()
	if err := e.journal.WriteOut(); err != nil {
		return err
	}
	if e.checkpointed <= oldest {
		at, err := e.checkpoint()
		if err != nil {
			return err
		}
		e.checkpointed = at
	}
	if err := e.journal.Sync(unneeding); err != nil {
		return err
	}
	n, err := e.journal.DropBefore(min(needed, e.checkpointed))
	e.rewriting.dropped(allBytes(segments[:n]))
	return err
}

// oldestSegment returns the oldest segment of the journal that holds an item, or tail if none does.
// Items move from the window of a queue to its shard's reads, never back: so these come last.
func (e *Engine) oldestSegment(tail uint64) uint64 {
	oldest := tail
	if n := e.withheld.oldest; n > 0 {
		oldest = min(oldest, n)
	}
	e.eachShard(func(sh *shard, queues []*queue) {
		for _, q := range queues {
			sh.mu.Lock()
			if seg, ok := q.windowSegment(); ok && seg < oldest {
				oldest = seg
			}
			sh.mu.Unlock()
		}
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if sh.pins.before(oldest) {
			oldest = sh.pins[0].segment
		}
	})
	return oldest
}
