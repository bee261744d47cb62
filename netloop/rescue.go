package netloop

import (
	"bytes"
	"fmt"
	"runtime/debug"
)

// guard calls f, and closes s if that panics: a fault in one session costs no other.
func (l *loop) guard(s *session, f func(*session)) {
	defer l.rescue(s)
	f(s)
}

// rescue, deferred, closes s after a panic. A panic inside the engine goes on, and ends the
// process: its queues may be half changed, and its locks held. The journal makes that safe.
func (l *loop) rescue(s *session) {
	fault := recover()
	if fault == nil {
		return
	}
	stack := debug.Stack()
	if bytes.Contains(stack, []byte("/kestrel/engine.")) {
		panic(fault)
	}
	l.counters.Panics++
	l.log.Error("session closed after a fault of the server", "peer", s.sink.peer(),
		"fault", fmt.Sprint(fault), "stack", string(stack))
	s.out, s.claims, s.claiming = s.out[:0], s.claims[:0], false
	if s.state == waiting {
		l.cancel(s)
	}
	s.to(closing)
	l.mark(s)
}
