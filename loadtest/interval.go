package loadtest

import (
	"math"
	"time"
)

// collector merges what the threads report of one window. It is owned by Run's goroutine.
type collector struct {
	run    *runner
	begin  time.Duration // of the window
	total  *tally
	spans  []*tally // of the intervals from first on
	first  int      // index of spans[0]
	handed []int    // by thread: the first interval it has not handed in
}

// gather waits for the final report of every thread, and calls OnInterval meanwhile. The first
// error stops the other threads.
func (r *runner) gather(begin time.Duration, measured bool) (total *tally, err error) {
	c := collector{run: r, begin: begin, total: new(tally), handed: make([]int, len(r.windows))}
	watched := r.opts.OnInterval != nil && measured
	for left := len(r.windows); left > 0; {
		got := <-r.reports
		if got.final {
			left--
			err = r.failed(err, got.err)
		}
		if watched {
			c.span(got)
		}
		c.total.add(got.tally)
		r.recycle(got.tally)
		if watched {
			c.emit(left == 0)
		}
	}
	return c.total, err
}

// span adds a report to the interval that it is of.
func (c *collector) span(got report) {
	at := c.handed[got.thread]
	for at-c.first >= len(c.spans) {
		c.spans = append(c.spans, new(tally))
	}
	c.spans[at-c.first].add(got.tally)
	c.handed[got.thread] = got.interval
	if got.final {
		c.handed[got.thread] = math.MaxInt
	}
}

// emit passes on the intervals that every thread has handed in; with all, also the last one, which
// is shorter.
func (c *collector) emit(all bool) {
	complete := math.MaxInt
	for _, n := range c.handed {
		complete = min(complete, n)
	}
	length := c.run.opts.Interval
	for len(c.spans) > 0 && (c.first < complete || all) {
		i := Interval{Index: c.first, Start: time.Duration(c.first) * length, Wall: length}
		if all {
			i.Wall = min(length, time.Since(c.run.start)-c.begin-i.Start)
		}
		i.Summary = c.spans[0].summary()
		c.spans = c.spans[1:]
		c.first++
		if i.Wall > 0 {
			c.run.opts.OnInterval(i)
		}
	}
}
