package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// roughTrial runs servers in surroundings that it draws for each cycle. These are few descriptors, little memory, one
// processor, slow disks, small files, and calls that fail for a while. They end by kill -9 or by SIGTERM. All servers
// have one data directory, so each restart continues what the one before has left. The ledgers of lab kill and lab
// spill, and those of leases and delays, go on over all of them. Beside what those promise, a server must keep to the
// resources that it was given, and write nothing while no client asks for anything. It must work again, without a
// restart, when calls no longer fail.
func roughTrial(ctx context.Context, t *trial) error {
	if err := haveStrace(); err != nil {
		t.skip("%v", err)
		return nil
	}
	r := &rough{t: t, lanes: standardLanes(t), spills: spillLanes(t), messages: messageLanes(t)}
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		s := drawSurroundings(t.rng(cycle<<8|255), t)
		fmt.Fprintf(t.log, "rough: cycle %d: %s\n", cycle, s)
		if err := r.cycle(ctx, s, cycle); err != nil {
			return fmt.Errorf("cycle %d, %s: %w", cycle, s, err)
		}
		if len(t.violations()) > 0 {
			t.explain("cycle %d: %s", cycle, s)
		}
	}
	return ctx.Err()
}

// rough is what the cycles have in common.
type rough struct {
	t        *trial
	lanes    []*lane
	spills   []*spillLane
	messages []*messageLane
	faulty   bool // calls failed in the cycle before
}

// cycle starts a server on what the last one has left, looks at that, uses it, and ends it.
func (r *rough) cycle(ctx context.Context, env *surroundings, cycle int) error {
	t := r.t
	t.refusals.Store(false)
	config := env.config + tablesOf(r.lanes, r.spills)
	for _, l := range r.messages {
		config += l.config()
	}
	if err := os.WriteFile(filepath.Join(t.dir, "lab.toml"), []byte(config), 0o600); err != nil {
		return err
	}
	how, leave, err := env.launch(t)
	if err != nil {
		return err
	}
	defer leave()
	rng := t.rng(cycle<<8 | 254)
	s, err := startBehindKill(ctx, t, how, rng, 5)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	laws, err := lawsOf(s, env)
	if err != nil {
		return err
	}
	if err := r.inspect(s, laws, rng); err != nil {
		return err
	}
	if env.fault != nil {
		err = r.useFaulty(ctx, s, env, cycle)
	} else {
		err = r.use(s, env, laws, cycle, rng)
	}
	r.faulty = env.fault != nil
	t.counts.trials.Add(1)
	return err
}

// inspect compares what is there with what must be. Now and then it keeps all of it open for a while,
// and the server must have nothing to do.
func (r *rough) inspect(s *server, laws *laws, rng *rand.Rand) error {
	from := func(l *lane) int { return l.ackedBefore(time.Now()) }
	if r.faulty {
		from = (*lane).withoutFetches
	}
	v, err := inspectAll(r.t, s, r.lanes, from)
	if err != nil {
		return r.violated(err)
	}
	for _, l := range r.spills {
		if err := l.inspect(v); err != nil {
			return r.violated(errors.Join(err, v.c.conn.Close()))
		}
	}
	for _, l := range r.messages {
		if err := l.inspect(v); err != nil {
			return r.violated(errors.Join(err, v.c.conn.Close()))
		}
	}
	if rng.IntN(3) == 0 {
		if err := laws.idle(r.t); err != nil {
			return err
		}
	}
	if err := v.c.end(); err != nil {
		return err
	}
	return laws.openReads(r.t)
}

// violated is err, unless what went wrong is noted as a broken promise.
func (r *rough) violated(err error) error {
	if len(r.t.violations()) > 0 {
		return nil
	}
	return err
}

// use lets as many lanes as the server takes connections work, and ends it.
func (r *rough) use(s *server, env *surroundings, laws *laws, cycle int, rng *rand.Rand) error {
	t := r.t
	room := laws.clients - 3 // an inspection may not have ended yet, and makeQueues has one
	messages := shuffled(rng, r.messages)
	messages = messages[:min(len(messages), max(room/4, 0))]
	room -= len(messages)
	lanes := shuffled(rng, r.lanes)
	lanes = lanes[:min(len(lanes), max(room/2, 1))]
	spills := shuffled(rng, r.spills)
	spills = spills[:min(len(spills), max((room-len(lanes))/2, 0))]
	for _, l := range lanes {
		l.ahead = maxBatch
		if env.stops { // a server that stops refuses some requests, and does others: one at a time
			l.ahead = 1
		}
	}
	if err := makeQueues(t, s, lanes); err != nil {
		return err
	}
	var lawErr error
	end := func() {
		if !s.running() {
			t.violate("the server has ended: %s", s.lastLines())
			return
		}
		lawErr = laws.check(t)
		if env.stops {
			t.refusals.Store(true) // from now on
			if status := s.stop(); status != 0 {
				t.violate("the server ended with status %d: %s", status, s.lastWords())
			}
		}
		s.kill()
	}
	// The lanes of messages and the spill lanes work for as long as the others do.
	var running sync.WaitGroup
	for i, l := range messages {
		own := t.rng(cycle<<8 | 200 + i)
		running.Go(func() { l.run(s, own) })
	}
	replies := int64(20 + rng.IntN(1+rng.IntN(env.replies)))
	err := runSpill(t, s, spills, cycle<<4, replies/2+1, func() {
		lawErr = errors.Join(runLanes(t, s, lanes, cycle, until{replies: replies, after: patience}, end), lawErr)
	})
	running.Wait()
	for _, line := range s.logged("") { // warnings say that the surroundings are what they are
		if line["level"] == "ERROR" || line["plain"] == true && env.delay == "" { // strace says things too
			t.violate("a server whose calls do not fail logged %v", line)
		}
	}
	return errors.Join(err, lawErr)
}

// useFaulty has calls fail for a while, and expects the server to work again when they do not any more.
func (r *rough) useFaulty(ctx context.Context, s *server, env *surroundings, cycle int) error {
	t := r.t
	t.refusals.Store(true)
	for _, l := range r.lanes {
		l.ahead = 1 // so that it is clear what was refused
	}
	if err := makeQueues(t, s, r.lanes); err != nil {
		return err
	}
	var faultErr error
	err := runLanes(t, s, r.lanes, cycle, until{replies: 200, after: time.Second}, func() {
		defer s.kill()
		detach, err := env.fault.attach(ctx, s, "/dev/null")
		if err != nil {
			faultErr = err
			return
		}
		time.Sleep(faultTime)
		detach()
		t.expectMended(s)
		if env.stops && s.running() {
			s.stop()
		}
	})
	return errors.Join(err, faultErr)
}

// expectMended checks that puts and fetches are done again before long.
func (t *trial) expectMended(s *server) {
	const item = "after the fault"
	body := func(int) []byte { return []byte(item) }
	var last any
	for began := time.Now(); time.Since(began) < patience && s.running(); time.Sleep(100 * time.Millisecond) {
		c, err := dial(s, "memcache")
		if err != nil {
			last = err
			continue
		}
		put, err := c.ask(request{op: opPut, queue: "mended", items: []int{1}}, body)
		var got answer
		if err == nil && put.refusal == "" {
			got, err = c.ask(request{op: opGet, queue: "mended", count: 1}, body)
		}
		last = fmt.Sprint(put, got, err)
		mended := err == nil && len(got.items) == 1 && string(got.items[0].data) == item
		c.conn.Close()
		if mended {
			return
		}
	}
	t.violate("the server does not work again when calls fail no more: %v; %s", last, s.lastLines())
}

// lastLines is lastWords of a server whose log may still grow.
func (s *server) lastLines() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastWords()
}

// shuffled returns a copy of all in another order.
func shuffled[T any](rng *rand.Rand, all []T) []T {
	all = slices.Clone(all)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
