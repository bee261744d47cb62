package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// killTrial kills the server at random moments while lanes of every protocol, policy and kind of
// queue work. It starts the server again on the same directory, and every lane compares what it
// finds with what it was promised. Some servers are killed while they start, some while everything
// is open.
//
// Every cycle is a kill of the process. What the kernel has been given stays, so that all policies
// promise the same: nothing that was acknowledged is lost, and nothing acknowledged is undone.
func killTrial(ctx context.Context, t *trial) error {
	lanes := standardLanes(t)
	expiring := newExpiringLane(t)
	how := launch{binary: t.binary, dir: t.dir, args: []string{"--config", "lab.toml"}}
	config := configOf(lanes) + expiring.config()
	if err := os.WriteFile(filepath.Join(t.dir, "lab.toml"), []byte(config), 0o600); err != nil {
		return err
	}
	for cycle := 0; t.more(ctx, cycle); cycle++ {
		if err := killCycle(ctx, t, how, lanes, expiring, cycle); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle, err)
		}
	}
	return ctx.Err()
}

func killCycle(
	ctx context.Context, t *trial, how launch, lanes []*lane, expiring *expiringLane, cycle int,
) error {
	rng := t.rng(cycle<<8 | 255)
	s, err := startBehindKill(ctx, t, how, rng, 5)
	if s == nil || err != nil {
		return err
	}
	defer s.kill()
	acknowledged := func(l *lane) int { return l.ackedBefore(time.Now()) }
	v, err := inspectAll(t, s, lanes, acknowledged)
	if err != nil {
		return err
	}
	if rng.IntN(4) == 0 { // everything is open, and must be back
		s.kill()
		t.counts.trials.Add(1)
		if s, err = startOrViolate(ctx, t, how); s == nil || err != nil {
			return err
		}
		defer s.kill()
		if v, err = inspectAll(t, s, lanes, acknowledged); err != nil {
			return err
		}
	}
	if err := v.c.end(); err != nil {
		return fmt.Errorf("end inspection: %w", err)
	}
	if err := expiring.inspect(s); err != nil {
		return err
	}
	if err := makeQueues(t, s, lanes); err != nil {
		return err
	}
	expiring.start(s, t.rng(cycle<<8|254))
	err = runLanes(t, s, lanes, cycle, until{replies: int64(20 + rng.IntN(3000))}, func() {
		s.kill()
		t.counts.trials.Add(1)
	})
	expiring.wait()
	return err
}

// startBehindKill starts a server as startOrViolate does. Once in oneIn times it first kills another one that starts.
func startBehindKill(ctx context.Context, t *trial, how launch, rng *rand.Rand, oneIn int) (*server, error) {
	if rng.IntN(oneIn) == 0 {
		if err := killStarting(ctx, t, how, rng); err != nil {
			return nil, err
		}
	}
	return startOrViolate(ctx, t, how)
}

// killStarting starts a server and kills it before, or just after, it is ready.
func killStarting(ctx context.Context, t *trial, how launch, rng *rand.Rand) error {
	s, err := how.spawn(ctx)
	if err != nil {
		return err
	}
	select {
	case <-s.exit:
		t.violate("the server does not start after a kill: %s", s.lastWords())
	case <-time.After(time.Duration(rng.IntN(25_000)) * time.Microsecond):
	}
	s.kill()
	t.counts.trials.Add(1)
	return nil
}

// startOrViolate starts a server. One that does not start has broken a promise; it returns nil.
func startOrViolate(ctx context.Context, t *trial, how launch) (*server, error) {
	s, err := how.start(ctx)
	if errors.Is(err, errEnded) && ctx.Err() == nil {
		t.violate("the server does not start after a crash: %v", err)
		return nil, nil
	}
	return s, err
}
