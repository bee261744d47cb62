package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/client"
)

const (
	gapProducers = 4
	gapBefore    = time.Second            // that producers have before a server fails
	gapAfter     = 4 * time.Second        // that they have from then on
	gapReply     = 800 * time.Millisecond // the client's ReplyTimeout: a producer waits no longer for a server that stops
)

// failure is something that happens to one of three servers.
type failure struct {
	name   string
	signal syscall.Signal // 0: nothing happens
	// What the worst round may have; zero: anything. Where nothing happens there is no goal: that shows the machine.
	slowest, longest time.Duration
}

// Goals of the design.
const (
	slowestAfterKill = 100 * time.Millisecond // put that is acknowledged
	longestGap       = time.Second            // of one producer
)

// gap is what producers noticed of a failure.
type gap struct {
	slowest time.Duration // put that was acknowledged
	longest time.Duration // in which one producer had no put acknowledged
	unknown int           // puts without an answer
	puts    int
}

// gaps prints what four producers, each with one put at a time, notice when one of three servers fails.
func (b *bench) gaps() error {
	program, err := filepath.Abs(b.program)
	if err != nil {
		return err
	}
	fmt.Printf("%d producers, 3 servers, replies within %v, %d rounds; medians, and the worst in brackets\n\n", gapProducers, gapReply, b.rounds)
	fmt.Println("| one server | slowest put that was acknowledged | longest time without one, of a producer | puts without an answer |\n" +
		"| --- | --: | --: | --: |")
	var missed error
	for _, f := range []failure{
		{"nothing happens", 0, 0, 0}, {"kill -9", syscall.SIGKILL, slowestAfterKill, longestGap},
		{"SIGTERM", syscall.SIGTERM, 0, longestGap}, {"SIGSTOP", syscall.SIGSTOP, 0, longestGap},
	} {
		var slowest, longest []time.Duration
		unknown := 0
		for range b.rounds {
			g, err := b.gap(program, f)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			slowest, longest = append(slowest, g.slowest), append(longest, g.longest)
			unknown += g.unknown
		}
		fmt.Printf("| %s | %s | %s | %.1f |\n", f.name, medianAndWorst(slowest), medianAndWorst(longest), float64(unknown)/float64(b.rounds))
		if f.slowest > 0 && slices.Max(slowest) >= f.slowest || f.longest > 0 && slices.Max(longest) > f.longest {
			missed = errors.Join(missed, fmt.Errorf("%w: %s", errMissed, f.name))
		}
	}
	return missed
}

func medianAndWorst(all []time.Duration) string {
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%.1f ms (%.1f)", ms(all[len(all)/2]), ms(all[len(all)-1]))
}

// gap starts servers and producers, and has one of the servers fail.
func (b *bench) gap(program string, f failure) (g gap, err error) {
	var servers []*server
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.Kill())
		}
	}()
	for range 3 {
		s, err := b.start(program)
		if err != nil {
			return g, err
		}
		servers = append(servers, s)
	}
	c, err := client.Dial(context.Background(), "", client.Options{
		Source: client.Static(servers[0].addr, servers[1].addr, servers[2].addr), ReplyTimeout: gapReply,
	})
	if err != nil {
		return g, err
	}
	defer c.Close()
	var (
		mu        sync.Mutex
		producing sync.WaitGroup
		refused   error
	)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for range gapProducers {
		producing.Go(func() {
			for last := time.Now(); ctx.Err() == nil; {
				began := time.Now()
				err := c.Put(context.Background(), "work", make([]byte, b.size), client.PutOptions{})
				now := time.Now()
				mu.Lock()
				switch {
				case err == nil:
					g.puts++
					g.slowest, g.longest = max(g.slowest, now.Sub(began)), max(g.longest, now.Sub(last))
					last = now
				case errors.Is(err, client.ErrUnknownOutcome):
					g.unknown++
				default:
					refused = err
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(gapBefore)
	if f.signal != 0 {
		err = syscall.Kill(servers[0].PID, f.signal)
	}
	time.Sleep(gapAfter)
	stop()
	producing.Wait()
	return g, errors.Join(err, refused)
}
