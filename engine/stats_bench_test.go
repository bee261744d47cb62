package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/histogram"
)

// statsEngine is an engine with n queues, each of which has been used.
func statsEngine(b *testing.B, n int) *Engine {
	b.Helper()
	e := benchEngine(b)
	for i := range n {
		name := fmt.Appendf(nil, "queue%05d", i)
		s, err := e.PutAll(Now(), name, []PutRequest{{Data: []byte("hello")}})
		if err != nil {
			b.Fatal(err)
		}
		e.Record([]Sample{{s.Meter, 100, 1, PutTime}, {s.Meter, 1000, 1, HitTime}})
	}
	return e
}

// BenchmarkQueues describes 10,000 queues, as STATS does.
func BenchmarkQueues(b *testing.B) {
	e := statsEngine(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(e.Queues(Now())); n != 10_000 {
			b.Fatalf("%d queues", n)
		}
	}
}

// BenchmarkMetrics copies the distributions of 10,000 queues, as the admin port does.
func BenchmarkMetrics(b *testing.B) {
	e := statsEngine(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if queues, _ := e.Metrics(); len(queues) != 10_000 {
			b.Fatalf("%d queues", len(queues))
		}
	}
}

// BenchmarkStatsLock is how long Queues and Metrics hold a shard's lock at a time, with 10,000
// queues. The calls that take it are timed one by one, which includes the time in which this
// process did not run.
func BenchmarkStatsLock(b *testing.B) {
	e := statsEngine(b, 10_000)
	var list, one, copied histogram.Counts
	var queues []*queue
	timed := func(c *histogram.Counts, f func()) {
		began := time.Now()
		f()
		c.Record(time.Since(began).Nanoseconds(), 1)
	}
	for b.Loop() {
		for i := range e.shards {
			timed(&list, func() { queues = e.shards[i].list(queues[:0]) })
			for _, q := range queues {
				timed(&one, func() { e.describe(q, Now()) })
				timed(&copied, func() { q.metrics() })
			}
		}
	}
	for _, c := range []struct {
		name string
		*histogram.Counts
	}{{"list", &list}, {"queue", &one}, {"metrics", &copied}} {
		b.ReportMetric(float64(c.Quantile(0.5)), c.name+"-p50-ns")
		b.ReportMetric(float64(c.Quantile(0.999)), c.name+"-p99.9-ns")
	}
}
