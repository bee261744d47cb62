package netloop

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// Calls of Thrift that end reads, or change how long they last.

// receiptSize is how many bytes a job needs for each id that it is to end the read of.
const receiptSize = 8

// receiptsOf returns the ids of a call as the engine knows them, in dst.
func receiptsOf(dst []uint64, ids thrift.IDs) []uint64 {
	for id := range ids.All() {
		dst = append(dst, uint64(id))
	}
	return dst
}

func thriftConfirm(s *session, req *thrift.Request) {
	l := s.loop
	if req.IDs.Len() <= confirmPiece {
		s.work += req.IDs.Len()
		l.receipts = receiptsOf(l.receipts[:0], req.IDs)
		t, n, err := l.engine.ConfirmLeases(l.now, req.Queue, l.receipts)
		l.latencies.count(CommandConfirm, nil, t, 1)
		s.endThriftEnd(t, n, err)
		return
	}
	queue, receipts, ok := s.takeReceipts(req)
	if !ok {
		return
	}
	client, n := s.standing(need{access.Get, onQueue}, queue), 0
	var err error
	s.confirmLater(func() (t engine.Ticket) {
		all := receipts()
		defer l.engine.Account(-receiptSize * int64(len(all)))
		t, n, err = client.confirmLeases(l.engine, all)
		return t
	}, func(s *session, _ error) {
		s.noteJobDenied(err)
		s.endThriftEnd(engine.Ticket{}, n, err)
	})
}

// confirmLeases is that of the engine for a job. It asks for the right to each piece: the client may name millions.
func (st *standing) confirmLeases(e *engine.Engine, receipts []uint64) (t engine.Ticket, ended int, err error) {
	for piece := range slices.Chunk(receipts, confirmPiece) {
		if err = st.denied(); err != nil {
			break
		}
		u, n, failed := e.ConfirmLeases(engine.Now(), st.name, piece)
		if t, ended, err = t.Merge(u), ended+n, failed; err != nil {
			break
		}
	}
	return t, ended, err
}

// thriftReturn runs an abort, a release or a reject.
func thriftReturn(s *session, req *thrift.Request) {
	l := s.loop
	how := engine.Return{How: engine.Abort}
	switch {
	case req.Method == thrift.MethodReject:
		how.How = engine.Reject
	case req.Method == thrift.MethodRelease:
		how = engine.Return{How: engine.Release, Delay: thriftDelay(req.DelayMillis), Delayed: true}
	case req.DelayMillis >= 0:
		how.Delay, how.Delayed = thriftDelay(req.DelayMillis), true
	}
	if req.IDs.Len() <= abortPiece {
		s.work += req.IDs.Len()
		l.receipts = receiptsOf(l.receipts[:0], req.IDs)
		s.endThriftEnd(l.engine.ReturnLeases(l.now, req.Queue, l.receipts, how))
		return
	}
	queue, receipts, ok := s.takeReceipts(req)
	if !ok {
		return
	}
	var t engine.Ticket
	n := 0
	s.startJob(func() (err error) {
		all := receipts()
		defer l.engine.Account(-receiptSize * int64(len(all)))
		t, n, err = l.engine.ReturnLeases(engine.Now(), queue, all, how)
		return err
	}, func(s *session, err error) { s.endThriftEnd(t, n, err) })
}

// takeReceipts takes the queue and the many ids of a call along for a job. It counts the bytes of the receipts, which
// the job gives back. The job asks for these: the loop has no time to copy millions, and a job may read a large call
// where it lies. Without room it refuses the call.
func (s *session) takeReceipts(req *thrift.Request) (queue []byte, receipts func() []uint64, ok bool) {
	e, n := s.loop.engine, req.IDs.Len()
	if e.MemoryLeft() < receiptSize*int64(n) {
		s.refuse(engine.ErrOutOfMemory)
		return nil, nil, false
	}
	e.Account(receiptSize * int64(n))
	queue, ids := bytes.Clone(req.Queue), req.IDs
	receipts = func() []uint64 { return receiptsOf(make([]uint64, 0, n), ids) }
	if !s.pinned { // the call lies in the buffer of the loop
		all := receipts()
		receipts = func() []uint64 { return all }
	}
	return queue, receipts, true
}

// endThriftEnd words that n reads have ended, once t is good.
func (s *session) endThriftEnd(t engine.Ticket, n int, err error) {
	s.endClaim(t)
	if err != nil {
		s.refuse(err)
		return
	}
	s.out = thrift.AppendCount(s.out, s.thrift.call, int32(n))
}

func thriftTouch(s *session, req *thrift.Request) {
	if !req.Which.IsZero() {
		thriftTouchItem(s, req)
		return
	}
	l, d := s.loop, time.Duration(req.AutoAbortMillis)*time.Millisecond
	due, t, err := l.engine.ExtendLease(l.now, req.Queue, uint64(req.ID), d)
	switch {
	case errors.Is(err, engine.ErrNotHeld):
		due = 0
	case err != nil:
		s.refuse(err)
		return
	}
	s.endClaim(t)
	s.out = thrift.AppendDeadline(s.out, req.Call, int64(due))
}

// thriftDelay is a delay that a client asks for. One that is out of bounds is negative: the engine refuses it.
func thriftDelay(millis int64) time.Duration {
	if millis < 0 || millis > maxThriftDelay {
		return -1
	}
	return time.Duration(millis) * time.Millisecond
}

// maxThriftDelay is the longest delay that a call may ask for, in milliseconds, as in the other protocols.
const maxThriftDelay = 999_999_999_999
