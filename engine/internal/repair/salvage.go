package repair

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// Salvage reads a data directory that may be damaged. It uses what is whole of the journal, and notes what must have
// been in the gaps. The replay that reads the journal reports to it. One goroutine at a time uses it; a nil Salvage,
// which a start has, notes nothing.
//
// Ids show it. They rise by one for each put. So where those of a queue jump from one side of a gap to the other, what
// lies between was put. It is lost unless it was gone. What was put in a gap that no later record follows leaves no
// trace, nor do older items that were rewritten there. Removes in a gap are forgotten: what they removed is there again.
type Salvage struct {
	d       *Damage
	damaged bool // the journal is
	gaps    int  // in the journal, so far, that may have held records
	// whole says that the journal was never cut at its front: an id that is not there is lost.
	whole  bool
	runs   map[segment.RunID]*run
	hidden map[segment.RunID]*hiddenRun
	marks  map[uint64]bool // numbers of files with what is gone
}

// Queue is a queue as the replay has it of what is whole of the journal. Repair owns what is in it.
type Queue struct {
	Number  uint64 // names it in the journal
	Name    string
	Named   bool // the name is known
	Created item.Time
	NextID  uint64
	Gone    idset.Set                // ids of items that were removed
	Marked  record.Marks             // the file with others
	Runs    []segment.RunID          // of its backlog
	Kept    map[uint64]item.Item     // items that were open, or rewritten, by id
	Changed map[uint64]record.Change // how items of Kept and Window stand that are not in line, and others that are lost
	Rescued map[uint64]Rescued       // items that were in the journal when hidden runs got them that have lost them
	Hidden  []HiddenRun              // runs of its delayed items
	Window  *item.Window             // all other items that the journal has and no run; without those of Gone
	Traces
}

// salvagedQueue is a queue as it can be had.
type salvagedQueue struct {
	*Queue
	damaged      []*hiddenRun // of Hidden, whose items were moved to Kept
	live         []liveRun    // ascending
	lostRuns     []string     // paths of runs of which nothing can be had
	items, bytes int64
	marks        string // path of the file of Marked, "" without one
}

// scan reads the journal.
func (v *Salvage) scan(visit segment.Visitor, gap func(segment.Gap)) error {
	fs, dir := v.d.place.FS, v.d.journals.Current()
	defer v.d.passed()
	if visit = v.d.counted(visit); v.damaged {
		return segment.Salvage(fs, dir, visit, gap)
	}
	_, _, err := segment.Scan(fs, dir, visit)
	return err
}

func (v *Salvage) gap(g segment.Gap) {
	v.d.Gaps = append(v.d.Gaps, g)
	if g.Batches {
		v.gaps++
	}
}

// surveyFrame notes the runs that a frame of the journal names.
func (v *Salvage) surveyFrame(f segment.Frame) error {
	v.whole = v.whole || f.Segment == 1
	for b, off := f.Payload, 0; off < len(b); {
		rec, size, err := record.Parse(b[off:])
		if err != nil {
			return nil // replay reports it
		}
		off += size
		if rec.Kind == record.KindMarks {
			v.surveyMarks(&rec)
		}
		if rec.Kind == record.KindHidden {
			v.surveyHidden(&rec)
		}
		if rec.Kind != record.KindSpill {
			continue
		}
		v.d.lastRun = max(v.d.lastRun, rec.Run.Number)
		if r := v.runs[rec.Run]; r == nil || r.recorded.End <= rec.Spill.End {
			v.runs[rec.Run] = &run{
				path: runs.Path(v.d.place.Runs, rec.Run.Number), id: rec.Run, recorded: rec.Spill, queue: rec.Queue,
			}
		}
	}
	return nil
}

// checkRuns reads every run that the journal names.
func (v *Salvage) checkRuns() error {
	for _, r := range v.runs {
		var err error
		r.gaps, err = v.d.eachFrame(r, func(f segment.RunFrame, tag runs.Tag, body []byte) error {
			r.frames = append(r.frames, checkedFrame{f.Offset, tag})
			r.hold(tag, body)
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

// finish makes of what the replay has the queues that can be had.
func (v *Salvage) finish(found []*Queue) error {
	byName, names := make(map[string]*salvagedQueue), make(map[string]bool)
	for _, q := range found {
		names[q.Name] = true
	}
	for _, f := range found { // as they were made
		q := &salvagedQueue{Queue: f}
		if err := v.marksOf(q); err != nil {
			return err
		}
		if err := v.hiddenOf(q); err != nil {
			return err
		}
		if err := v.runsOf(q); err != nil {
			return err
		}
		q.items += q.Window.Count + int64(len(q.Kept))
		q.bytes += q.Window.Bytes
		for _, it := range q.Kept {
			q.bytes += int64(len(it.Data))
		}
		if !q.Named {
			if q.items == 0 && len(q.missing)+len(q.live)+len(q.damaged) == 0 {
				continue // deleted, and all that is left are removes
			}
			q.Created, q.Named = item.Now(), true
			q.Name = freeName(names, q.Number)
			v.d.Renamed = append(v.d.Renamed, q.Name)
		}
		if older := byName[q.Name]; older != nil { // it was deleted before this one was made
			v.d.Dropped = append(v.d.Dropped, q.Name)
			v.d.dropped = append(v.d.dropped, older)
			v.d.queues = slices.DeleteFunc(v.d.queues, func(o *salvagedQueue) bool { return o == older })
			v.d.Losses = slices.DeleteFunc(v.d.Losses, func(l Loss) bool { return l.Queue == q.Name })
		}
		byName[q.Name] = q
		v.d.queues = append(v.d.queues, q)
		v.count(q)
	}
	return v.findStray()
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

// runsOf finds what lives in the queue's runs. What an older run holds of a newer one's range no longer belongs to that
// queue; see collect. Nor does a run that was recorded again under a higher queue number. The queue has left the
// journal and entered it again then, and the record that says so is lost.
func (v *Salvage) runsOf(q *salvagedQueue) error {
	gone := q.elsewhere()
	slices.SortFunc(q.Runs, func(a, b segment.RunID) int { return cmp.Compare(b.Number, a.Number) })
	for _, id := range q.Runs {
		r := v.runs[id]
		if r.queue != q.Number {
			continue
		}
		live := liveRun{run: r, gone: within(&gone, r.recorded.IDs())}
		items, bytes, err := v.survey(q, &live)
		if err != nil {
			return err
		}
		gone.AddRange(r.recorded.IDs())
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
func (v *Salvage) survey(q *salvagedQueue, r *liveRun) (items, bytes int64, err error) {
	r.first = math.MaxUint64
	for id, it := range q.saved {
		if r.lives(id) && r.lost.Has(id) {
			items, bytes, r.first = items+1, bytes+int64(len(it.Data)), min(r.first, id)
		}
	}
	if r.gone.IsEmpty() {
		for _, f := range r.frames {
			items, bytes, r.first = items+f.Count, bytes+f.Bytes, min(r.first, f.FirstID)
		}
		return items, bytes, nil
	}
	_, err = v.d.eachFrame(r.run, func(_ segment.RunFrame, tag runs.Tag, body []byte) error {
		if r.gone.Count(tag.IDs()) == tag.LastID-tag.FirstID+1 {
			return nil
		}
		item.EachImage(body, tag.FirstID, func(it item.Item) bool {
			if r.lives(it.ID) {
				items, bytes, r.first = items+1, bytes+int64(len(it.Data)), min(r.first, it.ID)
			}
			return true
		})
		return nil
	})
	return items, bytes, err
}
