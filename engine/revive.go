package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// This file restores backlogs at the start, from the records of runs, of removals, and of rewritten items.
// If nothing of a run is gone, it reads only the header of the run. Otherwise it reads the headers of the
// frames, and the frames of which a part is gone.

// keptItem is an item that has its place in the journal although items put before and after it may
// be in runs: one that was open when the process ended, or was rewritten.
type keptItem struct {
	Item    // Data is the item's own
	segment uint64
}

// keep notes an item that was rewritten.
func (q *replayed) keep(it Item, seg uint64) {
	if q.kept == nil {
		q.kept = make(map[uint64]keptItem)
	}
	it.Data = slices.Clone(it.Data)
	q.kept[it.ID] = keptItem{it, seg}
}

// forget takes ids out of what is known of items.
func forget[T any](known map[uint64]T, ids idset.Range) {
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
func (q *replayed) spilled(p *item.Pool, id segment.RunID, s runs.State, rescue func(Item)) {
	q.runs = slices.DeleteFunc(q.runs, func(r *run) bool { return r.id == id })
	q.runs = append(q.runs, &run{id: id, written: s, recorded: s})
	q.spilledTo = max(q.spilledTo, s.LastID)
	q.nextID = max(q.nextID, s.LastID+1)
	for q.window.Count > 0 && q.window.FirstID <= s.LastID {
		it := q.window.First()
		_, changed := q.changed[it.ID]
		if (changed || !s.Holds(it.ID)) && !q.gone.Has(it.ID) {
			q.keep(it, q.markOf(it.ID)) // it was open, or aside, when its neighbours were spilled
		} else if rescue != nil {
			rescue(it)
		}
		q.window.Pop(p, it)
	}
}

// restore makes q's backlog of its runs and sorts its other items before and behind. It reads what
// it must, and returns a *segment.CorruptionError if a run is not what the journal says.
func (r *replay) restore(q *queue, from *replayed) error {
	gone := slices.Clone(from.gone)
	for _, id := range slices.Sorted(maps.Keys(from.kept)) {
		gone = gone.Add(idset.One(id))
	}
	for _, id := range slices.Sorted(maps.Keys(from.changed)) { // no run has them
		gone = gone.Add(idset.One(id))
	}
	b := &backlog{}
	absent, err := r.e.spool.collect(b, from.runs, gone)
	if err != nil {
		return err
	}
	first, last := uint64(1), uint64(0) // of what lives in runs
	if b.count > 0 {
		first, last = b.nextID, b.runs[len(b.runs)-1].written.LastID
		b.inReadBehind, b.since = true, time.Now()
		q.writtenTo, q.spilledTo = last, last
		b.recent, q.window = q.window, item.Window{}
	}
	if b.count > 0 || len(b.spent) > 0 {
		for _, ids := range absent {
			from.gone = from.gone.Add(ids)
		}
		b.gone = append(gone.Within(idset.Between(first, last)), from.gone.Within(idset.Between(last+1, q.nextID-1))...)
		q.backlog = b
		r.e.spool.register(q)
	}
	return r.restoreKept(q, from)
}

// collect makes b of those runs in which an item lives. The others are spent if their file still exists, so
// that forgo writes their removals before the file goes. absent is the part of their ranges that they do
// not hold. What an older run holds of a newer one's range has been spilled again, after it had been
// kept. The file of a run that was repaired has a new number, and
// holds what lived, so no newer one's range is touched.
func (s *spool) collect(b *backlog, all []*run, gone idset.Set) (absent idset.Set, err error) {
	slices.SortFunc(all, func(a, b *run) int { return cmp.Compare(b.id.Number, a.id.Number) })
	gone = slices.Clone(gone)
	firsts := make(map[*run]uint64)
	for _, r := range all {
		r.path = runs.Path(s.dir, r.id.Number)
		n, bytes, first, err := s.survey(r, gone)
		if err != nil {
			return nil, err
		}
		ids := r.recorded.IDs()
		if n == 0 && s.found[r.id.Number] {
			b.spent = append(b.spent, r)
			absent = append(absent, ids.Minus(gone)...)
		}
		if gone = gone.Add(ids); n == 0 {
			continue
		}
		firsts[r] = first
		b.runs = append(b.runs, r)
		b.count, b.bytes, b.onDisk = b.count+n, b.bytes+bytes, b.onDisk+n
	}
	// By id, which is by number unless one was repaired.
	slices.SortFunc(b.runs, func(a, b *run) int { return cmp.Compare(firsts[a], firsts[b]) })
	if len(b.runs) > 0 {
		first := firsts[b.runs[0]]
		b.next, b.nextID = runs.At(b.runs[0], first), first
	}
	return absent, nil
}

// restoreKept puts the kept items where their ids say: before the backlog, as items that came back,
// or into the window. An item of the backlog before one of them was open too, and is read now.
func (r *replay) restoreKept(q *queue, from *replayed) error {
	ids := slices.Sorted(maps.Keys(from.kept))
	if len(ids) == 0 {
		return nil
	}
	if q.backlog == nil || q.backlog.count == 0 {
		r.mergeKept(&q.window, from, ids)
		return nil
	}
	last := q.backlog.runs[len(q.backlog.runs)-1].written.LastID
	n, _ := slices.BinarySearch(ids, last+1)
	early, late := ids[:n], ids[n:]
	if len(late) > 0 {
		r.mergeKept(&q.backlog.recent, from, late)
	}
	if len(early) == 0 {
		return nil
	}
	items := make([]keptItem, 0, len(early))
	for _, id := range early {
		items = append(items, from.kept[id])
	}
	read, err := r.e.spool.readUpTo(q, early[len(early)-1])
	if err != nil {
		return err
	}
	items = append(items, read...)
	slices.SortFunc(items, func(a, b keptItem) int { return cmp.Compare(a.ID, b.ID) })
	for _, it := range items {
		if q.aside != nil { // by their ids among the others that are not in line
			r.e.setAside(q, it.Item, it.segment, aside.Entry{State: aside.Restored})
			continue
		}
		read := q.shard.newRead(q, it.Item, it.segment)
		read.to(readReturned)
		q.returned.pushBack(read)
	}
	b := q.backlog
	b.nextID = max(b.nextID, early[len(early)-1]+1)
	if b.count == 0 {
		r.e.leaveReadBehind(q)
		r.e.retire(q)
	}
	return nil
}

// mergeKept rebuilds a window with the kept items of ids among its own.
func (r *replay) mergeKept(w *item.Window, from *replayed, ids []uint64) {
	var all item.Window
	var marks []segmentMark
	put := func(it Item, seg uint64) {
		if n := len(marks); n == 0 || marks[n-1].segment != seg {
			marks = append(marks, segmentMark{seg, it.ID})
		}
		all.Push(&r.pool, it, from.memory)
	}
	keptBefore := func(id uint64) {
		for len(ids) > 0 && ids[0] <= id {
			put(from.kept[ids[0]].Item, from.kept[ids[0]].segment)
			ids = ids[1:]
		}
	}
	w.Each(func(it Item) bool {
		if _, twice := from.kept[it.ID]; !twice {
			keptBefore(it.ID)
			put(it, from.markOf(it.ID))
		} else {
			keptBefore(it.ID)
		}
		return true
	})
	keptBefore(^uint64(0))
	w.Clear(&r.pool)
	*w = all
	from.segments = lowestBehind(marks)
}

// lowestBehind makes marks what queue.segments must be: each segment is the lowest of those from
// there on, so that they rise.
func lowestBehind(marks []segmentMark) []segmentMark {
	var rising []segmentMark
	for _, m := range slices.Backward(marks) {
		if n := len(rising); n > 0 && rising[n-1].segment <= m.segment {
			rising[n-1].id = m.id
			continue
		}
		rising = append(rising, m)
	}
	slices.Reverse(rising)
	return rising
}

// survey counts what of a run lives: everything but what is gone. It returns the first id that may.
// A run of which nothing lives need not exist.
func (s *spool) survey(r *run, gone idset.Set) (count, bytes int64, first uint64, err error) {
	state := r.recorded
	first = state.FirstID
	if cut := gone.Count(state.IDs()); cut == 0 {
		reader, err := s.reader(r)
		if err == nil {
			err = reader.Covers(state.End)
		}
		return state.Count, state.Bytes, first, damagedIfMissing(r, err)
	} else if cut == state.LastID-state.FirstID+1 {
		return 0, 0, 0, nil
	}
	first = 0
	err = s.eachFrame(r, func(f segment.RunFrame, tag runs.Tag) error {
		cut := gone.Count(tag.IDs())
		if cut == tag.LastID-tag.FirstID+1 {
			return nil
		}
		if first == 0 {
			first = tag.FirstID
		}
		if cut == 0 {
			count, bytes = count+tag.Count, bytes+tag.Bytes
			return nil
		}
		body, _, err := s.body(r, f, tag, nil)
		if err != nil {
			return err
		}
		item.EachImage(body, tag.FirstID, func(it Item) bool {
			if !gone.Has(it.ID) {
				count++
				bytes += int64(len(it.Data))
			}
			return true
		})
		return nil
	})
	return count, bytes, first, damagedIfMissing(r, err)
}

// damagedIfMissing makes a missing file damage.
func damagedIfMissing(r *run, err error) error {
	if err != nil && isDamage(err) {
		return &segment.CorruptionError{Path: r.path, Reason: err.Error()}
	}
	return err
}

// eachFrame calls f for every frame of a run that is recorded.
func (s *spool) eachFrame(r *run, f func(segment.RunFrame, runs.Tag) error) error {
	reader, err := s.reader(r)
	if err == nil {
		err = reader.Covers(r.recorded.End)
	}
	for off := int64(segment.RunStart); err == nil && off < r.recorded.End; {
		var frame segment.RunFrame
		if frame, err = reader.Frame(off, r.recorded.End); err == nil {
			err = f(frame, runs.ParseTag(frame.Tag))
			off = frame.Next
		}
	}
	return err
}

// readUpTo takes the items with ids up to last out of q's backlog.
func (s *spool) readUpTo(q *queue, last uint64) (items []keptItem, err error) {
	b := q.backlog
	for b.onDisk > 0 && b.next.ID <= last {
		at := b.next
		f, tag, err := s.seekOn(&at, b.runs)
		if err != nil {
			return nil, err
		}
		b.next = at
		if tag.FirstID > last {
			return items, nil
		}
		body, _, err := s.body(at.Run, f, tag, nil)
		if err != nil {
			return nil, err
		}
		item.EachImage(body, tag.FirstID, func(it Item) bool {
			if it.ID > last {
				return false
			}
			b.next.ID = it.ID + 1
			if it.ID >= at.ID && !b.gone.Has(it.ID) {
				items = append(items, keptItem{Item: it})
				b.took(1, int64(len(it.Data)), it.ID)
			}
			return true
		})
		b.next.ID = max(b.next.ID, min(tag.LastID, last)+1)
	}
	return items, nil
}

// eachOnDisk calls f for the items of a backlog that are on disk alone, oldest first, until f
// returns false. Data is valid during the call.
func (s *spool) eachOnDisk(b *backlog, f func(Item) bool) error {
	at, left, more := b.next, b.onDisk, true
	for left > 0 && more {
		frame, tag, err := s.seekOn(&at, b.runs)
		if err != nil {
			return err
		}
		body, _, err := s.body(at.Run, frame, tag, nil)
		if err != nil {
			return err
		}
		item.EachImage(body, tag.FirstID, func(it Item) bool {
			if it.ID >= at.ID && !b.gone.Has(it.ID) {
				left--
				more = f(it)
			}
			return more
		})
		at.Pass(tag, frame.Next)
	}
	return nil
}

// lastAdded returns when the last item of a backlog's runs was added.
func (s *spool) lastAdded(b *backlog) (added Time, err error) {
	if len(b.runs) == 0 {
		return 0, nil
	}
	var last segment.RunFrame
	r := b.runs[len(b.runs)-1]
	err = s.eachFrame(r, func(f segment.RunFrame, _ runs.Tag) error {
		last = f
		return nil
	})
	if err != nil {
		return 0, err
	}
	tag := runs.ParseTag(last.Tag)
	body, _, err := s.body(r, last, tag, nil)
	if err == nil {
		item.EachImage(body, tag.FirstID, func(it Item) bool {
			added = it.Added
			return true
		})
	}
	return added, err
}

// find lists the runs on disk, whose numbers no new one may have.
func (s *spool) find() error {
	names, err := s.fs.List(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.found = make(map[uint64]bool)
	for _, name := range names {
		if number, ok := runs.ParseName(name); ok {
			s.found[number] = true
			s.isTaken(number)
		}
	}
	return nil
}

// clean removes the files that no queue's backlog has, and logs how many there were: what a process
// before had not recorded, or had no time to remove.
func (s *spool) clean() error {
	if err := s.makeDir(); err != nil {
		return err
	}
	claimed := make(map[uint64]bool)
	for q := range s.queues {
		for _, r := range slices.Concat(q.backlog.runs, q.backlog.spent) {
			claimed[r.id.Number] = true
		}
	}
	var (
		n, bytes int64
		first    string
	)
	for _, number := range slices.Sorted(maps.Keys(s.found)) {
		if claimed[number] || s.e.withheld.runs[number] {
			continue
		}
		name := runs.Path(s.dir, number)
		if n++; n == 1 {
			first = name
		}
		bytes += s.size(name)
		if err := s.fs.Remove(name); err != nil {
			return fmt.Errorf("remove run that is not needed: %w", err)
		}
	}
	s.found = nil
	if n > 0 {
		s.e.log.Info("removed backlog files that no queue claims", "files", n, "bytes", bytes, "first", first,
			"why", "the journal does not name them: they were not recorded before the process ended,"+
				" or nothing of them was left, or their queue was deleted or keeps no journal")
	}
	return nil
}

// size is how many bytes a file has, or zero if it cannot be had: a figure for the log.
func (s *spool) size(name string) int64 {
	f, err := s.fs.OpenReadOnly(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, _ := f.Size()
	return n
}
