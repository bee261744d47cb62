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

// dropReads brings the open reads of a session that has ended back to their queues.
func (l *loop) dropReads(s *session) {
	if s.reads.total() <= abortPiece {
		s.reads.takeAll(func(refs []engine.ReadRef) {
			l.counters.ReadsDropped += int64(l.engine.AbortAll(l.now, refs))
		})
		return
	}
	var lists [][]engine.ReadRef
	s.reads.takeAll(func(refs []engine.ReadRef) { lists = append(lists, refs) })
	l.abortLater(lists, func(ended int) { l.server.droppedLater.Add(int64(ended)) })
}

// abortLater brings reads back on a goroutine of its own, each list those of one queue in the order they
// were opened, and calls done there with how many of a list had not ended by themselves.
func (l *loop) abortLater(lists [][]engine.ReadRef, done func(ended int)) {
	l.server.jobs.Add(1)
	go func() {
		defer l.server.jobs.Done()
		for _, refs := range lists {
			done(l.engine.AbortAll(engine.Now(), refs))
		}
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
