package repair

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// runRepair writes what lives of damaged runs to new ones.
type runRepair struct {
	d     *Damage
	coder *segment.Coder
	made  []liveRun
	files []string // made, for all queues

	// Of the run being written:
	run      *segment.RunWriter
	extended bool // it may have items that are not plain
	pack     runs.Packer
	others   idset.Set // of the queue's other runs
}

// repair replaces the runs of q that have gaps, and returns the files that are of no use then.
func (w *runRepair) repair(q *salvagedQueue) (replaced []string, err error) {
	var whole []liveRun
	w.others, w.made = nil, nil
	gone := idset.BitmapOf(q.Gone)
	for _, r := range q.live {
		for _, ids := range slices.Concat(r.absent(), r.lostOf(q)) { // or a start would look for them
			gone.AddRange(ids)
		}
	}
	q.Gone = gone.Ranges()
	for _, r := range q.live {
		if len(r.gaps) == 0 {
			whole = append(whole, r)
			w.others = append(w.others, r.recorded.IDs())
		}
	}
	for _, r := range q.live {
		if len(r.gaps) == 0 {
			continue
		}
		if err := w.rewrite(q, &r); err != nil {
			return replaced, err
		}
		replaced = append(replaced, r.path)
	}
	q.live = append(whole, w.made...)
	slices.SortFunc(q.live, func(a, b liveRun) int { return cmp.Compare(a.first, b.first) })
	return replaced, nil
}

// rewrite writes what lives of r, and what was saved of it, in the order of ids.
func (w *runRepair) rewrite(q *salvagedQueue, r *liveRun) error {
	var saved []uint64
	for id := range q.saved {
		if r.lives(id) && r.lost.Has(id) {
			saved = append(saved, id)
		}
	}
	slices.Sort(saved)
	savedBelow := func(id uint64) (err error) {
		for len(saved) > 0 && saved[0] < id && err == nil {
			it := q.saved[saved[0]]
			it.ID = saved[0]
			err = w.add(it)
			saved = saved[1:]
		}
		return err
	}
	_, err := w.d.eachFrame(r.run, func(_ segment.RunFrame, tag runs.Tag, body []byte) (err error) {
		item.EachImage(body, tag.FirstID, func(it item.Item) bool {
			if err = savedBelow(it.ID); err == nil && r.lives(it.ID) {
				err = w.add(it)
			}
			return err == nil
		})
		return err
	})
	if err == nil {
		err = savedBelow(math.MaxUint64)
	}
	return errors.Join(err, w.end(err == nil))
}

// add puts an item behind the others.
func (w *runRepair) add(it item.Item) error {
	between := func(ids idset.Range) bool { return w.pack.LastID() < ids.First && ids.First < it.ID }
	if w.run != nil && (slices.ContainsFunc(w.others, between) || !it.IsPlain() && !w.extended) {
		// A run that reached across another one would hide it.
		if err := w.end(true); err != nil {
			return err
		}
	}
	if w.run == nil {
		if err := w.begin(!it.IsPlain()); err != nil {
			return err
		}
	}
	return w.pack.Add(it)
}

// begin makes a run, which may be an extended one.
func (w *runRepair) begin(extended bool) (err error) {
	fs, dir := w.d.place.FS, w.d.place.Runs
	if err := fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("make directory of backlogs: %w", err)
	}
	w.d.lastRun++
	w.run, err = segment.CreateRun(fs, runs.Path(dir, w.d.lastRun), w.d.lastRun, segment.Cached)
	if err != nil {
		return err
	}
	if w.extended = extended; extended {
		w.run.Extend(false) // a start reads the items, and finds the keys
	}
	w.files = append(w.files, w.run.Path())
	w.pack = runs.Packer{W: w.run, Coder: w.coder}
	return nil
}

// end makes the run that is being written durable, if there is one and it is to be kept.
func (w *runRepair) end(keep bool) (err error) {
	if w.run == nil {
		return nil
	}
	if keep {
		var state runs.State
		if state, err = w.pack.End(); err == nil {
			err = w.run.Sync()
		}
		made := &run{path: w.run.Path(), id: w.run.ID(), recorded: state}
		w.made = append(w.made, liveRun{run: made, first: state.FirstID})
	}
	err = errors.Join(err, w.run.Close())
	w.run = nil
	return err
}
