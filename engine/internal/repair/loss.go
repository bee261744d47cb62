package repair

import (
	"errors"
	"io/fs"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// This file words what a damaged directory has lost.

// count adds what q has lost to the losses.
func (v *Salvage) count(q *salvagedQueue) {
	known := q.elsewhere()
	q.Window.Each(func(it item.Item) bool {
		known.Add(it.ID)
		return true
	})
	for _, ids := range v.countHidden(q) {
		known.AddRange(ids)
	}
	for _, r := range q.live {
		known.AddRange(r.recorded.IDs())
		v.countAbsent(q, &r)
		for _, g := range r.gaps {
			v.countGap(q, &r, g)
		}
	}
	q.live = slices.DeleteFunc(q.live, func(r liveRun) bool {
		if r.first != math.MaxUint64 {
			return false
		}
		q.lostRuns = append(q.lostRuns, r.path)
		return true
	})
	if q.unsure > 0 {
		for _, lost := range known.Missing(idset.Between(1, q.unsure)) {
			v.d.Losses = append(v.d.Losses, Loss{
				Queue: q.Name, FirstID: lost.First, LastID: lost.Last, Items: -1, AtMost: true, Bytes: -1,
			})
		}
	}
	for _, ids := range q.missing {
		for _, lost := range known.Missing(ids) {
			v.d.Losses = append(v.d.Losses, Loss{
				Queue: q.Name, FirstID: lost.First, LastID: lost.Last,
				Items: int64(lost.Last - lost.First + 1), AtMost: true, Bytes: -1,
			})
		}
	}
	for _, ids := range slices.Concat(q.Gone, q.missing) {
		if ids.Last < math.MaxUint64-1 {
			q.NextID = max(q.NextID, ids.Last+1)
		}
	}
}

// countAbsent adds to the losses of q the items that a run left out, if no record says where they are. If the journal is
// whole, they were removed, and only the list of these is lost.
func (v *Salvage) countAbsent(q *salvagedQueue, r *liveRun) {
	absent := r.absent()
	if len(absent) == 0 || v.gaps == 0 {
		return
	}
	l := Loss{Queue: q.Name, FirstID: absent[0].First, LastID: absent[len(absent)-1].Last, AtMost: true, Bytes: -1}
	for _, ids := range absent {
		l.Items += int64(ids.Last - ids.First + 1)
	}
	v.d.Losses = append(v.d.Losses, l)
}

// countGap adds what a gap in a run has cost q.
func (v *Salvage) countGap(q *salvagedQueue, r *liveRun, g segment.RunGap) {
	ids := r.idsIn(g)
	if ids.First > ids.Last {
		return
	}
	left := r.without(q, ids)
	whole := len(left) == 1 && left[0] == ids
	for _, lost := range left {
		l := Loss{
			Queue: q.Name, FirstID: lost.First, LastID: lost.Last,
			Items: int64(lost.Last - lost.First + 1), Bytes: -1, Path: g.Path, Offset: g.Offset,
			AtMost: true,
		}
		switch {
		case whole && g.Tag != nil:
			tag := runs.ParseTag(*g.Tag)
			l.Items, l.Bytes, l.AtMost = tag.Count, tag.Bytes, false
		case whole && len(r.gaps) == 1 && r.gone.IsEmpty():
			l.Items, l.Bytes, l.AtMost = r.recorded.Count, r.recorded.Bytes, false
			for _, f := range r.frames {
				l.Items, l.Bytes = l.Items-f.Count, l.Bytes-f.Bytes
			}
		}
		v.d.Losses = append(v.d.Losses, l)
	}
}

// findStray looks for runs that no record names. It reports them if records are missing. Otherwise they
// mean nothing, but their numbers are taken: a repair that was interrupted may have made them.
func (v *Salvage) findStray() error {
	names, err := v.d.place.FS.List(v.d.place.Runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	known := make(map[uint64]bool)
	for id := range v.runs {
		known[id.Number] = true
	}
	for id := range v.hidden {
		known[id.Number] = true
	}
	slices.Sort(names)
	for _, name := range names {
		number, ok := runs.ParseName(name)
		if !ok || known[number] || v.marks[number] {
			continue
		}
		if v.d.lastRun = max(v.d.lastRun, number); v.gaps == 0 {
			continue
		}
		u, err := v.stray(number)
		if err != nil {
			return err
		}
		v.d.Stray = append(v.d.Stray, u)
	}
	return nil
}

// stray looks at a run that no record names.
func (v *Salvage) stray(number uint64) (u StrayRun, err error) {
	u.Path = runs.Path(v.d.place.Runs, number)
	id, size, err := segment.IdentifyRun(v.d.place.FS, u.Path)
	if errors.Is(err, segment.ErrCorrupt) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	_, err = segment.SalvageRun(v.d.place.FS, u.Path, id, size, &v.d.decoder, func(f segment.RunFrame, body []byte) error {
		v.d.place.Read(int64(len(body)))
		u.add(f.Tag, body)
		return nil
	})
	return u, err
}

// add counts what is in a frame. Whose file it is, and what for, only the frames say.
func (u *StrayRun) add(tag segment.Tag, body []byte) {
	count := func(first, last uint64, items, bytes int64) {
		if u.Items == 0 {
			u.FirstID = first
		}
		u.FirstID, u.LastID = min(u.FirstID, first), max(u.LastID, last)
		u.Items, u.Bytes = u.Items+items, u.Bytes+bytes
	}
	if keyindex.IsFrame(tag) || hidden.IsIndex(tag) {
		return
	}
	if gone, err := marks.Parse(tag, body); err == nil {
		u.Removed += int64(gone.Len())
		return
	}
	if t := runs.ParseTag(tag); t.Count > 0 {
		if _, err := t.Check(body); err == nil {
			count(t.FirstID, t.LastID, t.Count, t.Bytes)
			return
		}
	}
	whole := hidden.EachEntry(tag, body, func(hidden.Entry) bool { return true })
	if whole == nil {
		hidden.EachEntry(tag, body, func(e hidden.Entry) bool {
			count(e.ID, e.ID, 1, int64(len(e.Data)))
			return true
		})
	}
}
