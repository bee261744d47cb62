package replay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
	"github.com/kestrelmq/kestrel/segment"
)

// WindowMemory is the memory, in bytes of items, that the chunks of a queue are sized for before its options are
// known.
const WindowMemory = 128 << 20

// Queue is a queue as the journal leaves it.
type Queue struct {
	Number  uint64 // names it in the journal
	Name    string
	Named   bool // a record says its name
	Keys    bool // an item with a key was put
	Created item.Time
	NextID  uint64

	Window   item.Window       // items that have their place in the journal, but for those of Kept; some may be gone
	Segments trim.ItemSegments // in which segments they lie
	Gone     idset.Bitmap      // ids of items that were removed: some may be in runs
	Marked   record.Marks      // the file with others that are gone, of those in runs
	Runs     []Run             // in the order in which the journal names them first
	Kept     map[uint64]Kept
	// Changed is what the journal says last of items whose images it has, and that are in no run.
	Changed   map[uint64]record.Change
	Hidden    []*Hidden                 // runs of delayed items, in the order in which the journal names them first
	Rescued   map[uint64]repair.Rescued // of a damaged directory: items that hidden runs have lost
	SpilledTo uint64                    // the journal has items up to this id in runs, or in Kept
	Oldest    uint64                    // segment of the first record that names the queue
	Traces    repair.Traces             // of gaps in a damaged journal

	places map[segment.RunID]int     // of Runs
	hidden map[segment.RunID]*Hidden // of Hidden
	spans  idset.Spans[*Hidden]      // by what lives in them, or did
}

// Run is a run as the journal last speaks of it.
type Run struct {
	ID    segment.RunID
	State runs.State
}

// Kept is an item that has its place in the journal although items put before and after it may be in runs. It was open
// when the process ended, or was rewritten.
type Kept struct {
	item.Item // Data is the item's own
	Segment   uint64
}

// Items is how many items the queue has, in the journal and in runs.
func (q *Queue) Items() (n int64) {
	n = q.Window.Count + int64(len(q.Kept))
	for _, run := range q.Runs {
		n += int64(run.State.LastID - run.State.FirstID + 1 - q.Gone.Count(run.State.IDs()))
	}
	for _, h := range q.Hidden {
		h.prune(&q.Gone)
		n += int64(h.Live.Len())
	}
	return n
}

// Files yields which runs the journal names, hidden ones and that of the marks included.
func (q *Queue) Files(yield func(segment.RunID) bool) {
	for _, run := range q.Runs {
		if !yield(run.ID) {
			return
		}
	}
	for _, h := range q.Hidden {
		if !yield(h.Run) {
			return
		}
	}
	if q.Marked.Run.Number != 0 {
		yield(q.Marked.Run)
	}
}

// noteSegment notes that items from id on lie in a segment or later.
func (q *Queue) noteSegment(seg, id uint64) {
	if !q.Segments.IsNews(seg) {
		return
	}
	first := q.NextID
	if q.Window.Count > 0 {
		first = q.Window.FirstID
	}
	if first = max(first, q.SpilledTo+1); first < q.NextID {
		q.Segments.Forget(first)
	} else {
		q.Segments.Clear()
	}
	q.Segments.Add(seg, id)
}

// remove takes the items of ids out of the window. Those at its head go at once, and those behind items that stay go
// at the end of the replay. What is gone is remembered: it may turn out to be in a run.
func (q *Queue) remove(p *item.Pool, ids idset.Range) {
	q.Gone.AddRange(ids)
	if len(q.Kept) > 0 {
		drop(q.Kept, ids)
	}
	if len(q.Changed) > 0 {
		drop(q.Changed, ids)
	}
	for q.Window.Count > 0 && q.Gone.Has(q.Window.FirstID) {
		var first item.Item
		q.Window.First(&first)
		q.Window.Pop(p, &first)
	}
}

// keep notes an item that was rewritten.
func (q *Queue) keep(it item.Item, seg uint64) {
	if q.Kept == nil {
		q.Kept = make(map[uint64]Kept)
	}
	q.Keys = q.Keys || it.HasKey()
	q.Kept[it.ID] = Kept{it.Clone(), seg}
}

// drop takes ids out of what is known of items.
func drop[T any](known map[uint64]T, ids idset.Range) {
	if ids.Last-ids.First < uint64(len(known)) {
		for id := ids.First; id <= ids.Last; id++ {
			delete(known, id)
		}
		return
	}
	maps.DeleteFunc(known, func(id uint64, _ T) bool {
		return ids.First <= id && id <= ids.Last
	})
}

// spilled takes in what the journal says of a run: the items in it need no memory. rescue, which may be nil,
// gets them before they go: they may be lost in the run.
func (q *Queue) spilled(p *item.Pool, id segment.RunID, s runs.State, rescue func(item.Item)) {
	if i, known := q.places[id]; known {
		q.Runs[i].State = s
	} else {
		if q.places == nil {
			q.places = make(map[segment.RunID]int)
		}
		q.places[id] = len(q.Runs)
		q.Runs = append(q.Runs, Run{id, s})
	}
	q.SpilledTo = max(q.SpilledTo, s.LastID)
	q.NextID = max(q.NextID, s.LastID+1)
	for q.Window.Count > 0 && q.Window.FirstID <= s.LastID {
		var it item.Item
		q.Window.First(&it)
		if _, again := q.Kept[it.ID]; again { // it was rewritten, and may be another one now
			q.Window.Pop(p, &it)
			continue
		}
		_, changed := q.Changed[it.ID]
		if (changed || !s.Contains(it.ID)) && !q.Gone.Has(it.ID) && !q.isHidden(it.ID) {
			q.keep(it, q.Segments.Of(it.ID)) // it was open, or aside, when its neighbours were spilled
		} else if rescue != nil {
			rescue(it)
		}
		q.Window.Pop(p, &it)
	}
}

// Compact rebuilds the window without the items that are gone or live in hidden runs, if there are any. Items that
// were removed in order have already left it. The memory of the queue is limit.
func (q *Queue) Compact(p *item.Pool, limit int64) {
	q.compactGone(p, limit)
	q.compactHidden(p, limit)
}

func (q *Queue) compactGone(p *item.Pool, limit int64) {
	if q.Gone.IsEmpty() || q.Window.Count > 0 && q.Gone.Count(idset.Between(q.Window.FirstID, q.NextID-1)) == 0 {
		return
	}
	var kept item.Window
	gone := slices.Collect(q.Gone.Within(idset.Between(q.Window.FirstID, q.NextID-1)))
	q.Window.Each(func(it item.Item) bool {
		for len(gone) > 0 && gone[0].Last < it.ID {
			gone = gone[1:]
		}
		if len(gone) == 0 || it.ID < gone[0].First {
			kept.Push(p, &it, limit)
		}
		return true
	})
	q.Window.Clear(p)
	q.Window = kept
}

// TakeChanged takes the items of Changed out of Window and Kept, and calls f for each with the segment that it lies
// in. It returns an error if one of them is not there.
func (q *Queue) TakeChanged(p *item.Pool, limit int64, f func(it item.Item, seg uint64, c record.Change)) error {
	left := len(q.Changed)
	for id, c := range q.Changed {
		if it, ok := q.Kept[id]; ok {
			f(it.Item, it.Segment, c)
			left--
		}
	}
	var others item.Window
	q.Window.Each(func(it item.Item) bool {
		if c, ok := q.Changed[it.ID]; !ok {
			others.Push(p, &it, limit)
		} else if _, twice := q.Kept[it.ID]; !twice {
			f(it, q.Segments.Of(it.ID), c)
			left--
		}
		return true
	})
	if left > 0 {
		others.Clear(p)
		return fmt.Errorf("queue %q: the journal changes %d items that it does not have", q.Name, left)
	}
	q.Window.Clear(p)
	q.Window = others
	for id := range q.Changed {
		delete(q.Kept, id)
	}
	return nil
}

// MergeKept rebuilds a window with the kept items of ids among its own, and the segments of its items. The memory of the queue
// is limit.
func (q *Queue) MergeKept(p *item.Pool, w *item.Window, ids []uint64, limit int64) {
	var all item.Window
	var segments trim.ItemSegments
	put := func(it item.Item, seg uint64) {
		segments.Note(seg, it.ID)
		all.Push(p, &it, limit)
	}
	keptBefore := func(id uint64) {
		for len(ids) > 0 && ids[0] <= id {
			put(q.Kept[ids[0]].Item, q.Kept[ids[0]].Segment)
			ids = ids[1:]
		}
	}
	w.Each(func(it item.Item) bool {
		if _, twice := q.Kept[it.ID]; !twice {
			keptBefore(it.ID)
			put(it, q.Segments.Of(it.ID))
		} else {
			keptBefore(it.ID)
		}
		return true
	})
	keptBefore(^uint64(0))
	w.Clear(p)
	*w = all
	q.Segments = segments.Rising()
}
