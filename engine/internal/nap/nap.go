package nap

import "time"

// Longest is the longest nap.
const Longest = time.Millisecond

// Napper sleeps. The zero Napper is ready for use. One goroutine may use it.
type Napper struct {
	alarm
	useless bool // there is no such alarm, or the clock of the process is not that of the machine
}

// Works reports whether naps are possible, as far as is known.
func (n *Napper) Works() bool { return !n.useless }

// Nap sleeps for d, which is at most Longest. It reports false if it cannot; then it may have returned early. If the
// clock of the process stands still during a nap, as that of a test does, there are no more naps.
func (n *Napper) Nap(d time.Duration) bool {
	if n.useless {
		return false
	}
	if d <= 0 {
		return true
	}
	began := time.Now()
	n.useless = n.wait(d) != nil || time.Since(began) < d
	if n.useless {
		n.Close()
	}
	return !n.useless
}

// Close lets go of the descriptor that naps need. There are no more naps.
func (n *Napper) Close() {
	n.useless = true
	n.close()
}
