package engine

import (
	"iter"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// checkpointRecords is how many records of a queue's state are made with its shard locked: a fraction of a
// millisecond of work.
const checkpointRecords = 256

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
	aside       []uint64 // of those behind it: they live, whatever is said
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
	for id := range q.asideIDs() {
		switch {
		case g.First <= id && id <= g.Last:
			g.reads = append(g.reads, id)
		case id >= head && len(g.behind) > 0:
			g.aside = append(g.aside, id)
		}
	}
	return g
}

// ranges returns the ids that are gone. It needs no lock.
func (g *goneIDs) ranges() (gone idset.Set) {
	gone = g.Minus(idset.Of(g.reads))
	if len(g.aside) == 0 {
		return append(gone, g.behind...)
	}
	live := idset.Of(g.aside)
	for _, ids := range g.behind {
		gone = append(gone, ids.Minus(live)...)
	}
	return gone
}
