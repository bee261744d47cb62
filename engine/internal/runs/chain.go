package runs

import (
	"cmp"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// Part is a run of a queue, and how much of the queue is in it.
type Part struct {
	File
	State
}

// Found is a run of which a start has looked at what lives.
type Found struct {
	Part
	First uint64     // the first id that may live
	Live  item.Tally // what lives
}

// Collect looks at the runs of a queue, of which gone is gone. It returns those in which an item lives, by the ids of
// these, and the others that exist. absent is the part of the ranges of the latter that they do not hold. What an older
// run holds of a newer one's range has been spilled again, after it had been kept. The file of a run that was repaired
// has a new number, and holds what lived, so no newer one's range is touched.
func (r *Reader) Collect(
	all []Part, gone idset.Bitmap, exists func(number uint64) bool,
) (live []Found, spent []Part, absent idset.Set, err error) {
	slices.SortFunc(all, func(a, b Part) int { return cmp.Compare(b.ID.Number, a.ID.Number) })
	gone = gone.Clone()
	for _, p := range all {
		f := Found{Part: p}
		if f.Live, f.First, err = r.Survey(p.File, p.State, &gone); err != nil {
			return nil, nil, nil, err
		}
		ids := p.IDs()
		switch {
		case f.Live.Count > 0:
			live = append(live, f)
		case exists(p.ID.Number):
			spent = append(spent, p)
			absent = append(absent, gone.Missing(ids)...)
		}
		gone.AddRange(ids)
	}
	// By id, which is by number unless one was repaired.
	slices.SortFunc(live, func(a, b Found) int { return cmp.Compare(a.First, b.First) })
	return live, spent, absent, nil
}

// EachFrom calls f for the items in a chain of runs from an id on, oldest first, until f returns false. It passes over
// those that are gone, and ends behind as many items as count says. Each frame is read into memory of its own.
func (r *Reader) EachFrom(chain []Part, id uint64, count int64, gone *idset.Bitmap, f func(item.Item) bool) error {
	more := count > 0
	for _, p := range chain {
		at := At(&p, id)
		for more && at.ID <= p.LastID {
			frame, tag, err := r.Seek(p.File, at.Offset, at.ID, p.End)
			if err != nil {
				return err
			}
			if frame.Size == 0 {
				break // the run ends here
			}
			body, _, err := r.Body(p.File, frame, tag, nil)
			if err != nil {
				return err
			}
			item.EachImage(body, tag.FirstID, func(it item.Item) bool {
				if it.ID >= at.ID && !gone.Has(it.ID) {
					count--
					more = f(it) && count > 0
				}
				return more
			})
			at.Pass(tag, frame.Next)
		}
		id = at.ID
	}
	return nil
}
