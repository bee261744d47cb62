package netloop

import (
	"fmt"
	"runtime/debug"

	"github.com/kestrelmq/kestrel/engine"
)

// guard calls f, and closes s if that panics: a fault in one session costs no other.
func (l *loop) guard(s *session, f func(*session)) {
	s.replyStart = len(s.out)
	defer l.rescue(s)
	f(s)
}

// rescue, deferred, closes s after a panic. The replies to earlier requests still leave. A panic that
// comes out of the engine goes on, and ends the process: its queues may be half changed, and its locks
// held. The journal makes that safe.
func (l *loop) rescue(s *session) {
	fault := recover()
	if fault == nil {
		return
	}
	if _, ok := fault.(*engine.Fault); ok {
		panic(fault)
	}
	job, ok := fault.(*jobFault)
	if !ok {
		job = &jobFault{fault, debug.Stack()}
	}
	l.counters.Panics++
	l.log.Error("session closed after a fault of the server", "peer", s.sink.peer(),
		"fault", fmt.Sprint(job.cause), "stack", string(job.stack))
	l.gathered.drop()
	s.cutReply()
	s.quit()
}

// jobFault is a panic of a job, on its way to the session.
type jobFault struct {
	cause any
	stack []byte
}

// runJob calls f, which is a job, and returns its fault, or its result. As on a loop, a fault that comes
// out of the engine ends the process.
func runJob(f func() error) (fault *jobFault, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case *engine.Fault:
			panic(cause)
		default:
			fault = &jobFault{cause, debug.Stack()}
		}
	}()
	return nil, f()
}

// cutReply drops the reply being made.
func (s *session) cutReply() {
	if s.replyStart < len(s.out) {
		s.dropBody()
	}
	s.out, s.claiming = s.out[:min(s.replyStart, len(s.out))], false
	n := len(s.claims)
	for n > 0 && s.claims[n-1].end > len(s.out) {
		n--
	}
	s.claims = s.claims[:n]
}
