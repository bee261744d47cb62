package netloop

import "github.com/kestrelmq/kestrel/engine"

// ledger counts what the sessions of one loop hold beyond their resting size: input that cannot be
// run yet, and replies that have not left. It tells the engine, whose memory limit they count
// against, once a turn at most and only of changes that matter, so that all loops do not write to
// one word for every request. Its owner is the loop.
type ledger struct {
	engine *engine.Engine
	held   int64 // bytes held now
	told   int64 // of which the engine knows
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
}

// countOutput counts the replies of s that have not left.
func (s *session) countOutput() {
	n := len(s.out) + s.sink.unsent()
	s.loop.ledger.held += int64(n - s.owed)
	s.owed = n
}
