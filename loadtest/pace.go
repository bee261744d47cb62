package loadtest

import (
	"math/rand/v2"
	"time"
)

// pacer makes the requests of one group due, on one thread. It is owned by the thread.
type pacer struct {
	group *group
	mean  float64 // time between requests, nanoseconds
	next  float64 // when the next request is due, nanoseconds since the start of the run
	end   time.Duration
	spent bool // a connection has sent all that it was to send
	idle  ring // connections that wait for a request
}

// newPacer returns the pacer of a group of which a thread has some connections. Part is the
// thread's share of the rate.
func newPacer(g *group, connections int, part float64) pacer {
	return pacer{
		group: g,
		mean:  float64(time.Second) / (g.Rate * part),
		idle:  ring{slots: make([]int32, connections)},
	}
}

// start makes the first request due at a time that differs by thread.
func (p *pacer) start(now, end time.Duration, random *rand.Rand) {
	p.end, p.spent, p.idle.n = end, false, 0
	p.next = float64(now)
	p.next += p.mean * random.Float64()
}

// advance returns when the next request is due and moves on to the one after it.
func (p *pacer) advance(random *rand.Rand) time.Duration {
	due := time.Duration(p.next)
	if p.group.Poisson {
		p.next += p.mean * random.ExpFloat64()
	} else {
		p.next += p.mean
	}
	return due
}

// due reports whether a request is due.
func (p *pacer) due(now time.Duration) bool {
	return p.next <= float64(now) && p.next < float64(p.end)
}

// left returns how many requests were due before the end of the window and are not sent.
func (p *pacer) left(now time.Duration) int64 {
	if now < p.end || p.spent || p.next >= float64(p.end) {
		return 0
	}
	return int64((float64(p.end)-p.next)/p.mean) + 1
}

// ring is a queue of connections, each of which is in it at most once.
type ring struct {
	slots []int32
	first int
	n     int
}

func (r *ring) push(i int32) {
	r.slots[(r.first+r.n)%len(r.slots)] = i
	r.n++
}

func (r *ring) pop() int32 {
	i := r.slots[r.first]
	r.first = (r.first + 1) % len(r.slots)
	r.n--
	return i
}

// dispatch sends the requests that are due over connections that are free.
func (t *thread) dispatch(now time.Duration) error {
	for i := range t.pacers {
		p := &t.pacers[i]
		for p.idle.n > 0 {
			if now < p.end && !p.due(now) {
				break
			}
			c := &t.conns[p.idle.pop()]
			if !t.mayGo(c, now) {
				if err := t.leave(c, now); err != nil {
					return err
				}
				continue
			}
			c.due = c.due[:0]
			limit := min(c.group.Pipeline, int(min(c.left, MaxPipeline)))
			for len(c.due) < limit && p.due(now) {
				c.due = append(c.due, p.advance(t.random))
			}
			recordValues(&t.tally.lag, now-max(c.due[0], c.idleAt), 1)
			if err := t.fly(c, len(c.due), now, c.due[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// untilDue returns how long it is until a connection that is free has a request to send, or false
// if none is.
func (t *thread) untilDue() (d time.Duration, ok bool) {
	first := 0.0
	for i := range t.pacers {
		p := &t.pacers[i]
		if next := min(p.next, float64(p.end)); p.idle.n > 0 && (!ok || next < first) {
			first, ok = next, true
		}
	}
	if !ok {
		return 0, false
	}
	return time.Duration(first) - t.now(), true
}
