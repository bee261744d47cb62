package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// told is what the journal says of the queue of one number, as far as runs are concerned.
type told struct {
	deleted bool
	runs    map[segment.RunID]runs.State
	gone    idset.Set
	kept    map[uint64]bool
}

// toldRuns is what the journal says of queues, by number.
type toldRuns map[uint64]*told

// verifyRuns checks B6 against all that the journal says now, written or not: each run that it names
// is there as far as anything in it is needed. Nothing is checked while the journal fails, or is
// dropped from under the reader, as that of an engine with background work may be.
func (e *Engine) verifyRuns() error {
	e.spool.recordMu.Lock() // nobody records or removes runs
	defer e.spool.recordMu.Unlock()
	all, err := e.readTold()
	if err != nil || e.journal.failing() {
		return nil
	}
	for _, number := range slices.Sorted(maps.Keys(all)) {
		if e.withheld.holds(number) {
			continue
		}
		if err := e.spool.verifyTold(all[number]); err != nil {
			return fmt.Errorf("queue number %d: B6: %w", number, err)
		}
	}
	return nil
}

// readTold reads the journal, and what is in its buffers.
func (e *Engine) readTold() (toldRuns, error) {
	j := e.journal
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	all := make(toldRuns)
	visit := func(f segment.Frame) error { return all.frame(f.Payload) }
	if _, _, err := segment.Scan(e.fs, e.journalDir, visit); err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, buf := range slices.Concat(j.pending, j.full, [][]byte{j.active}) {
		if err := all.frame(buf[segment.FrameHeaderSize:]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (t toldRuns) frame(b []byte) error {
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

func (t toldRuns) record(rec *record.Record) {
	if rec.Queue == 0 { // next or fanout
		return
	}
	q := t[rec.Queue]
	if q == nil {
		q = &told{runs: make(map[segment.RunID]runs.State), kept: make(map[uint64]bool)}
		t[rec.Queue] = q
	}
	switch rec.Kind {
	case record.KindRemove:
		q.remove(idset.Between(rec.ID, rec.ID+uint64(rec.More)))
	case record.KindFlush:
		var except idset.Set
		for list := rec.List; len(list) > 0; {
			id := list.Next()
			except = except.Add(idset.One(id))
		}
		if rec.Limit > 1 {
			for _, ids := range idset.Between(1, rec.Limit-1).Minus(except) {
				q.remove(ids)
			}
		}
	case record.KindKeep:
		q.kept[rec.ID] = true
	case record.KindDelete:
		*q = told{deleted: true}
	case record.KindSpill:
		if q.deleted { // verifyTold says so
			q.runs = make(map[segment.RunID]runs.State)
		}
		q.runs[rec.Run] = rec.Spill
	}
}

func (t *told) remove(ids idset.Range) {
	t.gone = t.gone.Add(ids)
	maps.DeleteFunc(t.kept, func(id uint64, _ bool) bool { return ids.First <= id && id <= ids.Last })
}

// verifyTold checks that what the journal says of runs is there. Of ids that several runs name the
// newest counts; see collect.
func (s *spool) verifyTold(t *told) error {
	if t.deleted && len(t.runs) > 0 {
		return errors.New("a run is recorded behind the record that deletes the queue")
	}
	covered := slices.Clone(t.gone)
	for id := range t.kept {
		covered = covered.Add(idset.One(id))
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
