package loadtest

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what the measured window saw.
type Result struct {
	Operations int64 // requests answered
	Hits       int64 // gets and opens that returned an item
	Misses     int64 // gets and opens that found none
	Errors     int64 // wrong replies, closed connections, stalls; the first on a thread ends the run

	Wall time.Duration // from the first request to the last reply

	// Latency holds the time from each batch's write to its last reply, in nanoseconds.
	Latency *hdrhistogram.Histogram

	ThreadCPU  time.Duration // user and system time of the generator threads
	ProcessCPU time.Duration // of the whole process, with the Go runtime's threads
}

// Rate returns the requests answered per second.
func (r Result) Rate() float64 {
	if r.Wall <= 0 {
		return 0
	}
	return float64(r.Operations) / r.Wall.Seconds()
}

// latencyDigits is the precision of the histograms, in significant decimal digits.
const latencyDigits = 3

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour), latencyDigits)
}

// tally is what one thread saw in one window.
type tally struct {
	operations int64
	hits       int64
	misses     int64
	errors     int64
	latency    *hdrhistogram.Histogram
	cpu        time.Duration
}

// answered counts the batch in flight of c, all of whose replies were the due ones.
func (t *tally) answered(c *conn, p *plan) {
	t.operations += int64(c.count)
	if len(p.cycle) == 1 {
		if p.cycle[0] == getRequest {
			t.hits += int64(c.count)
		}
		return
	}
	for i := range c.count {
		if kind := c.kind(p, i); kind == getRequest || kind == openRequest {
			t.hits++
		}
	}
}

// count counts one parsed reply.
func (t *tally) count(o outcome) {
	t.operations++
	switch o {
	case hit:
		t.hits++
	case miss:
		t.misses++
	}
}

// add adds a thread's tally to the result.
func (r *Result) add(t *tally) {
	r.Operations += t.operations
	r.Hits += t.hits
	r.Misses += t.misses
	r.Errors += t.errors
	r.ThreadCPU += t.cpu
	r.Latency.Merge(t.latency)
}
