package netloop

import "github.com/kestrelmq/kestrel/engine"

// failure is a commit that has failed. Replies to what it was for must not report success; those that
// need another commit have nothing to do with it.
type failure struct {
	ticket engine.Ticket // of the commit
	err    error
}

// concerns reports whether f is why t is not good. It may become good later all the same: that is not
// known. A nil f concerns nothing.
func (f *failure) concerns(e *engine.Engine, t engine.Ticket) bool {
	if f == nil {
		return false
	}
	var tried engine.Ticket
	if t.Written <= f.ticket.Written {
		tried.Written = t.Written
	}
	if t.Synced <= f.ticket.Synced {
		tried.Synced = t.Synced
	}
	return !e.Committed(tried)
}

// fail hands the failure of a commit of t to the loop. The syncer calls it.
func (l *loop) fail(t engine.Ticket, err error) {
	if before := l.failure.Swap(nil); before != nil {
		t = t.Merge(before.ticket)
	}
	l.failure.Store(&failure{t, err})
}

// takeFailure returns the failure that the syncer has handed over since the last call, with what the last turn had no
// time for, or nil.
func (l *loop) takeFailure() *failure {
	before := l.failed
	l.failed = nil
	if l.failure.Load() == nil {
		return before
	}
	l.latencies.forget()
	f := l.failure.Swap(nil)
	if before != nil {
		f.ticket = f.ticket.Merge(before.ticket)
	}
	return f
}
