package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"
)

// clocksTrial steps the wall clock of servers, forward and back, by seconds, hours and days, while
// lanes of every kind work, and between two servers. Items expire by the clock as it is. Delays and leases go by the
// clock as it was when the server started, and nothing else changes. No item is lost or comes twice, and waits and
// deadlines take as long as was asked. Periodic syncs keep their period, and the metrics stay sane.
func clocksTrial(ctx context.Context, t *trial) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	edits, err := clockEdits(ctx)
	if err != nil {
		return err
	}
	program, err := build(ctx, root, t.dir, slices.Concat(t.edits, edits))
	if err != nil {
		return err
	}
	c := &clocks{t: t, lanes: standardLanes(t), spills: spillLanes(t), messages: messageLanes(t)}
	if c.clock, err = newWallClock(t.dir); err != nil {
		return err
	}
	defer c.clock.close()
	c.expiring = []*expiringLane{
		newSteppedLane(t, c.clock, "short", "memcache", 150*time.Millisecond, false),
		newSteppedLane(t, c.clock, "long", "memcache", 10*time.Minute, false),
		newSteppedLane(t, c.clock, "brief", "thrift", 150*time.Millisecond, true),
		newSteppedLane(t, c.clock, "lasting", "thrift", time.Hour, true),
	}
	config := "segment_size = \"64KiB\"\njournal_size = \"1MiB\"\nmax_open_transactions = 1000000\n" +
		timedConfig + tablesOf(c.lanes, c.spills)
	for _, l := range c.expiring {
		config += l.config()
	}
	for _, l := range c.messages {
		l.lasting = true
		config += l.config()
	}
	if err := os.WriteFile(filepath.Join(t.dir, "lab.toml"), []byte(config), 0o600); err != nil {
		return err
	}
	how := launch{binary: program, dir: t.dir, env: []string{clockVariable + "=" + c.clock.path},
		args: []string{"--config", "lab.toml", "--admin-port", "auto"}}
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		if err := c.cycle(ctx, how, cycle); err != nil && len(t.violations()) == 0 {
			return fmt.Errorf("cycle %d: %w", cycle, err)
		}
	}
	return ctx.Err()
}

// clocks is a data directory that servers use whose clocks are stepped.
type clocks struct {
	t        *trial
	clock    *wallClock
	lanes    []*lane
	spills   []*spillLane
	expiring []*expiringLane
	messages []*messageLane // their servers' clocks differ from one start to the next
}

// newSteppedLane returns a lane whose items expire by a clock that is stepped.
func newSteppedLane(
	t *trial, c *wallClock, name, protocol string, age time.Duration, ttl bool,
) *expiringLane {
	e := newExpiringLane(t)
	e.lane, e.target = newLane(t, name, protocol, "always"), name+"-expired"
	e.age, e.ttl, e.wall = age, ttl, c.times
	return e
}

// cycle starts a server with the clock that the last one left, or with another, and steps it until
// the server is killed or stopped.
func (c *clocks) cycle(ctx context.Context, how launch, cycle int) error {
	t := c.t
	rng := t.rng(cycle<<8 | 255)
	if rng.IntN(2) == 0 {
		c.clock.set(drawOffset(rng))
	}
	for _, l := range c.messages {
		l.start(c.clock.off())
	}
	s, err := startOrViolate(ctx, t, how)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	stop := make(chan struct{})
	var stepping sync.WaitGroup
	steps := t.rng(cycle<<8 | 254)
	stepping.Go(func() { c.clock.stepAround(steps, stop) })
	defer stepping.Wait()
	defer close(stop)

	laws, err := lawsOf(s, &surroundings{})
	if err != nil {
		return err
	}
	if err := patiently(s, func() error { return c.inspect(s) }); err != nil {
		return err
	}
	timed := &timed{t: t, s: s, laws: laws, life: cycle}
	if err := timed.alone(rng); err != nil {
		return err
	}
	return c.use(s, timed, cycle)
}

// inspect compares what is there with what must be.
func (c *clocks) inspect(s *server) error {
	v, err := inspectAll(c.t, s, c.lanes, func(l *lane) int { return l.ackedBefore(time.Now()) })
	if err != nil {
		return err
	}
	for _, l := range c.spills {
		if err := l.inspect(v); err != nil {
			return errors.Join(err, v.c.conn.Close())
		}
	}
	for _, l := range c.messages {
		if err := l.inspect(v); err != nil {
			return errors.Join(err, v.c.conn.Close())
		}
	}
	if err := v.c.end(); err != nil {
		return err
	}
	for _, l := range c.expiring {
		if err := l.inspect(s); err != nil {
			return err
		}
	}
	return makeQueues(c.t, s, c.lanes)
}

// use lets all lanes work for a while, with whatever waits, and kills the server.
func (c *clocks) use(s *server, timed *timed, cycle int) error {
	t := c.t
	for i, l := range c.expiring {
		l.start(s, t.rng(cycle<<8|200+i))
	}
	var messages sync.WaitGroup
	for i, l := range c.messages {
		rng := t.rng(cycle<<8 | 180 + i)
		messages.Go(func() { l.run(s, rng) })
	}
	defer messages.Wait()
	timed.start(t.rng(cycle<<8 | 253))
	rng := t.rng(cycle<<8 | 252)
	worked := time.Duration(1+rng.IntN(4000)) * time.Millisecond
	var saneErr error
	end := func() {
		saneErr = timed.sane()
		timed.ending.Store(true)
		s.kill()
		t.counts.trials.Add(1)
	}
	err := runSpill(t, s, c.spills, cycle<<4, 1, func() {
		saneErr = errors.Join(runLanes(t, s, c.lanes, cycle, until{replies: 1 << 40, after: worked}, end), saneErr)
	})
	for _, l := range c.expiring {
		l.wait()
	}
	timed.running.Wait()
	for _, line := range s.logged("") { // warnings say that the machine is busy
		if line["level"] == "ERROR" || line["plain"] == true {
			t.violate("a sound server logged %v", line)
		}
	}
	return errors.Join(err, saneErr)
}

// maxSpent is more seconds than all commands of a server that lives for seconds take together.
const maxSpent = 1e6

var negative = regexp.MustCompile(`(?m)^\w+(\{.*\})? (-.*|NaN|.*Inf)$`)

// sane checks that no metric is negative, and that no sum of durations is longer than it can be.
func (d *timed) sane() error {
	metrics, err := d.laws.metrics()
	if err != nil {
		if !d.s.running() {
			d.t.violate("the server has ended: %s", d.s.lastLines())
			return nil
		}
		return err
	}
	d.t.counts.checks.Add(1)
	if m := negative.Find(metrics); m != nil {
		d.t.violate("the metrics tell: %s", m)
	}
	for _, m := range spent.FindAllSubmatch(metrics, -1) {
		if number(m[2]) > maxSpent {
			d.t.violate("the metrics tell that %s took %s s", m[1], m[2])
		}
	}
	return nil
}

var spent = regexp.MustCompile(
	`(?m)^(kestrel_(?:uptime|journal_sync_\w+|command_\w+|queue_read_behind)\w*_seconds(?:_sum)?(?:\{.*\})?) (\S+)$`)
