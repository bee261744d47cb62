package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// waiting is the queue of the items that wait for an hour and more.
const waiting = "waiting"

// mayGrow is how much a journal may have, in bytes: its size, and a segment of an eighth of that.
const mayGrow = engine.DefaultJournalSize * 9 / 8

// later is the delay of the item with number i of n: the order of the puts is not that of the due times.
func later(i, n int) time.Duration { return time.Hour + time.Duration(i*7919%n)*time.Millisecond }

// putMany puts the items that wait, and says what is left of them in memory and in the journal once they are on disk.
func (b *bench) putMany() error {
	before := b.e.Stats().MemoryBytes
	began, cpu := time.Now(), cpuTime()
	err := putAll(b.e, waiting, b.items, func(int) []byte { return b.bodies },
		func(i int) time.Duration { return later(i, b.items) })
	if err != nil {
		return err
	}
	rate, micros := perItem(b.items, time.Since(began), cpuTime()-cpu)
	goal(rate >= 100_000, "put", "100,000/s", "%.0f/s, %.2f µs of CPU each, of %d", rate, micros, b.items)
	var s engine.QueueStats
	for range 600 { // until what can be on disk is
		time.Sleep(100 * time.Millisecond)
		if s, _ = b.e.QueueStats(engine.Now(), []byte(waiting)); s.MemItems == 0 {
			break
		}
	}
	after := b.e.Stats()
	if hidden := s.Delayed - s.MemItems; s.MemItems > 0 {
		note("spilled", "%d are on disk and %d in memory: too few to spill", hidden, s.MemItems)
	} else {
		each := float64(after.MemoryBytes-before) / float64(hidden)
		goal(each <= 1, "spilled", "1 byte each", "%.2f bytes each of %d", each, hidden)
	}
	goal(after.JournalBytes <= mayGrow, "journal", "at most 72 MiB", "%.1f MiB; hidden runs take %d MiB",
		float64(after.JournalBytes)/(1<<20), s.BacklogBytes>>20)
	return nil
}

// restart closes the engine and opens it again.
func (b *bench) restart() error {
	if err := b.e.Close(); err != nil {
		return err
	}
	began, cpu := time.Now(), cpuTime()
	if err := b.open(); err != nil {
		return err
	}
	took := time.Since(began)
	s, _ := b.e.QueueStats(engine.Now(), []byte(waiting))
	goal(took < 2*time.Second, "restart", "below 2 s", "%v, %v of CPU, with %d delayed", took.Round(time.Millisecond),
		(cpuTime() - cpu).Round(time.Millisecond), s.Delayed)
	if s.Delayed != int64(b.items) {
		return fmt.Errorf("%d items are delayed, want %d", s.Delayed, b.items)
	}
	return nil
}

// cancel removes items that wait, by ids at random, each with a commit of its own.
func (b *bench) cancel() error {
	s, _ := b.e.QueueStats(engine.Now(), []byte(waiting))
	n := min(b.cancels, int(s.Delayed)/2)
	if n == 0 {
		return fmt.Errorf("no items wait: choose the step put as well")
	}
	took := make([]time.Duration, 0, n)
	for _, id := range rand.Perm(b.items)[:n] {
		began := time.Now()
		t, err := b.e.Remove(engine.Now(), []byte(waiting), "", engine.Which{ID: uint64(id) + 1})
		if err == nil {
			err = b.e.Commit(t)
		}
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	if now, _ := b.e.QueueStats(engine.Now(), []byte(waiting)); now.Delayed != s.Delayed-int64(n) {
		return fmt.Errorf("%d items are delayed, want %d", now.Delayed, s.Delayed-int64(n))
	}
	all := spreadOf(took)
	goal(all.worst() < 5*time.Millisecond, "cancel", "each below 5 ms", "%v, among %d", all, s.Delayed)
	return nil
}

// lateness has items become due, 10,000 a second, among those that wait, and measures how late they come.
func (b *bench) lateness() error {
	const rate = 10_000
	n := b.due
	began := time.Now()
	dues := make([]time.Time, n)
	data := func(i int) []byte { return fmt.Append(nil, i) }
	err := putAll(b.e, waiting, n, data, func(i int) time.Duration {
		due := began.Add(b.wait + time.Duration(i)*time.Second/rate)
		d := time.Until(due)
		dues[i] = time.Now().Add(d)
		return d
	})
	if err != nil {
		return err
	}
	q, err := b.e.Queue(waiting)
	if err != nil {
		return err
	}
	timers := make(chan spread)
	stop := make(chan struct{})
	go func() { timers <- timersAlone(stop) }()
	ctx, cancel := context.WithTimeout(context.Background(), b.wait+time.Duration(n)*time.Second/rate+time.Minute)
	defer cancel()
	late := make([]time.Duration, 0, n)
	for range n {
		it, err := q.Get(ctx)
		if err != nil {
			return err
		}
		var i int
		if _, err := fmt.Sscan(string(it.Data), &i); err != nil {
			return err
		}
		late = append(late, time.Since(dues[i]))
	}
	close(stop)
	note("timers alone", "%v late meanwhile", <-timers)
	all := spreadOf(late)
	if all[0] < 0 {
		return fmt.Errorf("an item came %v early", -all[0])
	}
	s, _ := b.e.QueueStats(engine.Now(), []byte(waiting))
	most, words := 5*time.Millisecond, "p99 at most 5 ms"
	if s.Delayed <= 100_000 {
		most, words = 2*time.Millisecond, "p99 at most 2 ms"
	}
	goal(all.p99() <= most, "late", words, "%v, beside %d that wait", all, s.Delayed)
	return nil
}

// timersAlone measures how late a timer of a millisecond is on this machine: nothing that waits for one can be sooner.
func timersAlone(stop chan struct{}) spread {
	var late []time.Duration
	for {
		due := time.Now().Add(time.Millisecond)
		select {
		case <-stop:
			return spreadOf(late)
		case <-time.After(time.Until(due)):
			late = append(late, time.Since(due))
		}
	}
}

// memory puts items that stay in memory to an engine of its own, whose limits are far away. It puts the same items in
// line, and then delayed.
func (b *bench) memory() error {
	n := min(b.items, 1_000_000)
	o := b.options("memory")
	o.JournalSize, o.MemoryLimit = 4<<30, 4<<30
	o.Settings.Default.MaxMemorySize = 1 << 30
	e, err := engine.Open(o)
	if err != nil {
		return err
	}
	defer e.Close()
	each := func(name string, delay func(i int) time.Duration) (float64, error) {
		before := e.Stats().MemoryBytes
		if err := putAll(e, name, n, func(int) []byte { return b.bodies }, delay); err != nil {
			return 0, err
		}
		if s, _ := e.QueueStats(engine.Now(), []byte(name)); s.MemItems != int64(n) {
			return 0, fmt.Errorf("%d items of %s are in memory, want %d", s.MemItems, name, n)
		}
		return float64(e.Stats().MemoryBytes-before) / float64(n), nil
	}
	inLine, err := each("line", func(int) time.Duration { return 0 })
	if err != nil {
		return err
	}
	delayed, err := each(waiting, func(i int) time.Duration { return later(i, n) })
	if err != nil {
		return err
	}
	goal(delayed-inLine <= 64, "memory", "64 bytes each", "%.1f bytes each more than the %.1f of an item in line, of %d",
		delayed-inLine, inLine, n)
	return nil
}
