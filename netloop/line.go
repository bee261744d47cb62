package netloop

import (
	"math"
	"time"
)

// line is what is ahead of an event loop: connections that move much wait in it, oldest first, and a
// turn serves a few of them only, as long as there are others. These are read first in every turn,
// and get their replies before the line moves; what they sent meanwhile then waits for a short turn
// to end, and not for everybody's bulk.
type line struct {
	conns []*conn
	light time.Time // began the last turn that has read from a connection not in line
}

const (
	// heavySize is how many bytes, requests and replies together, a connection must have moved when
	// it was read last to wait in line the next time.
	heavySize = 8 << 10
	// catchUpSize is how many bytes a connection that catches up counts as having moved, at least. It
	// waits in line however small its items: it asks again at once for the next of many, and would
	// take from those who put as much of the loop as it can get. See decision 0042.
	catchUpSize = heavySize
	// turnSize is how many bytes those in line move in a turn, about, if there are others.
	turnSize = 32 << 10
	// lightFor is how long there are others after one was read. Without any, turns take all that is
	// in line: that costs a tenth less.
	lightFor = 10 * time.Millisecond
)

// join puts c at the end of the line, unless it is in it.
func (l *line) join(c *conn) {
	if !c.inLine {
		c.inLine = true
		l.conns = append(l.conns, c)
	}
}

// limit is how many bytes the line may move in a turn that began at a time.
func (l *line) limit(began time.Time) int {
	if began.Sub(l.light) < lightFor {
		return turnSize
	}
	return math.MaxInt
}

// serve calls read for those that wait longest, until limit is reached or the turn has no time for
// more. read returns how many bytes it has moved. serve skips a connection that has gone.
func (l *line) serve(limit int, turn share, read func(*conn) int) {
	done := 0
	for moved := 0; done < len(l.conns) && moved < limit && !turn.spent(); done++ {
		c := l.conns[done]
		c.inLine = false
		if !c.gone {
			moved += read(c)
		}
	}
	rest := copy(l.conns, l.conns[done:])
	clear(l.conns[rest:])
	l.conns = l.conns[:rest]
}
