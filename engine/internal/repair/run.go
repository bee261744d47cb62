package repair

import (
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// run is a run, and what is whole of it.
type run struct {
	path     string
	id       segment.RunID
	recorded runs.State // what the journal says of it
	queue    uint64     // number under which its queue entered the journal last
	gaps     []segment.RunGap
	lost     idset.Set // ids of items that can have been in the gaps; ascending
	frames   []checkedFrame
	held     idset.Bitmap // ids of items in frames
}

// checkedFrame is a frame that is whole.
type checkedFrame struct {
	offset int64
	runs.Tag
}

// liveRun is a run in which something lives.
type liveRun struct {
	*run
	first uint64       // no item of it that lives has a lower id
	gone  idset.Bitmap // what of its range does not live
}

// idsIn is what ids a gap can have held; the range is empty if it held none.
func (r *run) idsIn(g segment.RunGap) idset.Range {
	if !g.Batches || g.Tag != nil && keyindex.IsFrame(*g.Tag) {
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
		case other.Tag == nil || keyindex.IsFrame(*other.Tag):
		case other.Offset < g.Offset:
			ids.First = max(ids.First, runs.ParseTag(*other.Tag).LastID+1)
		case other.Offset > g.Offset:
			ids.Last = min(ids.Last, runs.ParseTag(*other.Tag).FirstID-1)
		}
	}
	return ids
}

// lives reports whether the item of an id is one of the run's that live.
func (r *liveRun) lives(id uint64) bool { return r.recorded.Contains(id) && !r.gone.Has(id) }

// lostOf returns the ids of items that lived in the run's gaps, and are not in the journal still.
func (r *liveRun) lostOf(q *salvagedQueue) (lost idset.Set) {
	for _, ids := range r.lost {
		lost = append(lost, r.without(q, ids)...)
	}
	return lost
}

// absent returns what of the run's range neither it nor the journal has, and no record says is gone: that record is lost.
// A start takes such an id for an item of the run.
func (r *liveRun) absent() idset.Set {
	known := r.held.Clone()
	known.AddAll(&r.gone)
	for _, ids := range r.lost {
		known.AddRange(ids)
	}
	return known.Missing(r.recorded.IDs())
}

// hold notes the ids of the items in a frame.
func (r *run) hold(tag runs.Tag, body []byte) {
	if uint64(tag.Count) == tag.LastID-tag.FirstID+1 {
		r.held.AddRange(tag.IDs())
		return
	}
	item.EachImage(body, tag.FirstID, func(it item.Item) bool {
		r.held.Add(it.ID)
		return true
	})
}

// without returns what of ids is neither gone nor saved.
func (r *liveRun) without(q *salvagedQueue, ids idset.Range) idset.Set {
	ids.First, ids.Last = max(ids.First, r.recorded.FirstID), min(ids.Last, r.recorded.LastID)
	if ids.First > ids.Last {
		return nil
	}
	gone := within(&r.gone, ids)
	for id := range q.saved {
		if ids.First <= id && id <= ids.Last {
			gone.Add(id)
		}
	}
	return gone.Missing(ids)
}

// within returns what of ids is in a set.
func within(all *idset.Bitmap, ids idset.Range) (part idset.Bitmap) {
	for r := range all.Within(ids) {
		part.AddRange(r)
	}
	return part
}

// checkKeys returns a *segment.CorruptionError unless a frame with keys is valid.
func checkKeys(path string, frame segment.RunFrame, body []byte) error {
	_, _, err := keyindex.ParseFrame(frame.Tag, body, nil)
	return corrupt(path, frame.Offset, err)
}

// corrupt makes damage of an error.
func corrupt(path string, offset int64, err error) error {
	if err == nil {
		return nil
	}
	return &segment.CorruptionError{Path: path, Offset: offset, Reason: err.Error()}
}
