package engine

import (
	"iter"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// readBatch is how many reads and items aside a walk looks at before it unlocks the shard: some 50 µs of work.
const readBatch = 1024

// readCursor is where a walk over the reads of a queue, and what is aside, goes on after others have been let in.
type readCursor struct {
	list   int
	after  ReadRef // behind this read, unless it has ended, or left that list
	aside  bool    // the lists are done, and of what is aside so many are left
	left   int
	clears uint64 // of the queue
}

// heed begins again if a flush has come meanwhile: the reads that it dropped may still be linked. Walks that only note
// what lives go on instead.
func (at *readCursor) heed(q *queue) {
	if at.clears != q.clears {
		*at = readCursor{clears: q.clears}
	}
}

// reads yields what is left of lists of q. A walk that ends early goes on with the same read.
func (at *readCursor) reads(q *queue, lists ...*readList) iter.Seq[*read] {
	return func(yield func(*read) bool) {
		at.heed(q)
		for ; at.list < len(lists); at.list++ {
			r := lists[at.list].First()
			if last := at.after; r != nil && last.live() && last.r.q == q && last.r.state == r.state {
				r = last.r.link.Next()
			}
			for ; r != nil; r = r.link.Next() {
				if !yield(r) {
					return
				}
				at.after = ReadRef{r, r.id}
			}
			at.after = ReadRef{}
		}
	}
}

// asides yields what is left of what is aside, as reads does. It goes from the last item down: what is removed meanwhile
// is replaced by the last, which has been visited or has been added since.
func (at *readCursor) asides(q *queue) iter.Seq[aside.Ref] {
	return func(yield func(aside.Ref) bool) {
		if at.heed(q); q.aside == nil {
			return
		}
		if !at.aside {
			at.aside, at.left = true, q.aside.Len()
		}
		for at.left = min(at.left, q.aside.Len()); at.left > 0; at.left-- {
			if r := aside.Ref(at.left - 1); !q.aside.IsDropped(r) && !yield(r) {
				return
			}
		}
	}
}

// each calls read for what is left of lists of q, and other for what is left aside, in a batch of so many. It reports
// whether there may be more.
func (at *readCursor) each(
	q *queue, batch int, read func(*read), other func(aside.Ref), lists ...*readList,
) (more bool) {
	seen := 0
	for r := range at.reads(q, lists...) {
		if seen++; seen > batch {
			return true
		}
		read(r)
	}
	for r := range at.asides(q) {
		if seen++; seen > batch {
			return true
		}
		other(r)
	}
	return false
}

// inPieces calls piece with the shard locked as long as it reports that there may be more, and pause behind each piece.
func (sh *shard) inPieces(pause func(), piece func() (more bool)) {
	for more := true; more; pause() {
		sh.mu.Lock()
		more = piece()
		sh.mu.Unlock()
	}
}

// asideIDs yields the ids of all items aside, in no order.
func (q *queue) asideIDs() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for r := range new(readCursor).asides(q) {
			if !yield(q.aside.ID(r)) {
				return
			}
		}
	}
}

// endLooking has q note nothing more in s.
func (q *queue) endLooking(s *marks.Staying) {
	q.flushes = slices.DeleteFunc(q.flushes, func(o *marks.Staying) bool { return o == s })
}

// look looks for what stays in the next batch of items, and reports whether there may be more.
func (at *readCursor) look(q *queue, s *marks.Staying, batch int) (more bool) {
	at.clears = q.clears
	return at.each(q, batch, func(r *read) { s.Note(r.item.ID, r.state != readReturned) },
		func(r aside.Ref) { s.Note(q.aside.ID(r), q.aside.State(r) == aside.Leased) },
		&q.returned, &q.open, &q.moving)
}

// goneWalk looks in pieces for what of a queue is gone: each id in g.Front and g.Behind, unless it lives elsewhere. Of
// what lives, an id is noted when the walk comes to it, or when its item goes to another place meanwhile.
type goneWalk struct {
	marks.Gone
	q    *queue
	at   readCursor
	runs []*hidden.Run // what is on disk alone in them is still to be noted
}

// beginGone begins to look for what is gone of q, if anybody needs to know. The caller holds the shard's mutex, and
// calls end without it.
func (q *queue) beginGone(needed bool) *goneWalk {
	w := &goneWalk{q: q}
	if needed {
		w.Gone = q.goneInLine()
	}
	if !w.IsEmpty() {
		q.walks = append(q.walks, &w.Live)
		w.runs = q.hiddenRuns()
	}
	return w
}

// end returns what was gone when the walk began.
func (w *goneWalk) end() idset.Bitmap {
	if !w.IsEmpty() {
		w.q.shard.inPieces(processor.Yield, w.piece)
	}
	return w.Set()
}

// piece looks at a batch of items that live, and reports whether there may be more.
func (w *goneWalk) piece() (more bool) {
	q, seen := w.q, 0
	for ; len(w.runs) > 0; w.runs = w.runs[1:] {
		if seen += readBatch / 64; seen > readBatch {
			return true
		}
		w.Hidden = append(w.Hidden, w.runs[0].DiskIDs().Clone())
	}
	w.at.clears = q.clears
	if w.at.each(q, readBatch-seen, func(r *read) { w.Live.Add(r.item.ID) },
		func(r aside.Ref) { w.Live.Add(q.aside.ID(r)) }, &q.returned, &q.open, &q.moving) {
		return true
	}
	q.walks = slices.DeleteFunc(q.walks, func(live *idset.Bitmap) bool { return live == &w.Live })
	return false
}

// goneInLine looks for what is gone of q, but for what lives in reads or aside.
func (q *queue) goneInLine() (g marks.Gone) {
	head := q.headID()
	if head > 1 {
		g.Front = idset.Between(1, head-1)
	}
	if b := q.backlog; b != nil {
		g.Behind = b.gone.Part(idset.Between(head, math.MaxUint64))
	}
	return g
}

// appendGone adds records that ids are gone.
func (q *queue) appendGone(buf []byte, gone iter.Seq[idset.Range]) []byte {
	for r := range gone {
		for first := r.First; first <= r.Last; {
			more := min(r.Last-first, math.MaxUint32)
			buf = record.AppendRemove(buf, q.number, first, uint32(more))
			first += more + 1
		}
	}
	return buf
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

// thinnedFrom returns the ids of the runs that have taken the place of r, as the journal says.
func (q *queue) thinnedFrom(r *run) (ids idset.Set) {
	for _, o := range q.backlog.runsFrom(r.recorded.FirstID) {
		if o.written.FirstID > r.recorded.LastID {
			break
		}
		if o.ID.Number > r.ID.Number && o.recorded.End > 0 {
			ids = ids.Add(o.recorded.IDs())
		}
	}
	return ids
}
