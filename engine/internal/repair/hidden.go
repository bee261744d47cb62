package repair

import (
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// HiddenRun is a hidden run as the replay has it, and what lives in it.
type HiddenRun struct {
	ID    segment.RunID
	State record.Hidden // IDs is not used
	Live  idset.Bitmap
}

// Rescued is an item that a hidden run has lost, as the journal had it before.
type Rescued struct {
	Item   item.Item
	Change record.Change
}

// hiddenRun is a hidden run, and what is whole of it.
type hiddenRun struct {
	path  string
	id    segment.RunID
	end   int64
	queue uint64       // number under which its queue entered the journal last
	named idset.Bitmap // ids that it had at some time
	gaps  []segment.RunGap
	lost  idset.Bitmap // of named, those that are in no frame that is whole
}

// surveyHidden notes a hidden run that the journal names.
func (v *Salvage) surveyHidden(rec *record.Record) {
	v.d.lastRun = max(v.d.lastRun, rec.Run.Number)
	r := v.hidden[rec.Run]
	if r == nil {
		r = &hiddenRun{path: runs.Path(v.d.place.Runs, rec.Run.Number), id: rec.Run}
		v.hidden[rec.Run] = r
	}
	r.end, r.queue = rec.Hidden.End, rec.Queue
	ids, _ := idset.ParseBitmap(rec.Hidden.IDs) // the replay reports what is wrong with it
	ids.Each(func(id uint64) bool {
		r.named.Add(id)
		return true
	})
}

// checkHidden reads every hidden run that the journal names.
func (v *Salvage) checkHidden() (err error) {
	for _, r := range v.hidden {
		r.lost = r.named.Clone()
		r.gaps, err = v.d.eachHidden(r, func(e hidden.Entry) { r.lost.Remove(e.ID) })
		if err != nil {
			return err
		}
		if len(r.gaps) == 0 {
			r.lost = idset.Bitmap{} // it never had them
		}
	}
	return nil
}

// eachHidden calls f for every item of a hidden run in a frame that is whole; its Data is valid during the call.
func (d *Damage) eachHidden(r *hiddenRun, f func(hidden.Entry)) ([]segment.RunGap, error) {
	return segment.SalvageRun(d.place.FS, r.path, r.id, r.end, &d.decoder, func(frame segment.RunFrame, body []byte) error {
		d.place.Read(int64(len(body)))
		if hidden.IsIndex(frame.Tag) {
			_, err := hidden.ParseIndex(frame.Tag, body, frame.Offset)
			return corrupt(r.path, frame.Offset, err)
		}
		if keyindex.IsFrame(frame.Tag) {
			return checkKeys(r.path, frame, body)
		}
		err := hidden.EachEntry(frame.Tag, body, func(e hidden.Entry) bool {
			f(e)
			return true
		})
		return corrupt(r.path, frame.Offset, err)
	})
}

// LostOf returns the ids of the items that a hidden run has lost; nil if it has lost none.
func (v *Salvage) LostOf(id segment.RunID) *idset.Bitmap {
	if v == nil || v.hidden[id] == nil || v.hidden[id].lost.Len() == 0 {
		return nil
	}
	return &v.hidden[id].lost
}

// hiddenOf counts what lives in the hidden runs of q. What is left of one that is damaged goes to the journal. A run that
// was recorded again under a higher queue number belongs to that queue; see runsOf.
func (v *Salvage) hiddenOf(q *salvagedQueue) error {
	var whole []HiddenRun
	for _, h := range q.Hidden {
		r := v.hidden[h.ID]
		if h.Live.Len() == 0 || r.queue != q.Number {
			continue // the file need not even be there
		}
		var saved []hidden.Entry
		var t item.Tally
		_, err := v.d.eachHidden(r, func(e hidden.Entry) {
			if !h.Live.Has(e.ID) {
				return
			}
			if t.Account(&e.Item, 1); len(r.gaps) > 0 {
				e.Item = e.Item.Clone()
				saved = append(saved, e)
			}
		})
		if err != nil {
			return err
		}
		if len(r.gaps) == 0 {
			h.State.Bytes = t.Bytes
			q.items, q.bytes = q.items+t.Count, q.bytes+t.Bytes
			whole = append(whole, h)
			continue
		}
		for _, g := range r.gaps {
			v.d.Gaps = append(v.d.Gaps, g.Gap)
		}
		q.damaged = append(q.damaged, r)
		if q.Changed == nil {
			q.Changed = make(map[uint64]record.Change)
		}
		for _, e := range saved {
			q.Kept[e.ID], q.Changed[e.ID] = e.Item, record.Change{Due: e.Due, Count: e.Count}
		}
		for _, ids := range r.lost.Ranges() {
			for id := ids.First; id <= ids.Last; id++ {
				it, rescued := q.Rescued[id]
				if rescued && h.Live.Has(id) {
					q.Kept[id], q.Changed[id] = it.Item, it.Change
				}
				if rescued || !h.Live.Has(id) {
					r.lost.Remove(id)
				}
			}
		}
	}
	q.Hidden = whole
	return nil
}

// countHidden adds what damaged hidden runs have cost q to the losses, and returns their ids.
func (v *Salvage) countHidden(q *salvagedQueue) (all idset.Set) {
	for _, r := range q.damaged {
		for _, lost := range r.lost.Ranges() {
			all = all.Add(lost)
			v.d.Losses = append(v.d.Losses, Loss{
				Queue: q.Name, FirstID: lost.First, LastID: lost.Last, Items: int64(lost.Last - lost.First + 1),
				Bytes: -1, Path: r.path, Offset: r.gaps[0].Offset,
			})
		}
	}
	return all
}

// elsewhere returns the ids that are gone, or for which no run of the backlog is asked.
func (q *salvagedQueue) elsewhere() idset.Bitmap {
	ids := idset.BitmapOf(q.Gone)
	for id := range q.Kept {
		ids.Add(id)
	}
	for i := range q.Hidden {
		ids.AddAll(&q.Hidden[i].Live)
	}
	return ids
}
