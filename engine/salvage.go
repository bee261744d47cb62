package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// salvage reads a data directory that may be damaged: it takes the journal for what is whole of it,
// and notes what must have been in the gaps.
//
// Ids show it. They rise by one for each put, so where those of a queue jump from one side of a gap to
// the other, what lies between was put, and is lost unless it was gone. What was put in a gap that
// no later record follows leaves no trace. Removes in a gap are forgotten: what they removed is
// there again.
type salvage struct {
	d       *Damage
	damaged bool // the journal is
	gaps    int  // in the journal, so far, that may have held records
	// whole says that the journal was never cut at its front: an id that is not there is lost.
	whole bool
	runs  map[segment.RunID]*salvagedRun
}

// salvagedRun is a run, and what is whole of it.
type salvagedRun struct {
	run
	queue  uint64 // number under which its queue entered the journal last
	gaps   []segment.RunGap
	lost   idset.Set // ids of items that can have been in the gaps; ascending
	frames []checkedFrame
}

// checkedFrame is a frame that is whole.
type checkedFrame struct {
	offset int64
	runs.Tag
}

// salvagedQueue is a queue as it can be had.
type salvagedQueue struct {
	*replayed
	live         []liveRun // ascending
	items, bytes int64
}

// liveRun is a run in which something lives.
type liveRun struct {
	*salvagedRun
	first uint64    // no item of it that lives has a lower id
	gone  idset.Set // what of its range does not live
}

// scan reads the journal.
func (v *salvage) scan(visit segment.Visitor, gap func(segment.Gap)) error {
	e := v.d.e
	if v.damaged {
		return segment.Salvage(e.fs, e.journals.Current(), visit, gap)
	}
	_, _, err := segment.Scan(e.fs, e.journals.Current(), visit)
	return err
}

func (v *salvage) gap(g segment.Gap) {
	v.d.Gaps = append(v.d.Gaps, g)
	if g.Batches {
		v.gaps++
	}
}

// surveyFrame notes the runs that a frame of the journal names.
func (v *salvage) surveyFrame(f segment.Frame) error {
	v.whole = v.whole || f.Segment == 1
	for b, off := f.Payload, 0; off < len(b); {
		rec, size, err := record.Parse(b[off:])
		if err != nil {
			return nil // replay reports it
		}
		off += size
		if rec.Kind != record.KindSpill {
			continue
		}
		if r := v.runs[rec.Run]; r == nil || r.recorded.End <= rec.Spill.End {
			v.runs[rec.Run] = &salvagedRun{queue: rec.Queue, run: run{
				path: runs.Path(v.d.e.spool.dir, rec.Run.Number), id: rec.Run,
				written: rec.Spill, recorded: rec.Spill,
			}}
		}
	}
	return nil
}

// checkRuns reads every run that the journal names.
func (v *salvage) checkRuns() error {
	for _, r := range v.runs {
		var err error
		r.gaps, err = v.eachFrame(r, func(f segment.RunFrame, tag runs.Tag, _ []byte) error {
			r.frames = append(r.frames, checkedFrame{f.Offset, tag})
			return nil
		})
		if err != nil {
			return err
		}
		for _, g := range r.gaps {
			r.lost = r.lost.Add(r.idsIn(g))
		}
	}
	return nil
}

// eachFrame calls f for every frame of a run that is whole, with its body, which is valid during
// the call.
func (v *salvage) eachFrame(
	r *salvagedRun, f func(segment.RunFrame, runs.Tag, []byte) error,
) ([]segment.RunGap, error) {
	s := v.d.e.spool
	return segment.SalvageRun(s.fs, r.path, r.id, r.recorded.End, &s.decoder,
		func(frame segment.RunFrame, body []byte) error {
			tag := runs.ParseTag(frame.Tag)
			if _, err := tag.Check(body); err != nil {
				return &segment.CorruptionError{Path: r.path, Offset: frame.Offset, Reason: err.Error()}
			}
			return f(frame, tag, body)
		})
}

// idsIn is what ids a gap can have held; the range is empty if it held none.
func (r *salvagedRun) idsIn(g segment.RunGap) idset.Range {
	if !g.Batches {
		return idset.Between(1, 0)
	}
	if g.Tag != nil {
		tag := runs.ParseTag(*g.Tag)
		return tag.IDs()
	}
	ids := r.recorded.IDs()
	for _, f := range r.frames {
		if f.offset < g.Offset {
			ids.First = max(ids.First, f.LastID+1)
		} else {
			ids.Last = min(ids.Last, f.FirstID-1)
		}
	}
	for _, other := range r.gaps {
		switch {
		case other.Tag == nil:
		case other.Offset < g.Offset:
			ids.First = max(ids.First, runs.ParseTag(*other.Tag).LastID+1)
		case other.Offset > g.Offset:
			ids.Last = min(ids.Last, runs.ParseTag(*other.Tag).FirstID-1)
		}
	}
	return ids
}

// lostIn returns a function that reports whether the item of an id of a run is lost; nil if none is.
func (v *salvage) lostIn(id segment.RunID) func(uint64) bool {
	if v == nil || len(v.runs[id].lost) == 0 {
		return nil
	}
	lost := v.runs[id].lost
	return func(id uint64) bool { return lost.Has(id) }
}

// reach notes that q has given out all ids below next: those that were left out on the way past a
// gap were put in it.
func (v *salvage) reach(q *replayed, next uint64) {
	switch {
	case v == nil || q.gapsSeen == v.gaps || next <= q.nextID:
	case q.nextID > 1 || v.whole:
		q.missing = q.missing.Add(idset.Between(q.nextID, next-1))
	default:
		q.unsure = next - 1
	}
}

// follow is reach where next is what q gives out next: the gap is over.
func (v *salvage) follow(q *replayed, next uint64) {
	if v.reach(q, next); v != nil {
		q.gapsSeen = v.gaps
	}
}

// finish makes of what the replay has the queues that can be had.
func (v *salvage) finish(r *replay) error {
	byName, names := make(map[string]*salvagedQueue), make(map[string]bool)
	for _, q := range r.queues {
		names[q.name] = true
	}
	for _, number := range slices.Sorted(maps.Keys(r.queues)) { // as they were made
		q := &salvagedQueue{replayed: r.queues[number]}
		if err := v.runsOf(q); err != nil {
			return err
		}
		q.compact(&r.pool)
		q.forgetTwins()
		q.items += q.window.Count + int64(len(q.kept))
		q.bytes += q.window.Bytes
		for _, it := range q.kept {
			q.bytes += int64(len(it.Data))
		}
		if !q.named {
			if q.items == 0 && len(q.missing) == 0 {
				continue // deleted, and all that is left are removes
			}
			q.created, q.named = Now(), true
			q.name = freeName(names, number)
			v.d.Renamed = append(v.d.Renamed, q.name)
		}
		if older := byName[q.name]; older != nil { // it was deleted before this one was made
			v.d.Dropped = append(v.d.Dropped, q.name)
			v.d.dropped = append(v.d.dropped, older)
			v.d.queues = slices.DeleteFunc(v.d.queues, func(o *salvagedQueue) bool { return o == older })
			v.d.Losses = slices.DeleteFunc(v.d.Losses, func(l Loss) bool { return l.Queue == q.name })
		}
		byName[q.name] = q
		v.d.queues = append(v.d.queues, q)
		v.count(q)
	}
	return v.findUnclaimed()
}

// forgetTwins forgets the kept items that are in the window too: checkpoints rewrite small queues as a
// whole.
func (q *salvagedQueue) forgetTwins() {
	if len(q.kept) > 0 {
		q.window.Each(func(it Item) bool {
			delete(q.kept, it.ID)
			return true
		})
	}
}

// freeName takes a name for a queue whose own is lost: not that of another queue, older or younger.
func freeName(taken map[string]bool, number uint64) string {
	name := fmt.Sprint("recovered-", number)
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("recovered-%d-%d", number, n)
	}
	taken[name] = true
	return name
}

// runsOf finds what lives in the queue's runs. What an older run holds of a newer one's range no longer
// belongs to that queue; see collect. Nor does a run that was recorded again under a higher queue number:
// the queue has left the journal and entered it again, and the record that says so is lost.
func (v *salvage) runsOf(q *salvagedQueue) error {
	gone := slices.Clone(q.gone)
	for id := range q.kept {
		gone = gone.Add(idset.One(id))
	}
	slices.SortFunc(q.runs, func(a, b *run) int { return cmp.Compare(b.id.Number, a.id.Number) })
	for _, recorded := range q.runs {
		r := v.runs[recorded.id]
		if r.queue != q.number {
			continue
		}
		live := liveRun{salvagedRun: r, gone: gone.Within(r.recorded.IDs())}
		items, bytes, err := v.survey(q, &live)
		if err != nil {
			return err
		}
		gone = gone.Add(r.recorded.IDs())
		lost := len(live.lostOf(q)) > 0
		if items == 0 && !lost {
			continue // the file need not even be there
		}
		for _, g := range r.gaps {
			v.d.Gaps = append(v.d.Gaps, g.Gap)
		}
		q.items, q.bytes = q.items+items, q.bytes+bytes
		q.live = append(q.live, live)
	}
	slices.SortFunc(q.live, func(a, b liveRun) int { return cmp.Compare(a.first, b.first) })
	return nil
}

// survey counts what of a run lives, saved items included.
func (v *salvage) survey(q *salvagedQueue, r *liveRun) (items, bytes int64, err error) {
	r.first = math.MaxUint64
	for id, it := range q.saved {
		if r.lives(id) && r.lost.Has(id) {
			items, bytes, r.first = items+1, bytes+int64(len(it.Data)), min(r.first, id)
		}
	}
	if len(r.gone) == 0 {
		for _, f := range r.frames {
			items, bytes, r.first = items+f.Count, bytes+f.Bytes, min(r.first, f.FirstID)
		}
		return items, bytes, nil
	}
	_, err = v.eachFrame(r.salvagedRun, func(_ segment.RunFrame, tag runs.Tag, body []byte) error {
		if r.gone.Count(tag.IDs()) == tag.LastID-tag.FirstID+1 {
			return nil
		}
		item.EachImage(body, tag.FirstID, func(it Item) bool {
			if r.lives(it.ID) {
				items, bytes, r.first = items+1, bytes+int64(len(it.Data)), min(r.first, it.ID)
			}
			return true
		})
		return nil
	})
	return items, bytes, err
}

// lives reports whether the item of an id is one of the run's that live.
func (r *liveRun) lives(id uint64) bool { return r.recorded.Holds(id) && !r.gone.Has(id) }

// lostOf returns the ids of items that lived in the run's gaps, and are not in the journal still.
func (r *liveRun) lostOf(q *salvagedQueue) (lost idset.Set) {
	for _, ids := range r.lost {
		lost = append(lost, r.without(q, ids)...)
	}
	return lost
}

// without returns what of ids is neither gone nor saved.
func (r *liveRun) without(q *salvagedQueue, ids idset.Range) idset.Set {
	gone := slices.Clone(r.gone)
	for id := range q.saved {
		if ids.First <= id && id <= ids.Last {
			gone = gone.Add(idset.One(id))
		}
	}
	ids.First, ids.Last = max(ids.First, r.recorded.FirstID), min(ids.Last, r.recorded.LastID)
	return ids.Minus(gone)
}

// This file words what a damaged directory has lost.

// count adds what q has lost to the losses.
func (v *salvage) count(q *salvagedQueue) {
	known := slices.Clone(q.gone)
	q.window.Each(func(it Item) bool {
		known = known.Add(idset.One(it.ID))
		return true
	})
	for id := range q.kept {
		known = known.Add(idset.One(id))
	}
	for _, r := range q.live {
		known = known.Add(r.recorded.IDs())
		for _, g := range r.gaps {
			v.countGap(q, &r, g)
		}
	}
	q.live = slices.DeleteFunc(q.live, func(r liveRun) bool { return r.first == math.MaxUint64 })
	if q.unsure > 0 {
		for _, lost := range idset.Between(1, q.unsure).Minus(known) {
			v.d.Losses = append(v.d.Losses, Loss{
				Queue: q.name, FirstID: lost.First, LastID: lost.Last, Items: -1, AtMost: true, Bytes: -1,
			})
		}
	}
	for _, ids := range q.missing {
		for _, lost := range ids.Minus(known) {
			v.d.Losses = append(v.d.Losses, Loss{
				Queue: q.name, FirstID: lost.First, LastID: lost.Last,
				Items: int64(lost.Last - lost.First + 1), AtMost: true, Bytes: -1,
			})
		}
	}
	for _, ids := range slices.Concat(q.gone, q.missing) {
		if ids.Last < math.MaxUint64-1 {
			q.nextID = max(q.nextID, ids.Last+1)
		}
	}
}

// countGap adds what a gap in a run has cost q.
func (v *salvage) countGap(q *salvagedQueue, r *liveRun, g segment.RunGap) {
	ids := r.idsIn(g)
	if ids.First > ids.Last {
		return
	}
	left := r.without(q, ids)
	whole := len(left) == 1 && left[0] == ids
	for _, lost := range left {
		l := Loss{
			Queue: q.name, FirstID: lost.First, LastID: lost.Last,
			Items: int64(lost.Last - lost.First + 1), Bytes: -1, Path: g.Path, Offset: g.Offset,
			AtMost: true,
		}
		switch {
		case whole && g.Tag != nil:
			tag := runs.ParseTag(*g.Tag)
			l.Items, l.Bytes, l.AtMost = tag.Count, tag.Bytes, false
		case whole && len(r.gaps) == 1 && len(r.gone) == 0:
			l.Items, l.Bytes, l.AtMost = r.recorded.Count, r.recorded.Bytes, false
			for _, f := range r.frames {
				l.Items, l.Bytes = l.Items-f.Count, l.Bytes-f.Bytes
			}
		}
		v.d.Losses = append(v.d.Losses, l)
	}
}

// findUnclaimed looks for runs that no record names. It reports them if records are missing. Otherwise they
// mean nothing, but their numbers are taken: a repair that was interrupted may have made them.
func (v *salvage) findUnclaimed() error {
	s := v.d.e.spool
	names, err := s.fs.List(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	claimed := make(map[uint64]bool)
	for id := range v.runs {
		claimed[id.Number] = true
	}
	slices.Sort(names)
	for _, name := range names {
		number, ok := runs.ParseName(name)
		if !ok || claimed[number] {
			continue
		}
		if s.isTaken(number); v.gaps == 0 {
			continue
		}
		u, err := v.unclaimed(number)
		if err != nil {
			return err
		}
		v.d.Unclaimed = append(v.d.Unclaimed, u)
	}
	return nil
}

// unclaimed looks at a run that no record names.
func (v *salvage) unclaimed(number uint64) (u UnclaimedRun, err error) {
	s := v.d.e.spool
	u.Path = runs.Path(s.dir, number)
	id, size, err := segment.IdentifyRun(s.fs, u.Path)
	if errors.Is(err, segment.ErrCorrupt) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	r := &salvagedRun{run: run{path: u.Path, id: id, recorded: runs.State{End: size}}}
	_, err = v.eachFrame(r, func(_ segment.RunFrame, tag runs.Tag, _ []byte) error {
		if u.Items == 0 {
			u.FirstID = tag.FirstID
		}
		u.LastID = tag.LastID
		u.Items, u.Bytes = u.Items+tag.Count, u.Bytes+tag.Bytes
		return nil
	})
	return u, err
}
