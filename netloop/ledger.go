package netloop

import (
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine"
)

// ledger counts what the sessions of one loop hold beyond their resting size: input that cannot be
// run yet, and replies that have not left. It tells the engine, whose memory limit they count
// against, once a turn at most and only of changes that matter, so that all loops do not write to
// one word for every request. Its owner is the loop.
type ledger struct {
	engine *engine.Engine
	total  *atomic.Int64 // of the replies of all loops, as far as they are told
	held   int64         // bytes held now
	told   int64         // of which the engine knows
	owed   int64         // bytes of held that are replies
	owing  int64         // of which total knows
}

// ledgerStep is how many bytes one loop may hold without the engine's knowing.
const ledgerStep = 64 << 10

// settle tells the engine of a change that matters. It is called at the end of a turn.
func (l *ledger) settle() {
	change := l.held - l.told
	if -ledgerStep < change && change < ledgerStep && (l.held != 0 || change == 0) {
		return
	}
	l.engine.Account(change)
	l.told = l.held
	l.total.Add(l.owed - l.owing)
	l.owing = l.owed
}

// owe counts n bytes of replies more, or fewer if n is negative. Of many at once it tells before the
// turn ends: what is made in one turn is bounded too.
func (l *ledger) owe(n int) {
	l.held += int64(n)
	l.owed += int64(n)
	if l.held-l.told >= ledgerStep {
		l.settle()
	}
}

// countOutput counts the replies of s that have not left.
func (s *session) countOutput() {
	n := len(s.out) + s.sink.unsent()
	if s.thrift.get.reply != nil {
		n += len(s.thrift.get.reply.B)
	}
	n += len(s.body.reply)
	s.loop.ledger.owe(n - s.owed)
	s.owed = n
}
