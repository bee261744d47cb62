package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// This file walks over what is open and aside, and says what is gone in the middle of a backlog.

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
		processor.InPieces(&w.q.shard.mu, processor.Yield, w.piece)
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

// Every checkpoint records again what is gone in the middle of a backlog. If that is many ranges of ids, they stand in
// a file. The checkpoint names the file, and what has gone since. See docs/decisions/0039-marks.md.

const (
	// defaultMarkFrom is how many bytes of records a checkpoint may take for what is gone of a queue, before the ids go
	// to a file. They may also take markShare, one part in so many, of what the file takes.
	defaultMarkFrom, markShare = 32 << 10, 8
	// defaultMarkLong is how many ids a range has that always stands in a record, and not in a file.
	defaultMarkLong = 1 << 16
)

// marksNow returns the file that has what is gone of q, nil if there is none, and whether q may have one.
func (q *queue) marksNow() (m *marks.File, may bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.backlog == nil {
		return nil, false
	}
	return q.backlog.marks, true
}

// writeMarks has what is gone of a queue stand in a file, if that is worth it, and returns what is left to be recorded.
// The telling began before gone was made. It waits for the disk.
func (e *Engine) writeMarks(t *telling, gone *idset.Bitmap) (others idset.Bitmap) {
	part := marks.Ragged(gone, e.opts.markLong)
	cost := marks.Cost(&part)
	m := t.file
	if _, may := t.q.marksNow(); !may || m == nil && cost <= e.opts.markFrom {
		return *gone
	}
	if cost <= e.opts.markFrom {
		if e.setMarks(t, nil, gone) {
			return idset.Bitmap{}
		}
		return *gone
	}
	if m != nil && m.IDs.Len() <= 2*part.Len() { // most of it is in no long range by now
		if others, cost = m.Beside(gone, &part); cost <= max(e.opts.markFrom, (m.End-segment.RunStart)/markShare) {
			return others
		}
	}
	fresh, err := e.spool.writeMarks(t.q, part)
	if err != nil {
		if !e.journal.Failing() {
			e.report("backlog: the list of removed items could not be written; trying again", err)
		}
		others, _ = m.Beside(gone, &part)
		return others // records say the same
	}
	others, _ = fresh.Beside(gone, &part)
	if !e.setMarks(t, fresh, &others) {
		return *gone
	}
	return idset.Bitmap{}
}

// setMarks puts m, which may be nil, in the place of the file that the queue has. It records that together with what is
// gone beside it. One frame has both, since it may be the only one that says what the file before has. It does nothing,
// and reports false, if the queue has no backlog any more, or another file since the telling began. Others that went
// meanwhile may stand there alone. So it does if the queue has left the journal, and may have entered it again.
func (e *Engine) setMarks(t *telling, m *marks.File, others *idset.Bitmap) bool {
	q := t.q
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	b := q.backlog
	if b == nil || b.marks != t.file || q.number != t.number {
		if m != nil {
			e.spool.spend(m.File)
		}
		return false
	}
	if b.marks != nil {
		b.spentMarks = append(b.spentMarks, b.marks)
	}
	b.marks = m
	if q.inJournal() {
		e.recordMarks(q, others)
	}
	e.spool.wantRecord(q)
	return true
}

// recordMarks records the file of q, or that there is none, and what else is gone. The caller holds the shard's mutex.
func (e *Engine) recordMarks(q *queue, others *idset.Bitmap) {
	e.journal.RecordNew(q.number, func(buf []byte) []byte {
		buf = record.AppendMarks(buf, q.number, q.backlog.marks.Record())
		return record.AppendGone(buf, q.number, others.Within(idset.Between(1, math.MaxUint64)))
	})
}

// writeMarks writes ids that are gone of q to a file, and syncs it.
func (s *spool) writeMarks(q *queue, ids idset.Bitmap) (*marks.File, error) {
	q.shard.mu.Lock()
	mode := s.runIO(q)
	q.shard.mu.Unlock()
	coder := segment.NewCoder(segment.CodecNone)
	defer coder.Close()
	made, err := s.dir.Make(mode, &s.recordMu, func(w *segment.RunWriter) error { return marks.Write(w, coder, &ids) })
	if err != nil {
		return nil, err
	}
	return &marks.File{File: made.File, End: made.End, IDs: ids}, nil
}

// spendMarks lets go of the file of a backlog whose runs have gone: what is gone of them is recorded as a whole. The
// caller holds the shard's mutex.
func (e *Engine) spendMarks(q *queue) {
	b := q.backlog
	if b.marks == nil || b.inReadBehind || len(b.runs)+len(b.spent) > 0 {
		return
	}
	b.spentMarks = append(b.spentMarks, b.marks)
	b.marks = nil
	if q.inJournal() {
		e.recordMarks(q, new(idset.Bitmap))
	}
}

// removeMarks removes the files that the journal does not name any more. The caller holds recordMu.
func (s *spool) removeMarks(q *queue, b *backlog) error {
	q.shard.mu.Lock()
	s.e.spendMarks(q)
	spent := slices.Clone(b.spentMarks)
	end := s.e.journal.End()
	q.shard.mu.Unlock()
	if len(spent) == 0 {
		return nil
	}
	if err := s.e.journal.Sync(end); err != nil {
		return err
	}
	for _, m := range spent {
		if err := s.fs.Remove(m.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove list of removed items: %w", err)
		}
		q.shard.mu.Lock()
		b.spentMarks = slices.DeleteFunc(b.spentMarks, func(o *marks.File) bool { return o == m })
		q.shard.mu.Unlock()
	}
	return nil
}

// goneStateSize is how many bytes a checkpoint takes in the journal for what is gone, about.
func (q *queue) goneStateSize() int64 {
	b, most := q.backlog, int64(defaultMarkFrom)
	if n := b.gone.RangesUpTo(most/record.MaxRemoveSize) * record.MaxRemoveSize; n <= most {
		return n
	}
	if b.marks != nil {
		most = max(most, (b.marks.End-segment.RunStart)/markShare)
	}
	return most + record.MaxMarksSize
}

// marksLiving returns the id of an item that lives although the file of q says that it is gone, 0 if there is none. seen
// has the items that are not in line. Of those in line, it looks at the ones in memory.
func (q *queue) marksLiving(seen map[uint64]string) (wrong uint64) {
	look := func(id uint64) bool {
		if q.backlog.marks.IDs.Has(id) {
			wrong = id
		}
		return wrong == 0
	}
	for id := range seen {
		if !look(id) {
			return wrong
		}
	}
	for _, part := range [...]*item.Window{&q.window, &q.backlog.leaving, &q.backlog.recent} {
		part.Each(func(it Item) bool { return look(it.ID) })
	}
	return wrong
}
