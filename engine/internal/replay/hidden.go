package replay

import (
	"fmt"
	"math"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
	"github.com/kestrelmq/kestrel/segment"
)

// Hidden is a hidden run as the journal leaves it. A record says which items live in it. Later records say which of
// them are gone, or have their place elsewhere.
type Hidden struct {
	Run   segment.RunID
	State record.Hidden // IDs is not used
	Live  idset.Bitmap
}

// prune takes out what is gone. An id that is gone never comes back, whatever is recorded behind that.
func (h *Hidden) prune(gone *idset.Bitmap) {
	first, ok := h.Live.First()
	if !ok {
		return
	}
	last, _ := h.Live.Last()
	for ids := range gone.Within(idset.Between(first, last)) {
		h.Live.RemoveRange(ids)
	}
}

// hidden takes in what the journal says of a hidden run: whatever it said before of the items in it, they live
// there.
func (r *Replay) hidden(q *Queue, rec *record.Record) error {
	live, err := idset.ParseBitmap(rec.Hidden.IDs)
	if err != nil {
		return fmt.Errorf("queue %d: file %d of delayed items: %w", rec.Queue, rec.Run.Number, err)
	}
	first, _ := live.First()
	last, _ := live.Last()
	if first == 0 || last == math.MaxUint64 {
		return fmt.Errorf("queue %d: file %d of delayed items has items %d to %d", rec.Queue, rec.Run.Number, first, last)
	}
	r.o.Salvage.Reach(&q.Traces, q.NextID, last)
	q.NextID = max(q.NextID, last+1)
	r.lastRun = max(r.lastRun, rec.Run.Number)
	if lost := r.o.Salvage.LostOf(rec.Run); lost != nil {
		q.rescue(lost)
	}
	state := rec.Hidden
	state.IDs = nil                       // they alias the frame
	if h := q.hidden[rec.Run]; h != nil { // of what it had before it has a part
		h.State, h.Live = state, live
		return nil
	}
	ids := idset.Between(first, last)
	for h := range q.spans.Of(&ids) {
		h.Live.RemoveAll(&live)
	}
	forgetAll(q.Kept, &live)
	forgetAll(q.Changed, &live)
	h := &Hidden{rec.Run, state, live}
	if q.hidden == nil {
		q.hidden = make(map[segment.RunID]*Hidden)
	}
	q.Hidden, q.hidden[rec.Run] = append(q.Hidden, h), h
	q.spans.Add(ids, h)
	return nil
}

// rescue saves items that a hidden run has lost, and the journal has still. An item that was rewritten since an earlier
// run got it may be another one now. The window has it as it was put.
func (q *Queue) rescue(lost *idset.Bitmap) {
	save := func(it item.Item) {
		c, changed := q.Changed[it.ID]
		if !changed || !lost.Has(it.ID) {
			return
		}
		if q.Rescued == nil {
			q.Rescued = make(map[uint64]repair.Rescued)
		}
		q.Rescued[it.ID] = repair.Rescued{Item: it.Clone(), Change: c}
	}
	for _, it := range q.Kept {
		save(it.Item)
	}
	q.Window.Each(func(it item.Item) bool {
		_, twice := q.Kept[it.ID]
		if _, known := q.Rescued[it.ID]; !twice && !known {
			save(it)
		}
		return true
	})
}

// forgetAll takes ids out of what is known of items.
func forgetAll[T any](known map[uint64]T, ids *idset.Bitmap) {
	if uint64(len(known)) > ids.Len() {
		ids.Each(func(id uint64) bool {
			delete(known, id)
			return true
		})
		return
	}
	for id := range known {
		if ids.Has(id) {
			delete(known, id)
		}
	}
}

// leaveHidden notes that an item has its place in the journal.
func (q *Queue) leaveHidden(id uint64) {
	at := idset.One(id)
	for h := range q.spans.Of(&at) {
		if h.Live.Remove(id) {
			return
		}
	}
}

// isHidden reports whether an item lives in a hidden run.
func (q *Queue) isHidden(id uint64) bool {
	at := idset.One(id)
	for h := range q.spans.Of(&at) {
		if h.Live.Has(id) {
			return true
		}
	}
	return false
}

// compactHidden takes what is gone out of the hidden runs, and what lives there out of the window.
func (q *Queue) compactHidden(p *item.Pool, limit int64) {
	all := uint64(0)
	for _, h := range q.Hidden {
		h.prune(&q.Gone)
		all += h.Live.Len()
	}
	if all == 0 || q.Window.Count == 0 {
		return
	}
	var left item.Window
	q.Window.Each(func(it item.Item) bool {
		if !q.isHidden(it.ID) {
			left.Push(p, &it, limit)
		}
		return true
	})
	q.Window.Clear(p)
	q.Window = left
}
