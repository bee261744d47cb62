package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// Line is where the items of a queue are that were in line, or open, when the process ended.
type Line struct {
	Window item.Window // in memory, if none lives in a run
	Recent item.Window // in memory, behind those in runs

	Runs   []runs.Part  // in which some live, by the ids of these
	Spent  []runs.Part  // in which none does, and whose files exist
	InRuns item.Tally   // what lives in them, but for Open
	First  uint64       // no item in runs that lives, but for Open, has a lower id
	Gone   idset.Bitmap // ids from the first run on that are gone
	Oldest item.Time    // when the first item in runs was added; zero if it could not be read

	Open []Kept // items before the end of the runs that were open, or lie before one that was; by their ids
}

// HasRuns reports whether the queue has runs, even if nothing lives in them.
func (l *Line) HasRuns() bool { return len(l.Runs)+len(l.Spent) > 0 }

// LastID is the last id in a run in which an item lives; there is one.
func (l *Line) LastID() uint64 { return l.Runs[len(l.Runs)-1].LastID }

// Restore finds the items that are in line: it takes them out of Window and Kept, and looks at the runs of dir. The
// memory of the queue is limit. It reads what it must, and returns a *segment.CorruptionError if a run is not what the
// journal says.
//
// Runs of which nothing lives are spent if their file still exists. So the engine writes their removals before the file
// goes.
func (q *Queue) Restore(
	p *item.Pool, limit int64, r *runs.Reader, dir *runs.Dir, exists func(number uint64) bool,
) (l Line, err error) {
	if len(q.Runs) > 0 {
		if err := q.collect(&l, r, dir, exists); err != nil {
			return l, err
		}
	}
	kept := slices.Sorted(maps.Keys(q.Kept))
	if len(l.Runs) == 0 {
		if len(kept) > 0 {
			q.MergeKept(p, &q.Window, kept, limit)
		}
		l.Window, q.Window = q.Window, item.Window{}
		return l, nil
	}
	n, _ := slices.BinarySearch(kept, l.LastID()+1)
	if err := q.restoreOpen(&l, kept[:n], r); err != nil {
		return l, err
	}
	if late := kept[n:]; len(late) > 0 {
		q.MergeKept(p, &q.Window, late, limit)
	}
	l.Recent, q.Window = q.Window, item.Window{}
	return l, nil
}

// collect looks at the runs of the queue.
func (q *Queue) collect(l *Line, r *runs.Reader, dir *runs.Dir, exists func(number uint64) bool) error {
	gone := q.Gone.Clone()
	for _, id := range slices.Sorted(maps.Keys(q.Kept)) {
		gone.Add(id)
	}
	for _, id := range slices.Sorted(maps.Keys(q.Changed)) { // no run has them
		gone.Add(id)
	}
	for _, h := range q.Hidden { // nor those
		for _, ids := range h.Live.Ranges() {
			gone.AddRange(ids)
		}
	}
	parts := make([]runs.Part, len(q.Runs))
	for i, known := range q.Runs {
		parts[i] = runs.Part{File: dir.File(known.ID), State: known.State}
	}
	live, spent, absent, err := r.Collect(parts, gone, exists)
	if err != nil {
		return err
	}
	l.Spent = spent
	first, last := uint64(1), uint64(0) // of what lives in runs
	for _, f := range live {
		l.Runs = append(l.Runs, f.Part)
		l.InRuns.Add(f.Live, 1)
	}
	if len(live) > 0 {
		first, last = live[0].First, l.LastID()
		l.First = first
		// What cannot be read is reported by the fetch that comes to it; until then only the queue's age is unknown.
		l.Oldest, _ = r.Added(live[0].File, first, live[0].End, &gone)
	}
	if l.HasRuns() {
		for _, ids := range absent {
			q.Gone.AddRange(ids)
		}
		for ids := range gone.Within(idset.Between(first, last)) {
			l.Gone.AddRange(ids)
		}
		for ids := range q.Gone.Within(idset.Between(last+1, q.NextID-1)) {
			l.Gone.AddRange(ids)
		}
	}
	return nil
}

// restoreOpen takes kept items of ids that lie before the end of the runs. An item in a run before one of them was open
// too, and is read now.
func (q *Queue) restoreOpen(l *Line, early []uint64, r *runs.Reader) error {
	if len(early) == 0 {
		return nil
	}
	for _, id := range early {
		l.Open = append(l.Open, q.Kept[id])
	}
	last := early[len(early)-1]
	err := r.EachFrom(l.Runs, l.First, l.InRuns.Count, &l.Gone, func(it item.Item) bool {
		if it.ID <= last {
			l.Open = append(l.Open, Kept{Item: it})
			l.InRuns.Count--
			l.InRuns.Bytes -= int64(len(it.Data))
		}
		return it.ID < last
	})
	slices.SortFunc(l.Open, func(a, b Kept) int { return cmp.Compare(a.ID, b.ID) })
	l.First = max(l.First, last+1)
	return err
}
