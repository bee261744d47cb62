package loadtest

import "time"

// Bounds of a nap. Below minNap it costs the generator more than the wake-ups it saves; above
// maxNap nothing is left to save.
const (
	napShare = 2 // a nap is one such part of the time the server's queue takes
	minNap   = 25 * time.Microsecond
	maxNap   = 200 * time.Microsecond

	minQueue = 4  // batches in flight; with fewer the server would wait for the generator
	maxSkip  = 63 // naps left out after several in vain
)

// napper decides when a thread sleeps on a timer. It is owned by the thread.
//
// A generator that is cheaper than the server finds nothing to do after each turn. If it then waits in epoll, the
// server's next reply must wake it, and the kernel charges that to the server. With 32 requests in a batch, it is a
// quarter of memcached's processor time. So while the server has a queue of batches to work off, the generator sleeps
// on a timer instead. It sleeps for half of the time that the queue takes. The replies that gather meanwhile are then
// one turn. The sleep follows from the latency seen, so it does not let the server run dry. It is part of the latency
// of the batches that end in it, as waiting behind other connections' replies always is.
//
// A server that answers all connections at once, say after a sync, wakes the generator once for all of them. There a
// nap is in vain, and after some the generator leaves most of them out.
type napper struct {
	latency  time.Duration // of a batch, moving average
	handling time.Duration // this thread's time per event, moving average
	skip     int           // naps to leave out now
	penalty  int           // naps to leave out after the next in vain
}

// next returns how long to sleep before waiting in epoll, with so many batches in flight; zero
// means not at all.
func (n *napper) next(outstanding int) time.Duration {
	queue := n.latency - time.Duration(outstanding)*n.handling
	d := min(queue/napShare, maxNap)
	switch {
	case d < minNap || outstanding < minQueue:
		return 0
	case n.skip > 0:
		n.skip--
		return 0
	}
	return d
}

// napped takes note of whether anything arrived during a nap.
func (n *napper) napped(inVain bool) {
	if inVain {
		n.penalty = min(2*n.penalty+1, maxSkip)
		n.skip = n.penalty
	} else {
		n.penalty = 0
	}
}

// wait waits for events or a request that is due, at most about tickInterval, and returns how many
// events there are in t.events.
func (t *thread) wait() (int, error) {
	if d, ok := t.untilDue(); ok {
		if d > 0 {
			if err := t.events.await(min(d, tickInterval), t.hold); err != nil {
				return 0, err
			}
		}
		return t.events.wait(0, t.hold)
	}
	if t.held {
		return t.events.wait(holdInterval, t.hold)
	}
	if d := t.napper.next(t.outstanding); d > 0 && t.napping {
		if n, err := t.events.wait(0, t.hold); n > 0 || err != nil {
			return n, err
		}
		nap(d)
		n, err := t.events.wait(0, t.hold)
		t.napper.napped(n == 0)
		if n > 0 || err != nil {
			return n, err
		}
	}
	return t.events.wait(tickInterval, t.hold)
}

// average returns the moving average of about the last 16 samples.
func average(old, sample time.Duration) time.Duration { return old + (sample-old)/16 }
