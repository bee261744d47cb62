package loadtest

import (
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyDigits is the precision of the histograms, in significant decimal digits.
const latencyDigits = 3

// maxLatency is the longest time a histogram distinguishes from longer ones.
const maxLatency = time.Hour

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(maxLatency), latencyDigits)
}

// recordValues records n times d in *h, which it makes if there is none yet.
func recordValues(h **hdrhistogram.Histogram, d time.Duration, n int64) {
	if *h == nil {
		*h = newHistogram()
	}
	// It fails for values out of range only.
	(*h).RecordValues(int64(min(max(d, 1), maxLatency)), n)
}

// mergeHistogram adds from to *h.
func mergeHistogram(h **hdrhistogram.Histogram, from *hdrhistogram.Histogram) {
	if from == nil || from.TotalCount() == 0 {
		return
	}
	if *h == nil {
		*h = newHistogram()
	}
	(*h).Merge(from)
}

// kindTally counts the requests of one kind.
type kindTally struct {
	requests int64
	items    int64
	misses   int64
	latency  *hdrhistogram.Histogram // nil until there is one
}

// tally is what one thread saw in one span of time.
type tally struct {
	kinds    [numKinds]kindTally
	delivery *hdrhistogram.Histogram // age of items when they were got
	lag      *hdrhistogram.Histogram // how late requests with a rate left, of the thread's doing
	unsent   int64                   // requests due and not sent when the window ended
	errors   int64
	cpu      time.Duration

	// What conn needs of its thread while it counts.
	offset time.Duration // from the start of the run to that of the ledger
	random *rand.Rand
	onItem func(Item, bool)
}

// add adds other to t, but for what conn needs.
func (t *tally) add(other *tally) {
	for i := range t.kinds {
		k, o := &t.kinds[i], &other.kinds[i]
		k.requests += o.requests
		k.items += o.items
		k.misses += o.misses
		mergeHistogram(&k.latency, o.latency)
	}
	mergeHistogram(&t.delivery, other.delivery)
	mergeHistogram(&t.lag, other.lag)
	t.unsent += other.unsent
	t.errors += other.errors
	t.cpu += other.cpu
}

// reset empties t and keeps its histograms' memory.
func (t *tally) reset() {
	for i := range t.kinds {
		k := &t.kinds[i]
		k.requests, k.items, k.misses = 0, 0, 0
		resetHistogram(k.latency)
	}
	resetHistogram(t.delivery)
	resetHistogram(t.lag)
	t.unsent, t.errors, t.cpu = 0, 0, 0
}

func resetHistogram(h *hdrhistogram.Histogram) {
	if h != nil && h.TotalCount() > 0 {
		h.Reset()
	}
}
