package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/replay"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// Every checkpoint records again what is gone in the middle of a backlog. If that is many ranges of ids, they stand in
// a file. The checkpoint names the file, and what has gone since. See docs/decisions/0039-marks.md.

const (
	// defaultMarkFrom is how many bytes of records a checkpoint may take for what is gone of a queue, before the ids go
	// to a file. They may also take markShare, one part in so many, of what the file takes.
	defaultMarkFrom, markShare = 32 << 10, 8
	// defaultMarkLong is how many ids a range has that always stands in a record, and not in a file.
	defaultMarkLong = 1 << 16
	// removeBytes is what a record of a range takes, about.
	removeBytes = 12
)

// marksFile is a file with ids that are gone, synced. It does not change.
type marksFile struct {
	runs.File
	end int64
	ids idset.Bitmap
}

// record is what the journal says of the file, which may be nil.
func (m *marksFile) record() (r record.Marks) {
	if m != nil {
		r = record.Marks{Run: m.ID, End: m.end, Count: m.ids.Len()}
	}
	return r
}

// marksNow returns the file that has what is gone of q, nil if there is none, and whether q may have one.
func (q *queue) marksNow() (m *marksFile, may bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.backlog == nil {
		return nil, false
	}
	return q.backlog.marks, true
}

// beside returns what a checkpoint records beside the file m, which may be nil: long ranges, and what the
// file has not. cost is what the latter takes, in bytes.
func (m *marksFile) beside(gone, part *idset.Bitmap) (others idset.Bitmap, cost int64) {
	others, left := gone.Clone(), part.Clone()
	others.RemoveAll(part)
	if m != nil {
		left.RemoveAll(&m.ids)
	}
	others.AddAll(&left)
	return others, left.RangeCount() * removeBytes
}

// writeMarks has what is gone of q stand in a file, if that is worth it, and returns what is left to be recorded. The
// queue had that number in the journal when gone was made. It waits for the disk.
func (e *Engine) writeMarks(q *queue, number uint64, gone *idset.Bitmap) (others idset.Bitmap) {
	part := marks.Ragged(gone, e.opts.markLong)
	cost := part.RangeCount() * removeBytes
	m, may := q.marksNow()
	if !may || m == nil && cost <= e.opts.markFrom {
		return *gone
	}
	if cost <= e.opts.markFrom {
		if e.setMarks(q, number, nil, gone) {
			return idset.Bitmap{}
		}
		return *gone
	}
	if m != nil && m.ids.Len() <= 2*part.Len() { // most of it is in no long range by now
		if others, cost = m.beside(gone, &part); cost <= max(e.opts.markFrom, (m.end-segment.RunStart)/markShare) {
			return others
		}
	}
	fresh, err := e.spool.writeMarks(q, part)
	if err != nil {
		if !e.journal.Failing() {
			e.report("backlog: the list of removed items could not be written; trying again", err)
		}
		others, _ = m.beside(gone, &part)
		return others // records say the same
	}
	others, _ = fresh.beside(gone, &part)
	if !e.setMarks(q, number, fresh, &others) {
		return *gone
	}
	return idset.Bitmap{}
}

// setMarks puts m, which may be nil, in the place of the file that q has. It records that together with what is gone
// beside it. One frame has both, since it may be the only one that says what the file before has. It does nothing, and
// reports false, if q has no backlog any more, or has left the journal since it had that number. Then q may have
// entered the journal again, with a file that has more.
func (e *Engine) setMarks(q *queue, number uint64, m *marksFile, others *idset.Bitmap) bool {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	b := q.backlog
	if b == nil || q.number != number {
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
		buf = record.AppendMarks(buf, q.number, q.backlog.marks.record())
		return q.appendGone(buf, others.Within(idset.Between(1, math.MaxUint64)))
	})
}

// writeMarks writes ids that are gone of q to a file, and syncs it.
func (s *spool) writeMarks(q *queue, ids idset.Bitmap) (*marksFile, error) {
	q.shard.mu.Lock()
	mode := s.runIO(q)
	q.shard.mu.Unlock()
	coder := segment.NewCoder(segment.CodecNone)
	defer coder.Close()
	made, err := s.dir.Make(mode, &s.recordMu, func(w *segment.RunWriter) error { return marks.Write(w, coder, &ids) })
	if err != nil {
		return nil, err
	}
	return &marksFile{File: made.File, end: made.End, ids: ids}, nil
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
		b.spentMarks = slices.DeleteFunc(b.spentMarks, func(o *marksFile) bool { return o == m })
		q.shard.mu.Unlock()
	}
	return nil
}

// restoreMarks reads the file that the journal names, and adds what is gone there to what the journal says is. It
// returns nil if there is none, and a *segment.CorruptionError if the file is not what was written.
func (r *revival) restoreMarks(q *replay.Queue) (*marksFile, error) {
	if q.Marked == (record.Marks{}) {
		return nil, nil
	}
	s := r.e.spool
	m := &marksFile{File: s.dir.File(q.Marked.Run), end: q.Marked.End}
	var err error
	if m.ids, err = marks.Read(s.reader, m.File, m.end, q.Marked.Count); err != nil {
		return nil, err
	}
	s.reader.Forget(m.File)
	q.Gone.AddAll(&m.ids)
	return m, nil
}

// goneStateSize is how many bytes a checkpoint takes in the journal for what is gone, about.
func (q *queue) goneStateSize() int64 {
	b, most := q.backlog, int64(defaultMarkFrom)
	if n := b.gone.RangesUpTo(most/record.MaxRemoveSize) * record.MaxRemoveSize; n <= most {
		return n
	}
	if b.marks != nil {
		most = max(most, (b.marks.end-segment.RunStart)/markShare)
	}
	return most + record.MaxMarksSize
}

// saysGone returns the id of an item that lives although the file says that it is gone, 0 if there is none. seen has
// the items that are not in line. Of those in line, saysGone looks at the ones in memory.
func (m *marksFile) saysGone(q *queue, seen map[uint64]string) (wrong uint64) {
	look := func(id uint64) bool {
		if m.ids.Has(id) {
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
