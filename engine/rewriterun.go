package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// breakRun notes that a sync of r failed. The caller holds the shard's mutex.
func (b *backlog) breakRun(r *run) {
	if r.broken = true; b.growing == r {
		b.growing = nil
	}
}

// mended writes what is in doubt of a run to another one, if a sync of it failed. It reports false
// if that did not succeed: then the journal keeps what is in that run and behind it, and tend tries
// again. The caller holds recordMu.
func (s *spool) mended(q *queue, b *backlog, r *run) bool {
	if !r.broken {
		return true
	}
	err := s.rewrite(q, b, r)
	if err != nil && err != errBeingWritten && !s.e.journal.Failing() {
		s.e.report("rewrite backlog", fmt.Errorf("queue %q: %w", q.name, err))
	}
	return err == nil
}

// errBeingWritten puts a rewrite off: a last batch is on its way to the run.
var errBeingWritten = errors.New("run is being written")

// rewrite copies what was not synced of a run of q to a new one, which it syncs, and puts that in
// its place; checksums show whether the bytes can still be read. The caller holds recordMu.
func (s *spool) rewrite(q *queue, b *backlog, r *run) error {
	sh := q.shard
	sh.mu.Lock()
	from, end, epoch := max(r.recorded.End, segment.RunStart), r.written.End, b.epoch
	busy, mode := r.busy, s.runIO(q)
	sh.mu.Unlock()
	if busy {
		return errBeingWritten
	}
	number, made := s.lastRun.Add(1), s.lostNames.Load()
	w, err := segment.CreateRun(s.fs, runs.Path(s.dir, number), number, mode)
	if err != nil {
		return err
	}
	fresh := &run{path: w.Path(), id: w.ID(), made: made}
	fresh.written, err = s.copyFrames(w, r, from, end)
	if err == nil {
		err = s.syncWriter(fresh, w)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return errors.Join(err, s.remove(fresh))
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if b.epoch != epoch || !slices.Contains(b.runs, r) { // nobody needs either any more
		b.spent = append(b.spent, fresh)
		return nil
	}
	b.replace(r, fresh, from)
	if q.inJournal() {
		s.e.recordSynced(q, fresh, fresh.written)
	}
	return nil
}

// copyFrames copies the frames of r from an offset up to another one to w.
func (s *spool) copyFrames(w *segment.RunWriter, r *run, from, end int64) (n runs.State, err error) {
	reader, err := segment.OpenRun(s.fs, r.path, r.id, s.e.newReadAhead())
	if err != nil {
		return n, err
	}
	defer reader.Close()
	coder := segment.NewCoder(s.e.opts.BacklogCompression)
	defer coder.Close()
	var body []byte
	for off := from; off < end && err == nil; {
		var f segment.RunFrame
		if f, err = reader.Frame(off, end); err != nil {
			return n, err
		}
		if body, err = reader.Body(coder, body[:0], f); err != nil {
			return n, err
		}
		w.Add(coder, f.Tag, body)
		n.Add(runs.ParseTag(f.Tag))
		if off = f.Next; w.Buffered() >= spillBatch {
			err = w.Write()
		}
	}
	if err == nil {
		err = w.Write()
	}
	n.End = w.End()
	return n, err
}

// replace puts fresh, which holds what r does from an offset on, behind what is durable of r, or in
// its place. The caller holds the shard's mutex.
func (b *backlog) replace(r, fresh *run, from int64) {
	i := slices.Index(b.runs, r)
	if b.next.Run == r && (b.next.Offset >= from || r.recorded.End == 0) {
		b.next = runs.At(fresh, b.next.ID)
	}
	r.written, r.broken = r.recorded, false
	if r.recorded.End > 0 {
		b.runs = slices.Insert(b.runs, i+1, fresh)
		return
	}
	b.runs[i] = fresh
	b.spent = append(b.spent, r)
}
