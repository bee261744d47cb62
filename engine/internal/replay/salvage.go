package replay

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
)

// Salvaged returns what a repair needs to know of each queue, in the order of their numbers. It uses r up.
func (r *Replay) Salvaged() (queues []*repair.Queue) {
	for _, q := range r.Queues() {
		q.Compact(r.o.Pool, WindowMemory)
		found := &repair.Queue{
			Number: q.Number, Name: q.Name, Named: q.Named, Created: q.Created, NextID: q.NextID,
			Gone: q.Gone.Ranges(), Marked: q.Marked, Kept: make(map[uint64]item.Item, len(q.Kept)), Window: &q.Window,
			Changed: q.Changed, Rescued: q.Rescued, Traces: q.Traces,
		}
		for id, it := range q.Kept {
			found.Kept[id] = it.Item
			q.Window.Cut(r.o.Pool, id) // it was rewritten, and may be another one now
		}
		for _, run := range q.Runs {
			found.Runs = append(found.Runs, run.ID)
		}
		for _, h := range q.Hidden {
			found.Hidden = append(found.Hidden, repair.HiddenRun{ID: h.Run, State: h.State, Live: h.Live})
		}
		queues = append(queues, found)
	}
	return queues
}
