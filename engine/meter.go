package engine

import (
	"github.com/kestrelmq/kestrel/engine/histogram"
)

// Measure is something that a Meter keeps the distribution of.
type Measure uint8

const (
	PutTime  Measure = iota // µs that puts took
	HitTime                 // µs that fetches took which found an item at once
	MissTime                // µs that fetches took which found none, and did not wait
	WaitTime                // ms that fetches waited in vain

	measures
)

// Meter keeps how long what clients did to one queue took. The engine cannot know when a reply
// leaves, so the server reports it, in Samples. A queue gets its Meter when it is first
// used; one that outlives its queue may be recorded to, and nobody looks at it any more.
type Meter struct {
	ages  histogram.Counts            // ms from put to hand-out; guarded by the shard
	times [measures]*histogram.Counts // nil until something was recorded; guarded by Engine.metersMu
}

// Sample says that Count operations on the queue of a Meter took Value each.
type Sample struct {
	Meter *Meter
	Value int64
	Count int32
	What  Measure
}

// Record takes in samples. One lock is taken for all of them: event loops gather some hundreds
// first.
func (e *Engine) Record(samples []Sample) {
	defer contain()
	e.metersMu.Lock()
	defer e.metersMu.Unlock()
	for _, s := range samples {
		c := s.Meter.times[s.What]
		if c == nil {
			c = new(histogram.Counts)
			s.Meter.times[s.What] = c
		}
		c.Record(s.Value, int64(s.Count))
	}
}

// measured makes sure that q has a Meter, unless nothing is to be measured. The caller holds the
// shard's mutex.
func (e *Engine) measured(q *queue) *Meter {
	if q.meter == nil && !e.opts.NoHistograms {
		q.meter = new(Meter)
	}
	return q.meter
}

// handOut notes that an item is handed out. The caller holds the shard's mutex.
func (q *queue) handOut(it Item, now Time) {
	if q.meter != nil {
		q.meter.ages.Record(int64(now-it.Added), 1)
	}
}

// forgetMeter keeps for the sum over all queues what a queue that is deleted has measured. The
// caller holds the shard's mutex.
func (q *queue) forgetMeter() {
	if q.meter != nil {
		q.shard.goneAges.Add(&q.meter.ages)
	}
}

// QueueMetrics are the distributions of one queue, as copies. One that is nil has no values.
type QueueMetrics struct {
	Name  string
	Times [measures]*histogram.Counts // by Measure
	// Ages are how many ms items had been in the queue when they were handed out.
	Ages *histogram.Counts
}

// Metrics returns the distributions of every queue that has any, sorted by name, and the ages of
// all items that were handed out since the start, also by queues that are gone. No lock is held for
// longer than one queue takes.
func (e *Engine) Metrics() (queues []QueueMetrics, ages *histogram.Counts) {
	defer contain()
	ages = new(histogram.Counts)
	for _, q := range e.sorted() {
		m, own := q.metrics()
		if m == nil {
			continue
		}
		ages.Add(own)
		metrics := QueueMetrics{Name: q.name, Times: e.copyTimes(m)}
		if own.Total() > 0 {
			metrics.Ages = own
		}
		if metrics != (QueueMetrics{Name: q.name}) {
			queues = append(queues, metrics)
		}
	}
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		ages.Add(&sh.goneAges)
		sh.mu.Unlock()
	}
	return queues, ages
}

// metrics returns the queue's Meter and a copy of the ages in it; nil if the queue has none or is
// gone.
func (q *queue) metrics() (*Meter, *histogram.Counts) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.meter == nil || q.deleted {
		return nil, nil
	}
	return q.meter, q.meter.ages.Clone()
}

func (e *Engine) copyTimes(m *Meter) (times [measures]*histogram.Counts) {
	e.metersMu.Lock()
	defer e.metersMu.Unlock()
	for i, c := range m.times {
		if c != nil {
			times[i] = c.Clone()
		}
	}
	return times
}
