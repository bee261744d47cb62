package netloop

import (
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
	waitMatch
	waitJob
	waitReport // only while the session is stalled; a piece being made is a job
)

// wait is what a session waits for. Between requests it keeps its buffers.
type wait struct {
	kind      waitKind
	counted   bool // against the quota of the user
	reserved  int  // open reads, of that quota
	waiter    engine.Waiter
	access    engine.Access
	name      []byte // of the queue
	spelt     []byte // what replies call it: the name as the client spells it
	deadline  moment
	heapIndex int    // in loop.deadlines; -1 without a deadline
	remaining int    // monitor: items to deliver at most; negative: no limit
	until     moment // monitor: its deadline, or atOnce
	holds     int    // items held that were there at once
	delivered bool   // monitor: an item

	meter *engine.Meter // of the queue
	began moment

	peeked  func(*session, error)                 // peek: words the outcome
	matched func(*session, engine.ReadRef, error) // match: goes on

	jobDone   func(*session, error) // job: words the outcome
	jobResult error
	jobFault  *jobFault // nil if it ended by itself
	jobPuts   int64     // items that the job has tried to put

	several *several // nil until a fetch is from several queues

	report *reporting // that is on its way; nil if there is none
}

// WaitEnded implements engine.Notifier. It is called by any goroutine, with a shard locked.
func (s *session) WaitEnded(*engine.Waiter) { s.loop.post(s, waitEnded) }

// beginWait makes the session wait until the engine ends its Waiter, or the deadline passes.
func (s *session) beginWait(
	kind waitKind, name, spelt []byte, access engine.Access, deadline moment,
) {
	w := &s.wait
	w.kind, w.access = kind, access
	w.name = append(w.name[:0], name...)
	w.spelt = append(w.spelt[:0], spelt...)
	s.name = w.spelt
	s.to(waiting)
	if deadline != forever {
		s.loop.deadlines.add(s, deadline)
		s.countWait()
	}
}

// forever is the deadline of a wait that ends only when its item or its result comes, such as a read from the disk.
const forever moment = math.MaxInt64

// atOnce, as the deadline of deliverMany, has it take what is there and not wait for more.
const atOnce moment = 0

// startJob runs f on a goroutine of its own, and then done on the loop with its result. Nothing
// else of the session runs meanwhile. It is for requests that wait for the disk, or take long.
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

// several is what a session keeps for fetches from several queues: of the last one, or that which waits.
type several struct {
	wait    engine.AnyWait
	waiting bool
	sources []source // in the order in which they are tried
	names   [][]byte // of the sources
}

// source is a queue that a fetch may be from. It keeps its buffers.
type source struct {
	name, spelt []byte // and what the client calls it
	weight      int    // 0: none was sent
}

// severalSize is about how many bytes a several takes.
const severalSize = 4 << 10
