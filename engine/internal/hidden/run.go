package hidden

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// Run is what memory keeps of a run.
type Run struct {
	runs.File
	Written
	Err error // why it cannot be read; nil if it can
	// live has the ids of the items that live in the run, and disk of those among them that are on disk alone.
	live, disk           idset.Bitmap
	liveBytes, diskBytes int64 // of their bodies, about
	read                 int64 // of those that live, how many were read back
	// Of the frames before next, every item was read back, or is gone; and left says how many live. In those
	// before low none does. left is nil if nothing was read back.
	low, next int
	later     item.Time // of what is on disk in frame next, nothing is due before; zero: its first item is
	left      []uint32
	total     int64 // items that were written
	counted   int64 // bytes that the Set's Memory has
	sized     int64 // bytes that its size has
	place     int   // in the Set's due
	writing   bool
	dropped   bool // it is in no Set any more
}

// NewRun is a run that is to be written: nothing lives in it yet.
func NewRun(file runs.File) *Run { return &Run{File: file, writing: true} }

// Restored is a run that was found, with so many bytes of items living in it, all on disk alone. No item of a
// frame before from lives.
func Restored(file runs.File, w Written, from int, live idset.Bitmap, bytes int64) *Run {
	r := &Run{
		File: file, Written: w, live: live, disk: live.Clone(), liveBytes: bytes, diskBytes: bytes,
		low: from, next: from,
	}
	r.count()
	return r
}

// measured notes of a run that was found how many bytes its live items have. No item of a frame before from lives.
func (r *Run) measured(from int, bytes int64) {
	r.low, r.next, r.liveBytes, r.diskBytes = from, from, bytes, bytes
}

func (r *Run) count() {
	for _, f := range r.Frames {
		r.total += f.Count
	}
}

// Contains reports whether the item of an id lives in the run.
func (r *Run) Contains(id uint64) bool { return r.live.Has(id) }

// OnDisk reports whether the item of an id is on disk alone.
func (r *Run) OnDisk(id uint64) bool { return r.disk.Has(id) }

// Live is what lives in the run.
func (r *Run) Live() item.Tally { return item.Tally{Count: int64(r.live.Len()), Bytes: r.liveBytes} }

// Disk is what of it is on disk alone.
func (r *Run) Disk() item.Tally { return item.Tally{Count: int64(r.disk.Len()), Bytes: r.diskBytes} }

// IDs are those of what lives in the run. Nobody may change them, and they change with the run.
func (r *Run) IDs() *idset.Bitmap { return &r.live }

// DiskIDs are those of IDs that are on disk alone.
func (r *Run) DiskIDs() *idset.Bitmap { return &r.disk }

// IsWriting reports whether the run is not written yet.
func (r *Run) IsWriting() bool { return r.writing }

// IsUsed reports whether the run is written, and nothing lives in it any more.
func (r *Run) IsUsed() bool { return !r.writing && r.live.IsEmpty() }

// IsDropped reports whether the run is in its Set no more.
func (r *Run) IsDropped() bool { return r.dropped }

// From is a frame before which nothing lives.
func (r *Run) From() int {
	if int64(r.live.Len()-r.disk.Len()) > r.read {
		return 0 // some have not left memory since the run was written
	}
	for r.low < r.next && (r.left == nil || r.left[r.low] == 0) {
		r.low++
	}
	return r.low
}

// First is when the first item on disk alone is due, or earlier; ok is false if there is none.
func (r *Run) First() (due item.Time, ok bool) {
	if r.disk.Len() == 0 || r.Err != nil {
		return 0, false
	}
	if r.later > 0 {
		return r.later, true
	}
	return r.Frames[r.next].First, true
}

// LastDue is when the items of the last frame begin to be due.
func (r *Run) LastDue() item.Time { return r.Frames[len(r.Frames)-1].First }

// Next is the number of the frame to read next.
func (r *Run) Next() int { return r.next }

// MostlyGone reports whether the file is worth writing again without what is gone. Then less than a quarter of it
// lives, or less than half of what is still to be read. It is not, once that was done, until more is gone: what is in
// memory lives in the file too.
func (r *Run) MostlyGone() bool {
	left, ahead := int64(0), int64(r.live.Len())
	if r.left == nil && ahead*2 >= r.total { // as most runs
		return false
	}
	for _, f := range r.Frames[r.next:] {
		left += f.Count
	}
	for i := 0; i < min(r.next, len(r.left)); i++ {
		ahead -= int64(r.left[i])
	}
	live, disk := int64(r.live.Len()), int64(r.disk.Len())
	return !r.writing && live > 0 && (live*4 < r.total || disk > 0 && ahead*2 < left)
}

// memory is how many bytes the run takes.
func (r *Run) memory() int64 {
	return r.live.Memory() + r.disk.Memory() + int64(cap(r.Frames))*int64(unsafe.Sizeof(Frame{})) +
		4*int64(cap(r.left)) + int64(unsafe.Sizeof(Run{}))
}

// verify checks H1 to H3 as far as they go for one run.
func (r *Run) verify(read map[uint64]place) error {
	var err error
	r.disk.Each(func(id uint64) bool {
		if _, isRead := read[id]; isRead || !r.live.Has(id) {
			err = fmt.Errorf("H1: item %d is on disk alone, lives = %t, was read back = %t", id, r.live.Has(id), isRead)
		}
		return err == nil
	})
	if err == nil && r.disk.Len() > 0 && r.next >= len(r.Frames) {
		err = fmt.Errorf("H2: %d items are on disk, but every frame was read", r.disk.Len())
	}
	left, sum := make([]uint32, len(r.left)), int64(0)
	for id, p := range read {
		if p.run == r && !r.live.Has(id) {
			err = fmt.Errorf("H3: item %d was read back and does not live", id)
		}
		if p.run == r {
			left[p.frame]++
			sum++
		}
	}
	if err == nil && (sum != r.read || !slices.Equal(left, r.left)) {
		err = fmt.Errorf("H3: of the frames live %v, counted are %v", left, r.left)
	}
	return err
}
