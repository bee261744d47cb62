package audit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// queue is what the journal says of the queue of one number, as far as runs are concerned.
type queue struct {
	deleted bool
	runs    map[segment.RunID]runs.State
	gone    idset.Set
	put     idset.Set // that no run has come behind
	hidden  map[segment.RunID]*hiddenRun
	marked  record.Marks // the file with others that are gone
	kept    idset.Set    // that have their place in the journal, whatever runs name them
}

// Audit is what the journal says of queues. One goroutine at a time uses it.
type Audit struct {
	queues map[uint64]*queue  // by number
	last   record.Destination // of the last put of the frame, if to one queue
}

// New returns an Audit that has read nothing.
func New() *Audit { return &Audit{queues: make(map[uint64]*queue)} }

// Frame takes in the payload of one frame of the journal.
func (a *Audit) Frame(b []byte) error {
	a.last = record.Destination{}
	for len(b) > 0 {
		rec, size, err := record.Parse(b)
		if err != nil {
			return err
		}
		a.record(&rec)
		b = b[size:]
	}
	return nil
}

func (a *Audit) queue(number uint64) *queue {
	q := a.queues[number]
	if q == nil {
		q = &queue{runs: make(map[segment.RunID]runs.State)}
		a.queues[number] = q
	}
	return q
}

func (a *Audit) record(rec *record.Record) {
	switch rec.Kind {
	case record.KindPut:
		a.put(record.Destination{Queue: rec.Queue, Item: rec.ID})
	case record.KindNext:
		a.put(record.Destination{Queue: a.last.Queue, Item: a.last.Item + 1})
	case record.KindPuts:
		next := record.Destination{Queue: rec.Queue, Item: rec.ID}
		for b := rec.Images; len(b) > 0; next.Item++ {
			a.put(next)
			_, n := item.ParseImage(b)
			b = b[n:]
		}
	case record.KindFanout:
		for list := rec.List; len(list) > 0; {
			a.put(record.Destination{Queue: list.Next(), Item: list.Next()})
		}
	case record.KindRemove:
		a.queue(rec.Queue).remove(idset.Between(rec.ID, rec.ID+uint64(rec.More)))
	case record.KindFlush:
		var except []uint64
		for list := rec.List; len(list) > 0; {
			except = append(except, list.Next())
		}
		if rec.Limit > 1 {
			for _, ids := range idset.Between(1, rec.Limit-1).Minus(idset.Of(except)) {
				a.queue(rec.Queue).remove(ids)
			}
		}
	case record.KindKeep:
		q := a.queue(rec.Queue)
		q.kept = q.kept.Add(idset.One(rec.ID))
		for _, h := range q.hidden {
			h.live.Remove(rec.ID)
		}
	case record.KindHidden:
		a.queue(rec.Queue).hide(rec)
	case record.KindMarks:
		a.queue(rec.Queue).marked = rec.Marks
	case record.KindChange: // its image is in the journal
		q := a.queue(rec.Queue)
		if !q.gone.Has(rec.ID) {
			q.kept = q.kept.Add(idset.One(rec.ID))
		}
	case record.KindDelete:
		a.queues[rec.Queue] = &queue{deleted: true, runs: make(map[segment.RunID]runs.State)}
	case record.KindSpill:
		a.queue(rec.Queue).spilled(rec.Run, rec.Spill)
	}
}

func (a *Audit) put(to record.Destination) {
	a.last = to
	q := a.queue(to.Queue)
	q.put = q.put.Add(idset.One(to.Item))
}

// spilled takes in what is said of a run. An item that was put before the first item of it, and is not gone, was open
// when its neighbours were spilled. As in a start, it stays in the journal.
func (q *queue) spilled(id segment.RunID, state runs.State) {
	q.runs[id] = state
	for _, before := range q.put.Within(idset.Between(1, state.FirstID-1)) {
		for _, ids := range before.Minus(q.gone) {
			q.kept = q.kept.Add(ids)
		}
	}
	q.put = q.put.Within(idset.Between(state.LastID+1, math.MaxUint64))
}

func (q *queue) remove(ids idset.Range) {
	q.gone = q.gone.Add(ids)
	if q.kept.Count(ids) > 0 {
		q.kept = q.kept.Remove(ids)
	}
}

// hiddenRun is what the journal says of a hidden run.
type hiddenRun struct {
	state record.Hidden
	live  idset.Bitmap
}

// hide takes in what is said of a hidden run.
func (q *queue) hide(rec *record.Record) {
	if q.hidden == nil {
		q.hidden = make(map[segment.RunID]*hiddenRun)
	}
	live, _ := idset.ParseBitmap(rec.Hidden.IDs)
	for _, h := range q.hidden {
		h.live.RemoveAll(&live)
	}
	for _, ids := range live.Ranges() { // no other run has them
		q.kept = q.kept.Add(ids)
	}
	q.hidden[rec.Run] = &hiddenRun{rec.Hidden, live}
}

// checkHidden checks that each hidden run holds what the journal says (H5).
func (q *queue) checkHidden(reader *runs.Reader, dir string) error {
	for id, h := range q.hidden {
		for _, ids := range q.gone {
			h.live.RemoveRange(ids)
		}
		if h.live.Len() == 0 {
			continue
		}
		file := runs.File{Path: runs.Path(dir, id.Number), ID: id}
		err := hidden.EachItem(reader, file, h.state.Index, h.state.End, func(e hidden.Entry) { h.live.Remove(e.ID) })
		if err != nil && !runs.IsDamage(err) {
			continue
		}
		if h.live.Len() > 0 {
			return fmt.Errorf("H5: hidden run %d does not hold %v: %v", id.Number, h.live.Ranges(), err)
		}
	}
	return nil
}

// Check checks that every run that the journal names is in dir, as far as anything in it is needed (B6, H5). It
// leaves out the queues whose numbers skip reports. A disk that cannot be read proves nothing.
func (a *Audit) Check(fs segment.FS, dir string, skip func(number uint64) bool) error {
	for _, number := range slices.Sorted(maps.Keys(a.queues)) {
		if skip(number) {
			continue
		}
		if err := a.queues[number].check(fs, dir); err != nil {
			return fmt.Errorf("queue number %d: B6: %w", number, err)
		}
	}
	return nil
}

// check is Check of one queue. Of ids that several runs name the newest counts.
func (q *queue) check(fs segment.FS, dir string) error {
	if q.deleted && len(q.runs) > 0 {
		return errors.New("a run is recorded behind the record that deletes the queue")
	}
	reader := runs.NewReader(fs, nil, 2)
	defer reader.Close()
	covered := slices.Clone(q.gone)
	if m := q.marked; m.Run.Number != 0 {
		ids, err := marks.Read(reader, runs.File{Path: runs.Path(dir, m.Run.Number), ID: m.Run}, m.End, m.Count)
		if err != nil && runs.IsDamage(err) {
			return fmt.Errorf("of what is gone in the middle: %w", err)
		}
		if err != nil {
			return nil
		}
		for r := range ids.Within(idset.Between(1, math.MaxUint64)) {
			covered = covered.Add(r)
		}
	}
	for _, ids := range q.kept {
		covered = covered.Add(ids)
	}
	newestFirst := func(a, b segment.RunID) int { return cmp.Compare(b.Number, a.Number) }
	for _, id := range slices.SortedFunc(maps.Keys(q.runs), newestFirst) {
		state := q.runs[id]
		ids := state.IDs()
		for _, needed := range ids.Minus(covered) {
			left, err := reader.Missing(runs.File{Path: runs.Path(dir, id.Number), ID: id}, state.End, needed)
			if err != nil && !runs.IsDamage(err) {
				continue
			}
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("it does not hold %+v", left)
			}
			if err != nil {
				return fmt.Errorf("run %d, %+v, of which the journal needs %+v: %w", id.Number, state, needed, err)
			}
		}
		covered = covered.Add(ids)
	}
	return q.checkHidden(reader, dir)
}
