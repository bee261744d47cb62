package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// period is the sync period of lanes with a periodic policy.
const period = 50 * time.Millisecond

// policies are the values of sync_journal that lanes have.
func policies() []string { return []string{"always", period.String(), "never"} }

// standardLanes returns a lane for each protocol and policy, and those of fanout and aliases.
func standardLanes(t *trial) []*lane {
	var lanes []*lane
	for _, protocol := range []string{"memcache", "thrift", "text"} {
		for _, policy := range policies() {
			name := protocol + "-" + policy
			lanes = append(lanes, newLane(t, name, protocol, policy))
		}
	}
	for _, policy := range policies() {
		lanes = append(lanes, newFanoutLane(t, "fanout-"+policy, policy))
	}
	alias := newLane(t, "alias", "memcache", "always")
	alias.route("alias", [][]string{{"alias-1"}, {"alias-2"}})
	return append(lanes, alias)
}

// newFanoutLane returns a lane that puts to a queue with two children.
func newFanoutLane(t *trial, name, policy string) *lane {
	l := newLane(t, name, "memcache", policy)
	l.route(name, [][]string{{name, name + "+x", name + "+y"}})
	return l
}

// route makes all puts of the lane go to a name that leads to queues.
func (l *lane) route(target string, steps [][]string) {
	l.targets = []string{target}
	l.routes = map[string][][]string{target: steps}
	l.queues = slices.Concat(steps...)
	l.known = newModel(l.routes)
	l.base = l.known.clone()
}

// configOf is a configuration in which the queues of the lanes have their policies and the journal
// has many small segments.
func configOf(lanes []*lane) string {
	var b strings.Builder
	b.WriteString("segment_size = \"64KiB\"\njournal_size = \"1MiB\"\n")
	b.WriteString("max_open_transactions = 100000\n")
	for _, l := range lanes {
		for _, queue := range l.queues {
			fmt.Fprintf(&b, "[queues.%q]\nsync_journal = %q\n", queue, l.policy)
		}
		for target, steps := range l.routes {
			if !slices.Contains(l.queues, target) {
				fmt.Fprintf(&b, "[aliases.%q]\ndestination_queues = [", target)
				for _, name := range slices.Concat(steps...) {
					fmt.Fprintf(&b, "%q, ", name)
				}
				b.WriteString("]\n")
			}
		}
	}
	return b.String()
}

// makeQueues makes the queues of lanes that routes lead to: a put goes to the children that exist.
func makeQueues(t *trial, s *server, lanes []*lane) error {
	c, err := dial(s, "memcache")
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for _, l := range lanes {
		for _, queue := range l.queues {
			if len(l.routes) == 0 || l.known.queues[queue] != nil {
				continue
			}
			if _, err := c.ask(request{op: opGet, queue: queue, count: 1}, l.body); err != nil {
				return fmt.Errorf("make queue %s: %w", queue, err)
			}
		}
	}
	return nil
}

// until says when a crash is to come.
type until struct {
	replies int64         // so many have come
	after   time.Duration // or, if that is not zero, the lanes have worked for so long
}

// runLanes lets all lanes work until it is time, calls crash, and waits for the lanes to notice
// that their connections have ended.
func runLanes(t *trial, s *server, lanes []*lane, cycle int, when until, crash func()) error {
	var replies atomic.Int64
	reached := make(chan struct{})
	acked := func() {
		if replies.Add(1) == when.replies {
			close(reached)
		}
	}
	var running sync.WaitGroup
	for i, l := range lanes {
		rng := t.rng(cycle<<8 | i)
		running.Go(func() { l.run(s, rng, acked) })
	}
	idle := make(chan struct{})
	go func() { running.Wait(); close(idle) }()
	var err error
	select {
	case <-reached:
	case <-idle: // all of them were refused, or the server has died
	case <-time.After(cmp.Or(when.after, patience)):
		if when.after == 0 {
			err = fmt.Errorf("only %d replies of %d came", replies.Load(), when.replies)
		}
	}
	crash()
	running.Wait()
	return err
}
