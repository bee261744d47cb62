package loadtest

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what the measured window saw.
type Result struct {
	Summary

	Errors int64         // wrong replies, closed connections, stalls; the first ends the run
	Unsent int64         // requests that were due, and never sent as no connection was free
	Wall   time.Duration // from the first request to the last reply

	// Lag holds how late requests with a rate left because the generator was busy, in nanoseconds:
	// what it adds to their latency. It is nil without a rate.
	Lag *hdrhistogram.Histogram

	Retries int64 // connects that had to be tried again

	Threads    int           // generator threads
	ThreadCPU  time.Duration // user and system time of the generator threads
	ProcessCPU time.Duration // of the whole process, with the Go runtime's threads
}

// Summary is what was done in a span of time.
type Summary struct {
	Ops []Op // those with requests, in a fixed order

	// Delivery holds the age of items when they were got, from when their put was sent, or due, in
	// nanoseconds. It is nil without a Ledger, or gets.
	Delivery *hdrhistogram.Histogram
}

// Op is what was done of one kind of request.
type Op struct {
	Name     string // put, get, open, confirm, close-open, fetch or confirm-all
	Requests int64  // answered
	Items    int64  // put, or got
	Misses   int64  // requests that found no item

	// Latency holds times in nanoseconds, to the arrival of a request's reply. Each begins with the sending of the
	// batch that the request was part of, or when the request was due.
	Latency *hdrhistogram.Histogram
}

// Interval is one of the spans that the measured window is divided into.
type Interval struct {
	Index int           // from 0
	Start time.Duration // since the window began
	Wall  time.Duration
	Summary
}

// summary returns the counts of t, which it hands over.
func (t *tally) summary() Summary {
	s := Summary{Delivery: t.delivery}
	for kind := range numKinds {
		if k := &t.kinds[kind]; k.requests > 0 {
			s.Ops = append(s.Ops, Op{kind.String(), k.requests, k.items, k.misses, k.latency})
		}
	}
	return s
}

// Op returns what was done of a kind, and whether there was any.
func (s Summary) Op(name string) (Op, bool) {
	for _, op := range s.Ops {
		if op.Name == name {
			return op, true
		}
	}
	return Op{Name: name, Latency: newHistogram()}, false
}

// Operations returns the requests answered, of all kinds.
func (s Summary) Operations() (n int64) {
	for _, op := range s.Ops {
		n += op.Requests
	}
	return n
}

// Misses returns the requests that found no item, of all kinds.
func (s Summary) Misses() (n int64) {
	for _, op := range s.Ops {
		n += op.Misses
	}
	return n
}

// Got returns the items that were got.
func (s Summary) Got() (n int64) {
	for _, op := range s.Ops {
		if op.Name != putRequest.String() {
			n += op.Items
		}
	}
	return n
}

// Latency returns the latencies of all kinds together.
func (s Summary) Latency() *hdrhistogram.Histogram {
	all := newHistogram()
	for _, op := range s.Ops {
		all.Merge(op.Latency)
	}
	return all
}

// Rate returns the requests answered per second.
func (r Result) Rate() float64 {
	if r.Wall <= 0 {
		return 0
	}
	return float64(r.Operations()) / r.Wall.Seconds()
}
