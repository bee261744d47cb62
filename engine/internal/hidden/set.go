package hidden

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/list"
)

// Set is the runs of one queue. The zero Set is empty and ready for use, once Memory is set. It is not safe for
// concurrent use.
//
// Invariants, checked by Verify:
//
//	H1  What is on disk alone lives in its run, and was not read back. No item lives in two runs.
//	H2  Everything on disk alone is in a frame that is still to be read.
//	H3  What was read back lives in its run, and is counted with its frame.
//	H4  Disk is the sum of what the runs have on disk alone.
type Set struct {
	// Memory counts the bytes that the set takes.
	Memory *atomic.Int64

	runs     []*Run
	fresh    []*Run            // of these, those that are being written
	spans    idset.Spans[*Run] // of the others, by what lives in them, or did
	read     map[uint64]place  // where items are that live in a run, and were read back
	mostRead int               // that there were at a time since read was made
	counted  int64             // bytes that Memory has for read
	disk     item.Tally
	size     int64          // bytes of the files
	due      list.Heap[Run] // those that have a First, by it
	used     bool           // some runs may be used up
	behind   bool           // fresh and spans still have runs that were dropped
}

// place is the frame of an item.
type place struct {
	run   *Run
	frame uint32
}

// readSize is how many bytes an item takes in read, about.
const readSize = 36

// Runs are the runs, in the order in which they were made. The caller does not change the list.
func (s *Set) Runs() []*Run { return s.runs }

// Size is how many bytes the files of the runs have.
func (s *Set) Size() int64 { return s.size }

// Used reports whether some runs may be used up.
func (s *Set) Used() bool { return s.used }

// DiskIDs are those of each run that are on disk alone, of so many runs at most. Nobody may change them.
func (s *Set) DiskIDs(most int) (all []*idset.Bitmap) {
	for _, r := range s.runs[:min(len(s.runs), most)] {
		all = append(all, &r.disk)
	}
	return all
}

// Disk is what is on disk alone, in all runs.
func (s *Set) Disk() item.Tally { return s.disk }

// Read is how many items live in runs and were read back.
func (s *Set) Read() int64 { return int64(len(s.read)) }

// Add adds a run. What lives in it lives in no other one.
func (s *Set) Add(r *Run) {
	s.runs = append(s.runs, r)
	if s.fresh = append(s.fresh, r); !r.writing {
		s.index(r)
	}
	s.disk.Add(r.Disk(), 1)
	s.used = s.used || r.IsUsed()
	s.placed(r)
}

// placed notes that r has other frames to be read, or other sizes.
func (s *Set) placed(r *Run) {
	s.schedule(r)
	s.size += r.End - r.sized
	r.sized = r.End
	s.Account(r)
}

// schedule has r be found by its First.
func (s *Set) schedule(r *Run) {
	if due, ok := r.First(); ok {
		s.due.Set(r, int64(due), &r.place)
	} else {
		s.due.Remove(&r.place)
	}
}

// index has r, which nothing joins any more, be found by the ids of what lives in it.
func (s *Set) index(r *Run) {
	s.fresh = slices.DeleteFunc(s.fresh, func(o *Run) bool { return o == r })
	if first, ok := r.live.First(); ok {
		last, _ := r.live.Last()
		s.spans.Add(idset.Between(first, last), r)
	}
}

// Drop takes out a run, in which nothing may live that matters.
func (s *Set) Drop(r *Run) { s.DropIf(func(o *Run) bool { return o == r }) }

// DropIf is Drop of the runs of which gone says so.
func (s *Set) DropIf(gone func(*Run) bool) { s.DropSome(0, len(s.runs), gone) }

// DropSome is DropIf of n runs, those from one place in their list on. It returns where to go on. What was there then is
// done when that is the end of the list. The first call of a walk is for place 0. If runs are dropped between two calls,
// the walk may miss others; Used says so.
func (s *Set) DropSome(at, n int, gone func(*Run) bool) (next int) {
	s.used = s.used && at > 0
	next = min(at, len(s.runs)) // others may have been dropped since
	end := min(next+n, len(s.runs))
	for _, r := range s.runs[next:end] {
		if gone(r) {
			s.forget(r)
			continue
		}
		s.used = s.used || r.IsUsed()
		s.runs[next] = r
		next++
	}
	dropped := next < end
	s.runs = slices.Delete(s.runs, next, end)
	s.behind = s.behind || dropped
	if next < len(s.runs) || !s.behind {
		return next
	}
	isDropped := func(r *Run) bool { return r.dropped }
	s.fresh = slices.DeleteFunc(s.fresh, isDropped)
	if len(s.runs) == 0 {
		s.spans = idset.Spans[*Run]{}
	}
	s.spans.DropIf(isDropped)
	s.behind = false
	s.forgetRead()
	return next
}

// forget takes what a run has out of the sums.
func (s *Set) forget(r *Run) {
	s.disk.Add(r.Disk(), -1)
	if r.read > 0 {
		r.live.RemoveAll(&r.disk)
		r.live.Each(func(id uint64) bool {
			delete(s.read, id)
			return true
		})
	}
	s.Memory.Add(-r.counted)
	s.size -= r.sized
	s.due.Remove(&r.place)
	r.counted, r.sized, r.dropped = 0, 0, true
}

// Find returns the run in which the item of an id lives; nil if it lives in none.
func (s *Set) Find(id uint64) *Run {
	if p, ok := s.read[id]; ok {
		return p.run
	}
	for _, r := range s.fresh {
		if r.live.Has(id) {
			return r
		}
	}
	at := idset.One(id)
	for r := range s.spans.Of(&at) {
		if r.live.Has(id) {
			return r
		}
	}
	return nil
}

// OnDisk returns the run in which the item of an id is on disk alone; nil if it is in none.
func (s *Set) OnDisk(id uint64) *Run {
	if r := s.Find(id); r != nil && r.disk.Has(id) {
		return r
	}
	return nil
}

// EachFrom calls f with ids of what is on disk alone, from one id on. Of each run they come in their order, until f
// returns false: then f needs no higher ones of any run.
func (s *Set) EachFrom(id uint64, f func(id uint64) bool) {
	within := idset.Between(id, math.MaxUint64)
	for r := range s.spans.Of(&within) {
		r.disk.EachFrom(id, func(id uint64) bool {
			more := f(id)
			if !more {
				within.Last = id
			}
			return more
		})
	}
}

// Join notes that an item that is in memory, and lives in no run, is in what is being written to r.
func (s *Set) Join(r *Run, id uint64, size int) {
	if r.live.Add(id) {
		r.liveBytes += int64(size)
	}
}

// Finish notes that r is written.
func (s *Set) Finish(r *Run, w Written) {
	r.Written, r.writing = w, false
	r.next = len(w.Frames)
	r.low = r.next
	s.index(r)
	r.count()
	s.used = s.used || r.IsUsed()
	s.placed(r)
}

// Unload notes that an item, which lives in r, leaves memory. It may have been read back since r was written.
func (s *Set) Unload(r *Run, id uint64, size int) {
	if !r.disk.Add(id) {
		return
	}
	s.offRead(r, id)
	r.diskBytes += int64(size)
	s.disk.Add(item.Tally{Count: 1, Bytes: int64(size)}, 1)
	r.low, r.next, r.later = 0, 0, 0
	s.schedule(r)
}

// Replace has what lives in the runs old live in r, which holds it all and has been written. It returns what was
// on disk alone, which still is.
func (s *Set) Replace(r *Run, old []*Run, w Written) {
	replaced := make(map[*Run]bool)
	for _, o := range old {
		r.live.AddAll(&o.live)
		r.disk.AddAll(&o.disk)
		r.liveBytes += o.liveBytes
		r.diskBytes += o.diskBytes
		replaced[o] = true
	}
	s.DropIf(func(o *Run) bool { return replaced[o] })
	s.disk.Add(r.Disk(), 1)
	r.Written, r.writing, r.low, r.next = w, false, 0, 0
	s.index(r)
	r.count()
	s.used = s.used || r.IsUsed()
	s.placed(r)
}

// Leave notes that an item that lives in a run does not live there any more. size is that of its body; below 0 it is
// not known, as for an item on disk alone. Leave returns the run, or nil if the item lived in none.
func (s *Set) Leave(id uint64, size int) *Run {
	r := s.Find(id)
	if r == nil {
		return nil
	}
	bytes := int64(size)
	if size < 0 {
		bytes = r.liveBytes / int64(r.live.Len())
	}
	r.live.Remove(id)
	if r.liveBytes = max(r.liveBytes-bytes, 0); r.live.Len() == 0 {
		r.liveBytes, s.used = 0, true
	}
	if !s.offDisk(r, id, bytes) {
		s.offRead(r, id)
	}
	return r
}

// offRead forgets of an item of r that it was read back, if it was.
func (s *Set) offRead(r *Run, id uint64) {
	if p, ok := s.read[id]; ok {
		r.left[p.frame]--
		r.read--
		delete(s.read, id)
		s.forgetRead()
	}
}

// forgetRead lets go of the memory of read when there is nothing in it, and accounts for it.
func (s *Set) forgetRead() {
	if len(s.read) == 0 && s.mostRead > 1024 {
		s.read, s.mostRead = nil, 0
	}
	s.accountRead()
}

// offDisk notes that an item of r is not on disk alone any more, if it was.
func (s *Set) offDisk(r *Run, id uint64, bytes int64) bool {
	if !r.disk.Remove(id) {
		return false
	}
	if r.disk.Len() == 0 || bytes > r.diskBytes {
		bytes = r.diskBytes
	}
	if r.disk.Len() == 0 {
		s.due.Remove(&r.place)
	}
	r.diskBytes -= bytes
	s.disk.Add(item.Tally{Count: 1, Bytes: bytes}, -1)
	return true
}

// ReadBack notes that an item in a frame of r is in memory now. It reports false if it must not be, because it
// is not on disk alone.
func (s *Set) ReadBack(r *Run, frame int, id uint64, size int) bool {
	if !s.offDisk(r, id, int64(size)) {
		return false
	}
	if r.left == nil {
		r.left = make([]uint32, len(r.Frames))
	}
	if s.read == nil {
		s.read = make(map[uint64]place)
	}
	s.read[id] = place{r, uint32(frame)}
	s.mostRead = max(s.mostRead, len(s.read))
	r.left[frame]++
	r.read++
	r.low = min(r.low, frame)
	return true
}

// Pass notes that every item of a frame of r, the next one to read, was read back, or is gone.
func (s *Set) Pass(r *Run, frame int) {
	r.next, r.later = frame+1, 0
	s.placed(r)
	s.accountRead()
}

// Postpone notes that a frame of r, the next one to read, has nothing left from before that instant. Each item
// that is due earlier was read back, or is gone. The frame is to be read again.
func (s *Set) Postpone(r *Run, frame int, due item.Time) {
	r.next, r.later = frame, due
	s.placed(r)
	s.accountRead()
}

// Soonest returns the run with the frame to read next, and when its first item is due, or an earlier instant. It
// returns nil if nothing is on disk alone.
func (s *Set) Soonest() (r *Run, due item.Time) {
	r, at := s.due.First()
	return r, item.Time(at)
}

// Fail notes that a run cannot be read: its items are left out.
func (s *Set) Fail(r *Run, err error) {
	r.Err = err
	s.schedule(r)
}

// Mend notes that a run may be read again.
func (s *Set) Mend(r *Run) { s.Fail(r, nil) }

// Retain takes everything out of the runs but items in memory whose ids are in a set. What stays is as if it had never
// left memory.
func (s *Set) Retain(ids *idset.Bitmap) {
	freed := int64(0)
	for _, r := range s.runs {
		before := int64(r.live.Len())
		if ids.IsEmpty() || r.live.Len() == r.disk.Len() { // as most runs: nothing of it is in memory
			r.live = idset.Bitmap{}
		} else {
			r.live.RemoveAll(&r.disk)
			gone := r.live.Clone()
			gone.RemoveAll(ids)
			r.live.RemoveAll(&gone)
		}
		r.liveBytes = r.liveBytes * int64(r.live.Len()) / max(before, 1)
		r.disk, r.diskBytes, r.read, r.left, r.place = idset.Bitmap{}, 0, 0, nil, 0
		freed += r.counted - r.memory()
		r.counted = r.memory()
	}
	s.Memory.Add(-freed)
	s.disk, s.read, s.mostRead, s.due, s.used = item.Tally{}, nil, 0, list.Heap[Run]{}, true
	s.accountRead()
}

// Account updates Memory to what a run takes now, unless it is dropped.
func (s *Set) Account(r *Run) {
	if now := r.memory(); now != r.counted && !r.dropped {
		s.Memory.Add(now - r.counted)
		r.counted = now
	}
}

func (s *Set) accountRead() {
	if now := readSize * int64(len(s.read)); now != s.counted {
		s.Memory.Add(now - s.counted)
		s.counted = now
	}
}

// Verify returns an error that names the first of the invariants H1 to H4 that does not hold.
func (s *Set) Verify() error {
	var disk item.Tally
	seen := make(map[uint64]bool)
	for _, r := range s.runs {
		if err := r.verify(s.read); err != nil {
			return err
		}
		disk.Add(r.Disk(), 1)
		var err error
		r.live.Each(func(id uint64) bool {
			if seen[id] {
				err = fmt.Errorf("H1: item %d lives in two runs", id)
			}
			seen[id] = true
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	if disk != s.disk {
		return fmt.Errorf("H4: on disk are %+v, counted are %+v", disk, s.disk)
	}
	size, known := int64(0), 0
	_, soonest := s.Soonest()
	for _, r := range s.runs {
		size += r.End
		due, ok := r.First()
		if ok {
			known++
		}
		if ok && due < soonest || r.IsUsed() && !s.used {
			return fmt.Errorf("H4: a run is due at %d, the soonest at %d; used up = %t", due, soonest, r.IsUsed())
		}
	}
	if size != s.size || known != s.due.Len() {
		return fmt.Errorf("H4: %d runs of %d bytes are due, known are %d of %d", known, size, s.due.Len(), s.size)
	}
	return nil
}

// VerifyPlaces is Verify, and checks that what is on disk alone is nowhere else (H5), and what else lives is somewhere.
// The places of all other items of the queue are in seen, to which it adds. No item has the id next, or a higher one.
func (s *Set) VerifyPlaces(seen map[uint64]string, next uint64) error {
	err := s.Verify()
	for _, r := range s.runs {
		if err != nil {
			return err
		}
		r.live.Each(func(id uint64) bool {
			switch where := seen[id]; {
			case r.OnDisk(id) && where != "":
				err = fmt.Errorf("H5: item %d is hidden and %s", id, where)
			case !r.OnDisk(id) && where == "":
				err = fmt.Errorf("H5: item %d lives in %s, and is nowhere", id, r.Path)
			case id >= next:
				err = fmt.Errorf("hidden item %d is not below the next id %d", id, next)
			}
			if r.OnDisk(id) {
				seen[id] = "hidden"
			}
			return err == nil
		})
	}
	return err
}
