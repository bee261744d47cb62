package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// recordedQueue is what the journal says of the queue of one number, as far as runs are concerned.
type recordedQueue struct {
	deleted bool
	runs    map[segment.RunID]runs.State
	gone    idset.Set
	put     idset.Set // that no run has come behind
	kept    idset.Set // that have their place in the journal, whatever runs name them
}

// recordedJournal is what the journal says of queues.
type recordedJournal struct {
	queues map[uint64]*recordedQueue // by number
	last   record.Destination        // of the last put of the frame, if to one queue
}

// verifyRuns checks B6 against all that the journal says now, written or not: each run that it names
// is there as far as anything in it is needed. Nothing is checked while the journal fails, or is
// dropped from under the reader, as that of an engine with background work may be.
func (e *Engine) verifyRuns() error {
	e.spool.recordMu.Lock() // nobody records or removes runs
	defer e.spool.recordMu.Unlock()
	all, err := e.readTold()
	if err != nil || e.journal.Failing() {
		return nil
	}
	for _, number := range slices.Sorted(maps.Keys(all.queues)) {
		if e.withheld.holds(number) {
			continue
		}
		if err := e.spool.verifyRecorded(all.queues[number]); err != nil {
			return fmt.Errorf("queue number %d: B6: %w", number, err)
		}
	}
	return nil
}

// readTold reads the journal, and what is in its buffers.
func (e *Engine) readTold() (*recordedJournal, error) {
	all := &recordedJournal{queues: make(map[uint64]*recordedQueue)}
	return all, e.journal.Inspect(func() error {
		visit := func(f segment.Frame) error { return all.frame(f.Payload) }
		_, _, err := segment.Scan(e.fs, e.journals.Current(), visit)
		return err
	}, all.frame)
}

func (t *recordedJournal) frame(b []byte) error {
	t.last = record.Destination{}
	for len(b) > 0 {
		rec, size, err := record.Parse(b)
		if err != nil {
			return err
		}
		t.record(&rec)
		b = b[size:]
	}
	return nil
}

func (t *recordedJournal) queue(number uint64) *recordedQueue {
	q := t.queues[number]
	if q == nil {
		q = &recordedQueue{runs: make(map[segment.RunID]runs.State)}
		t.queues[number] = q
	}
	return q
}

func (t *recordedJournal) record(rec *record.Record) {
	switch rec.Kind {
	case record.KindPut:
		t.put(record.Destination{Queue: rec.Queue, Item: rec.ID})
	case record.KindNext:
		t.put(record.Destination{Queue: t.last.Queue, Item: t.last.Item + 1})
	case record.KindRun:
		next := record.Destination{Queue: rec.Queue, Item: rec.ID}
		for b := rec.Images; len(b) > 0; next.Item++ {
			t.put(next)
			_, n, _ := item.ParseImage(b)
			b = b[n:]
		}
	case record.KindFanout:
		for list := rec.List; len(list) > 0; {
			t.put(record.Destination{Queue: list.Next(), Item: list.Next()})
		}
	case record.KindRemove:
		t.queue(rec.Queue).remove(idset.Between(rec.ID, rec.ID+uint64(rec.More)))
	case record.KindFlush:
		var except []uint64
		for list := rec.List; len(list) > 0; {
			except = append(except, list.Next())
		}
		if rec.Limit > 1 {
			for _, ids := range idset.Between(1, rec.Limit-1).Minus(idset.Of(except)) {
				t.queue(rec.Queue).remove(ids)
			}
		}
	case record.KindKeep:
		q := t.queue(rec.Queue)
		q.kept = q.kept.Add(idset.One(rec.ID))
	case record.KindChange: // its image is in the journal
		q := t.queue(rec.Queue)
		if !q.gone.Has(rec.ID) {
			q.kept = q.kept.Add(idset.One(rec.ID))
		}
	case record.KindDelete:
		t.queues[rec.Queue] = &recordedQueue{deleted: true, runs: make(map[segment.RunID]runs.State)}
	case record.KindSpill:
		t.queue(rec.Queue).spilled(rec.Run, rec.Spill)
	}
}

func (t *recordedJournal) put(to record.Destination) {
	t.last = to
	q := t.queue(to.Queue)
	q.put = q.put.Add(idset.One(to.Item))
}

// spilled takes in what is said of a run. What was put before the first item of it and is not gone was
// open when its neighbours were spilled: as in a start, it stays in the journal.
func (t *recordedQueue) spilled(id segment.RunID, state runs.State) {
	t.runs[id] = state
	for _, before := range t.put.Within(idset.Between(1, state.FirstID-1)) {
		for _, ids := range before.Minus(t.gone) {
			t.kept = t.kept.Add(ids)
		}
	}
	t.put = t.put.Within(idset.Between(state.LastID+1, math.MaxUint64))
}

func (t *recordedQueue) remove(ids idset.Range) {
	t.gone = t.gone.Add(ids)
	if t.kept.Count(ids) > 0 {
		t.kept = t.kept.Remove(ids)
	}
}

// verifyRecorded checks that what the journal says of runs is there. Of ids that several runs name the
// newest counts; see collect.
func (s *spool) verifyRecorded(t *recordedQueue) error {
	if t.deleted && len(t.runs) > 0 {
		return errors.New("a run is recorded behind the record that deletes the queue")
	}
	covered := slices.Clone(t.gone)
	for _, ids := range t.kept {
		covered = covered.Add(ids)
	}
	newestFirst := func(a, b segment.RunID) int { return cmp.Compare(b.Number, a.Number) }
	for _, id := range slices.SortedFunc(maps.Keys(t.runs), newestFirst) {
		state := t.runs[id]
		ids := state.IDs()
		for _, needed := range ids.Minus(covered) {
			err := s.verifyHolds(&run{path: runs.Path(s.dir, id.Number), id: id, recorded: state}, needed)
			if err != nil {
				return fmt.Errorf("run %d, %+v, of which the journal needs %+v: %w", id.Number, state, needed, err)
			}
		}
		covered = covered.Add(ids)
	}
	return nil
}

// verifyHolds checks that r holds every one of ids. A disk that cannot be read proves nothing.
func (s *spool) verifyHolds(r *run, ids idset.Range) error {
	reader, err := segment.OpenRun(s.fs, r.path, r.id, nil)
	if err == nil {
		defer reader.Close()
		err = reader.Covers(r.recorded.End)
	}
	var decoder segment.Coder
	defer decoder.Close()
	var held idset.Set
	for off := int64(segment.RunStart); err == nil && off < r.recorded.End; {
		var f segment.RunFrame
		var body []byte
		if f, err = reader.Frame(off, r.recorded.End); err != nil {
			break
		}
		off = f.Next
		tag := runs.ParseTag(f.Tag)
		if tag.LastID < ids.First || tag.FirstID > ids.Last {
			continue
		}
		if body, err = reader.Body(&decoder, nil, f); err == nil {
			item.EachImage(body, tag.FirstID, func(it Item) bool {
				held = held.Add(idset.One(it.ID))
				return true
			})
		}
	}
	if err != nil && !isDamage(err) {
		return nil
	}
	if err == nil {
		if left := ids.Minus(held); len(left) > 0 {
			err = fmt.Errorf("it does not hold %+v", left)
		}
	}
	return err
}
