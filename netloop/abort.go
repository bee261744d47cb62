package netloop

import (
	"cmp"
	"slices"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// abortPiece is how many reads a loop brings back itself, for one request or the end of one session. A job
// brings more back.
const abortPiece = confirmPiece

// maxDropped is how many reads of how many queues a loop brings back at most when a session ends.
const maxDropped = 4 * abortPiece

// dropReads brings the open reads of a session that has ended back to their queues. A job does what would
// take long. Whoever fetches from a queue waits until all of its reads are back.
func (l *loop) dropReads(s *session) {
	var later [][]engine.ReadRef
	dropped := 0
	s.reads.takeAll(func(refs []engine.ReadRef) {
		if dropped < maxDropped {
			dropped += min(len(refs), abortPiece)
			l.counters.ReadsDropped += l.bringBack(refs)
			return
		}
		later = append(later, refs) // of more queues than there is time for
	})
	if later != nil {
		l.background(func() {
			for _, refs := range later {
				l.server.droppedLater.Add(int64(l.engine.AbortAll(engine.Now(), refs)))
			}
		})
	}
}

// bringBack brings open reads of one queue back to it, and leaves many to a job. It returns how many it has
// ended itself.
func (l *loop) bringBack(refs []engine.ReadRef) int64 {
	ended, others := l.engine.AbortFirst(l.now, refs)
	if others != nil {
		l.background(func() { l.server.droppedLater.Add(int64(others())) })
	}
	return int64(ended)
}

// background runs f on a goroutine of its own, before the server ends.
func (l *loop) background(f func()) {
	l.server.jobs.Add(1)
	go func() {
		defer l.server.jobs.Done()
		f()
	}()
}

// takenRead is a read that the table of Thrift reads has given away, and its place among all.
type takenRead struct {
	call  uint64 // its order
	index int    // in the call
	ref   engine.ReadRef
}

func (r takenRead) compare(other takenRead) int {
	return cmp.Or(cmp.Compare(r.call, other.call), cmp.Compare(r.index, other.index))
}

// abortSize is about how many bytes a job needs for each id that it is to abort.
const abortSize = 64

// thriftAbortLater is thriftAbort of many ids. They are taken out of the table piece by piece, and brought
// back in the order in which they were opened.
func (s *session) thriftAbortLater(req *thrift.Request) {
	queue, ids, l := slices.Clone(req.Queue), req.IDs, s.loop
	size := int64(abortSize * ids.Len())
	if l.engine.MemoryLeft() < size {
		s.proto.refuse(s, engine.ErrOutOfMemory)
		return
	}
	l.engine.Account(size)
	if s.pinned = s.holdsInput(); !s.pinned {
		ids = ids.Clone()
	}
	found := 0
	s.startJob(func() error {
		defer l.engine.Account(-size)
		var taken []takenRead
		for from := 0; from < ids.Len(); from += abortPiece {
			taken = l.server.reliable.takeReads(queue, ids.Slice(from, min(from+abortPiece, ids.Len())), taken)
		}
		slices.SortFunc(taken, takenRead.compare)
		refs := make([]engine.ReadRef, len(taken))
		for i, r := range taken {
			refs[i] = r.ref
		}
		found = len(refs)
		l.engine.AbortAll(engine.Now(), refs)
		return nil
	}, func(s *session, _ error) {
		s.out = thrift.AppendCount(s.out, s.thrift.call, int32(found))
	})
}
