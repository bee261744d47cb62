package marks

import (
	"encoding/binary"
	"math"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// Staying is what a flush of a queue leaves: items that are open, leased, or on their way to another queue. A flush looks
// for them in pieces. From its first piece on it hears of each item that comes to be one of them, or comes back. If they
// are many, it says in pieces as well what its record names.
type Staying struct {
	IDs    idset.Bitmap // of them, and of some that are gone by now
	Queued idset.Bitmap // what came back or is aside, and is queued, and some that are gone; not what is on disk

	said  []byte       // ids of a record, behind room for what stands in front; nil: none
	count uint64       // of these ids
	next  uint64       // ids below that are said, as they were then
	late  idset.Bitmap // of these, ids that were noted since
}

// frontRoom is what stands in front of the ids at most.
const frontRoom = segment.FrameHeaderSize + 1 + 3*binary.MaxVarintLen64

// Note notes of an item that is not in line whether it stays.
func (s *Staying) Note(id uint64, stays bool) {
	if stays {
		s.Queued.Remove(id)
		s.IDs.Add(id)
	} else {
		s.IDs.Remove(id)
		s.Queued.Add(id)
	}
	if id < s.next {
		s.late.Add(id)
	}
}

const (
	// mostNamed is how many ranges of what goes a record names: some 100 µs of work.
	mostNamed = 8 << 10
	// quickGone is how many bytes may have the sets in which a flush looks for these.
	quickGone = 256 << 10
	// MostHidden is how many sets of what is hidden it looks in.
	MostHidden = 1024
)

// Gone returns what goes: Queued, what is hidden on disk, and what of the line does not stay. It reports whether a record
// is to name that and not IDs, since there are fewer ranges of it. So the journal grows by no more than was put. For
// what is very much it has no time.
func (s *Staying) Gone(line idset.Range, hidden []*idset.Bitmap) (gone idset.Bitmap, named bool) {
	if s.IDs.IsEmpty() || len(hidden) > MostHidden {
		return gone, false
	}
	size := s.Queued.Memory()
	for _, ids := range hidden {
		size += ids.Memory()
	}
	if size > quickGone || s.IDs.Count(line) > mostNamed {
		return gone, false
	}
	for _, ids := range append(hidden, &s.Queued) {
		gone.AddAll(ids)
	}
	for _, ids := range s.IDs.Missing(line) {
		gone.AddRange(ids)
	}
	n := gone.RangeCount()
	return gone, n < int64(s.IDs.Len()) && n <= mostNamed
}

// IsSaying reports whether Say has begun.
func (s *Staying) IsSaying() bool { return s.said != nil }

// Say says n more of IDs, and reports whether there are more.
func (s *Staying) Say(n int) (more bool) {
	if last, _ := s.IDs.Last(); s.said == nil {
		s.said = make([]byte, frontRoom, frontRoom+s.IDs.Len()*uint64(record.NumberSize(last)))
	}
	s.IDs.EachFrom(s.next, func(id uint64) bool {
		if more = n == 0; more {
			return false
		}
		s.say(id)
		s.next, n = id+1, n-1
		return true
	})
	if !more {
		s.next = math.MaxUint64
	}
	return more
}

func (s *Staying) say(id uint64) {
	s.said = binary.AppendUvarint(s.said, id)
	s.count++
}

// Frame returns the records of a flush of all that is below limit, but for IDs, behind room for the head of a frame. Say has
// said these, but for what was noted since. Frame may be called once.
func (s *Staying) Frame(queue, limit uint64) []byte {
	s.late.Each(func(id uint64) bool {
		if s.IDs.Has(id) { // some are there twice
			s.say(id)
		}
		return true
	})
	s.late.Each(func(id uint64) bool {
		if !s.IDs.Has(id) { // it may have been said
			s.said = record.AppendRemove(s.said, queue, id, 0)
		}
		return true
	})
	front := record.AppendFlushOf(nil, queue, limit, s.count, func(func(uint64) bool) {})
	start := frontRoom - len(front)
	copy(s.said[start:], front)
	return s.said[start-segment.FrameHeaderSize:]
}
