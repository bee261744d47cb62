package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// look is how long a plain queue is looked at, each time.
const look = 4 * time.Second

// bursts has many items of one queue become due at one instant, in several rounds. It measures what a put and a get of
// another queue take then, and before each round.
func (b *bench) bursts() error {
	var rises, readings []time.Duration
	for round := range b.rounds {
		quiet, err := b.plain(look)
		if err != nil {
			return err
		}
		reading, due, err := b.burst()
		if err != nil {
			return err
		}
		name := fmt.Sprint("round ", round+1)
		note(name+", quiet", "%v", quiet)
		note(name+", read back", "%v", reading)
		note(name+", due", "%v", due)
		readings = append(readings, reading.p99()-quiet.p99())
		rises = append(rises, due.p99()-quiet.p99())
	}
	slices.Sort(rises)
	slices.Sort(readings)
	rise := rises[len(rises)/2]
	goal(rise < time.Millisecond, "burst", "p99 rises below 1 ms", "by %v when %d are due (%v to %v); by %v while they are read",
		rise, b.once, rises[0], rises[len(rises)-1], readings[len(readings)/2])
	return nil
}

// burst is one round: it looks at a plain queue before and after the instant, and removes the other queue.
func (b *bench) burst() (reading, due spread, err error) {
	q, err := b.e.Queue("burst")
	if err != nil {
		return nil, nil, err
	}
	at := time.Now().Add(b.wait + 10*time.Second)
	err = putAll(b.e, q.Name(), b.once, func(int) []byte { return b.bodies }, func(int) time.Duration { return time.Until(at) })
	if err != nil {
		return nil, nil, err
	}
	if time.Until(at) < look {
		return nil, nil, fmt.Errorf("the items were put only %v before they are due: -wait must be longer", time.Until(at))
	}
	time.Sleep(time.Until(at) - look)
	if reading, err = b.plain(time.Until(at)); err != nil {
		return nil, nil, err
	}
	if due, err = b.plain(look); err != nil {
		return nil, nil, err
	}
	if s, _ := q.Stats(); s.Delayed == int64(b.once) {
		return nil, nil, fmt.Errorf("none of %d items is due %v after their time", b.once, look)
	}
	return reading, due, q.Delete()
}

// plain puts an item and takes it, on a queue that has nothing delayed, a thousand times a second.
func (b *bench) plain(length time.Duration) (spread, error) {
	q, err := b.e.Queue("plain")
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Millisecond) {
		began := time.Now()
		if err := q.Put(b.bodies, engine.PutOptions{}); err != nil {
			return nil, err
		}
		if _, err := q.Get(context.Background()); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return spreadOf(took), nil
}
