package netloop

import (
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine"
)

// ledger counts the memory of the sessions of one loop beyond sessionSize. That is buffered input, replies that have
// not left, lists of open reads, and reports. Buffers count with their capacity. These bytes count against the
// engine's memory limit. The ledger reports changes that matter to the engine, at most once a turn. So the loops do
// not all write to one word for every request. Its owner is the loop.
type ledger struct {
	engine *engine.Engine
	total  *atomic.Int64 // bytes of the replies of all loops, as far as reported
	bytes  int64         // held now
	known  int64         // of bytes: those that the engine knows of
	owed   int64         // of bytes: those that are replies
	owing  int64         // bytes of owed that are in total
}

// sessionSize is about how many bytes a connection takes that does nothing, with what it keeps from when it did
// something. The engine knows of it from the beginning of a session to its end.
const sessionSize = 2304

// ledgerStep is how many bytes one loop may hold without the engine's knowing.
const ledgerStep = 64 << 10

// report reports a change that matters to the engine. The loop calls it at the end of a turn.
func (l *ledger) report() {
	change, replies := l.bytes-l.known, l.owed-l.owing
	small := -ledgerStep < min(change, replies) && max(change, replies) < ledgerStep
	if small && (l.bytes != 0 || change == 0) {
		return
	}
	l.engine.Account(change)
	l.known = l.bytes
	l.total.Add(l.owed - l.owing)
	l.owing = l.owed
}

// left is how many bytes of the memory limit are left, also for what the engine does not know of yet.
func (l *ledger) left() int64 { return l.engine.MemoryLeft() - (l.bytes - l.known) }

// owe counts n bytes of replies more, or fewer if n is negative. It reports many bytes before the turn
// ends, so that the replies of one turn are bounded too.
func (l *ledger) owe(n int) {
	l.bytes += int64(n)
	l.owed += int64(n)
	if max(l.bytes-l.known, l.owed-l.owing) >= ledgerStep {
		l.report()
	}
}

// add counts n bytes more that are no replies, or fewer if n is negative.
func (l *ledger) add(n int) { l.bytes += int64(n) }

// tight reports whether so much memory is in use that nobody gets n bytes more than a few. A sixteenth
// beyond the limit is for requests that empty queues, and for those that look at them.
func (l *ledger) tight(n int) bool { return l.left()+l.engine.MemoryLimit()/16 < int64(n) }
