package netloop

import (
	"errors"
	"math"

	"github.com/kestrelmq/kestrel/engine"
)

// waitKind is what a session in state waiting waits for.
type waitKind uint8

const (
	noWait waitKind = iota
	waitFetch
	waitMonitor
	waitPeek
	waitJob
	waitReport // only while the session is stalled; a piece being made is a job
)

// wait is what a session waits for. Between requests it keeps its buffers.
type wait struct {
	kind      waitKind
	waiter    engine.Waiter
	access    engine.Access
	name      []byte // of the queue
	reply     []byte // what the client calls it
	deadline  moment
	heapIndex int    // in loop.deadlines; -1 without a deadline
	remaining int    // monitor: items to deliver at most; negative: no limit
	until     moment // monitor: its deadline, or noDeadline
	holds     int    // items held that were there at once

	meter *engine.Meter // of the queue
	began moment

	peeked func(*session, error) // peek: words the outcome

	jobDone   func(*session, error) // job: words the outcome
	jobResult error
	jobFault  *jobFault // nil if it ended by itself
	jobPuts   int64     // items that the job has tried to put

	report *reporting // that is on its way; nil if there is none
}

// WaitEnded implements engine.Notifier. It is called by any goroutine, with a shard locked.
func (s *session) WaitEnded(*engine.Waiter) { s.loop.post(s, waitEnded) }

// beginWait makes the session wait until the engine ends its Waiter, or the deadline passes.
func (s *session) beginWait(
	kind waitKind, name, reply []byte, access engine.Access, deadline moment,
) {
	w := &s.wait
	w.kind, w.access = kind, access
	w.name = append(w.name[:0], name...)
	w.reply = append(w.reply[:0], reply...)
	s.name = w.reply
	s.to(waiting)
	if deadline != forever {
		s.loop.deadlines.add(s, deadline)
	}
}

// forever, as the deadline of a wait, is none: what is waited for is being read from disk.
const forever moment = math.MaxInt64

// monitor delivers items of the queue called name as open reads until the deadline, limit items (no
// limit if negative), or the limit of open reads. Reply is what the client calls the queue.
func (s *session) monitor(name, reply []byte, deadline moment, limit int) {
	room := max(s.loop.server.opts.MaxOpenReads-s.countReads(name), 0)
	if limit < 0 || limit > room {
		limit = room
	}
	s.deliverMany(name, reply, engine.OpenRead, deadline, limit)
}

// noDeadline, as the deadline of deliverMany, takes what is there and does not wait for more.
const noDeadline moment = 0

// deliverMany hands items of the queue called name to the protocol, and keeps them among the
// session's reads, until the deadline, limit items (no limit if negative), or the protocol wants no
// more.
func (s *session) deliverMany(
	name, reply []byte, access engine.Access, deadline moment, limit int,
) {
	if s.readsBlocked() {
		s.proto.refuse(s, errMonitorUnavailable)
		return
	}
	s.loop.counters.CmdMonitor++
	s.terms = terms{}
	w := &s.wait
	w.access = access
	w.remaining, w.holds = limit, 0
	w.until = deadline
	w.reply = append(w.reply[:0], reply...)
	w.name = append(w.name[:0], name...)
	s.name = w.reply
	s.continueMonitor()
}

// continueMonitor delivers what is there and waits for more, or ends the monitor. It stops for a
// while when the client does not read.
func (s *session) continueMonitor() {
	w, l := &s.wait, s.loop
	w.kind = noWait
	wait, deadline := w.until != noDeadline, w.until
	if !wait {
		deadline = forever
	}
	if s.body.pending() {
		s.pauseMonitor()
		return
	}
	for w.remaining != 0 && deadline > l.clock && !s.readsBlocked() {
		if s.spent() || s.owesTooMuch() {
			s.pauseMonitor()
			return
		}
		before := len(s.out)
		n, got, err := s.tryMany(w.name, w.access, wait, w.remaining)
		w.remaining -= n
		s.work += (len(s.out) - before) / replyWork
		if s.body.pending() {
			s.pauseMonitor()
			return
		}
		if got.Waiting {
			s.beginWait(waitMonitor, w.name, w.reply, w.access, deadline)
			return
		}
		if err == engine.ErrNotTaken && s.noRoom {
			s.notTaken()
			return
		}
		if err == engine.ErrEmpty || err == engine.ErrNotTaken {
			break // no more is there, or wanted; or the server stops
		}
		if err != nil {
			s.proto.refuse(s, err)
			return
		}
	}
	s.proto.none(s)
}

// startJob runs f on a goroutine of its own, and then done on the loop with its result. Nothing
// else of the session runs meanwhile. It is for the few requests that wait for the disk by nature.
func (s *session) startJob(f func() error, done func(*session, error)) {
	s.wait.kind, s.wait.jobDone, s.wait.jobPuts = waitJob, done, 0
	s.to(waiting)
	s.sink.listen(false)
	l := s.loop
	l.server.jobs.Add(1)
	go func() {
		defer l.server.jobs.Done()
		// As jobPuts, read by the loop after it took s from the mailbox.
		s.wait.jobFault, s.wait.jobResult = runJob(f)
		l.post(s, waitEnded)
	}()
}

// heed is called on the loop when the session has come out of the mailbox.
func (s *session) heed() {
	if s.news&writable != 0 {
		s.sink.flush()
		if s.state != closed {
			s.countOutput()
		}
		s.unstall()
	}
	if s.news&waitEnded != 0 {
		s.waitOver()
	}
}

// waitOver ends a wait: what was waited for has come, or will not.
func (s *session) waitOver() {
	w, l := &s.wait, s.loop
	kind, ref, err := w.kind, w.waiter.Read, w.waiter.Err
	w.kind = noWait
	if kind == waitJob {
		l.counters.CmdSet += w.jobPuts // also if the client has gone
		if s.state != waiting || w.jobFault != nil {
			s.unpin()
		}
		if s.state == waiting && !s.leaving {
			s.sink.listen(true)
		}
		if w.jobFault != nil {
			panic(w.jobFault)
		}
	}
	if s.state != waiting {
		if kind == waitJob {
			return
		}
		release := engine.Return{How: engine.Release} // it was never delivered
		if _, ended, _ := l.engine.Return(l.now, []engine.ReadRef{ref}, release); ended > 0 {
			l.counters.DeliveredToDead++
		}
		return
	}
	l.deadlines.remove(s)
	l.touch(s) // time in which the server owed a reply does not count as idle
	s.to(idle)
	s.takeOutput()
	l.mark(s)
	s.replyStart = len(s.out)
	switch kind {
	case waitJob:
		s.jobOver()
	case waitPeek:
		l.headItem = l.headItem[:0]
		if err == nil && !s.collect(ref) {
			err = engine.ErrEmpty
		}
		w.peeked(s, err)
	case waitFetch, waitMonitor:
		s.waitedFor(kind, ref, err)
	}
	s.endReply(s.replyStart)
	s.resume()
}

// jobOver words the outcome of a job. That may begin another, which uses the same input.
func (s *session) jobOver() {
	defer func() {
		if s.wait.kind != waitJob {
			s.unpin()
		}
	}()
	s.wait.jobDone(s, s.wait.jobResult)
}

// pauseMonitor has the monitor go on in a later turn, or when the client has read.
func (s *session) pauseMonitor() {
	s.wait.kind = waitMonitor
	s.to(stalled)
	s.loop.later(s)
}

// waitedFor words what has come of a wait for items.
func (s *session) waitedFor(kind waitKind, ref engine.ReadRef, err error) {
	switch {
	case errors.Is(err, engine.ErrBacklog), errors.Is(err, engine.ErrNotAdmitted):
		s.proto.refuse(s, err)
	case kind == waitFetch:
		if !s.collect(ref) {
			s.notTaken()
		}
	case s.collect(ref):
		s.wait.remaining--
		s.continueMonitor()
	default:
		s.notTaken()
	}
}

// collect hands the item that the wait has brought to the protocol. It reports false if there is
// none.
func (s *session) collect(ref engine.ReadRef) bool {
	w, l := &s.wait, s.loop
	t, ok := l.engine.Collect(l.now, ref, s.ask(engine.FetchRequest{Access: w.access}), s)
	if !ok {
		l.counters.GetMisses++
		return false
	}
	l.counters.GetHits++
	s.after(t)
	if w.access.Holds() {
		s.opened(w.name, ref)
	}
	return true
}

// deadlinePassed ends a wait with nothing, unless an item is on its way.
func (s *session) deadlinePassed() {
	l, kind := s.loop, s.wait.kind
	if !l.cancel(s) {
		return
	}
	l.counters.GetMisses++
	l.latencies.wait(s.wait.meter, int64(l.clock-s.wait.began))
	l.touch(s)
	s.to(idle)
	s.takeOutput()
	if kind == waitPeek {
		s.wait.peeked(s, engine.ErrEmpty)
	} else {
		s.proto.none(s)
	}
	l.mark(s)
	s.resume()
}
