package netloop

import (
	"math"
	"time"
)

// bulk has the connections that move much, the oldest first. They wait for their part of a turn: a turn serves only a
// few of them as long as there are other connections. It reads those first, and they get their replies before the bulk
// moves. So what the others send meanwhile waits for a short turn, and not for everybody's bulk.
type bulk struct {
	conns     []*conn
	lastLight time.Time // when the last turn began that has read from a connection that is not in the bulk
}

const (
	// heavySize is how many bytes, requests and replies together, a connection moves in one read to wait in the bulk
	// the next time.
	heavySize = 8 << 10
	// catchUpSize is how many bytes a connection that catches up counts as having moved, at least. It waits in the bulk
	// however small its items are, because it asks for the next of many at once. Otherwise it would take the loop from
	// producers. See decision 0042.
	catchUpSize = heavySize
	// turnSize is how many bytes those in the bulk move in a turn, about, if there are others.
	turnSize = 32 << 10
	// lightFor is how long there are others after one was read. Without any, turns take all that is
	// in the bulk: that costs a tenth less.
	lightFor = 10 * time.Millisecond
)

// join puts c at the end of the bulk, unless it is in it.
func (b *bulk) join(c *conn) {
	if !c.inBulk {
		c.inBulk = true
		b.conns = append(b.conns, c)
	}
}

// openLater has what TLS has left of c opened in a later turn, if there is any. The poller does not report it.
func (d *driver) openLater(c *conn) {
	if c.tls != nil && c.tls.HasMore() && !c.gone {
		d.bulk.join(c)
	}
}

// limit is how many bytes the bulk may move in a turn that began at a time.
func (b *bulk) limit(began time.Time) int {
	if began.Sub(b.lastLight) < lightFor {
		return turnSize
	}
	return math.MaxInt
}

// serve calls read for those that wait longest, until limit is reached or the turn has no time for
// more. read returns how many bytes it has moved. serve skips a connection that has gone.
func (b *bulk) serve(limit int, turn share, read func(*conn) int) {
	if len(b.conns) == 0 {
		return
	}
	done := 0
	for moved := 0; done < len(b.conns) && moved < limit && !turn.spent(); done++ {
		c := b.conns[done]
		c.inBulk = false
		if !c.gone {
			moved += read(c)
		}
	}
	rest := copy(b.conns, b.conns[done:])
	clear(b.conns[rest:])
	b.conns = b.conns[:rest]
}
