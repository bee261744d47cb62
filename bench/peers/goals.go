package main

import (
	"fmt"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// goal is a figure that kestrel is meant to reach.
type goal struct {
	cases  []benchCase
	what   string
	figure func(*sample) float64
	own    string      // the server
	peer   string      // the server it is divided by; empty: the figure itself counts
	peers  []benchCase // cases of the peer, if not the same
	most   bool        // the bound is an upper one
	bound  float64
}

// goals returns what is meant to be reached.
func goals() []goal {
	at := func(class class, kind kind, size, pipeline, queues int,
		connections ...int) (list []benchCase) {
		for _, c := range connections {
			list = append(list, benchCase{class, kind, size, c, pipeline, queues})
		}
		return list
	}
	both := func(size, pipeline int, connections ...int) []benchCase {
		return append(at(pageCache, set, size, pipeline, 1, connections...),
			at(pageCache, get, size, pipeline, 1, connections...)...)
	}
	const (
		mc, redis, always = "memcached", "redis-everysec", "redis-always"
		own, synced       = "kestrel", "kestrel-always"
		epoll             = "kestrel-epoll"
	)
	cpu, rate, p99 := (*sample).cpuPerOperation, (*sample).rate, (*sample).p99Micros
	many := append(at(syncAlways, set, 64, 1, 1, 16, 100), at(syncAlways, set, 1024, 1, 1, 16, 100)...)
	grows := at(pageCache, grow, 64, 32, 1, 16)
	floods := append(at(pageCache, flood, 64, 1, 1, 16), at(pageCache, flood, 64, 32, 1, 16)...)
	hundred, tenThousand := at(pageCache, crowd, 64, 1, 1, 100), at(pageCache, crowd, 64, 1, 1, 10_000)
	list := []goal{
		{both(64, 1, 16, 100, 1000), "CPU", cpu, own, mc, nil, true, 1},
		{both(64, 1, 1), "CPU", cpu, own, mc, nil, true, 1.2},
		{at(pageCache, set, 64, 32, 1, 1, 16, 100, 1000), "CPU", cpu, own, mc, nil, true, 0.45},
		{at(pageCache, get, 64, 32, 1, 1, 16, 100, 1000), "CPU", cpu, own, mc, nil, true, 0.4},
		{both(64, 1, 1, 16, 100), "CPU", cpu, own, epoll, nil, true, 1.05},
		{both(64, 32, 1, 16, 100), "CPU", cpu, own, epoll, nil, true, 1.05},
		{both(64, 1, 1, 16, 100), "CPU", cpu, own, own + "-before", nil, true, 1.02},
		{both(64, 32, 1, 16, 100), "CPU", cpu, own, own + "-before", nil, true, 1.02},
		{at(syncAlways, set, 64, 1, 1, 1, 16, 100), "CPU", cpu, synced, synced + "-before", nil, true, 1.02},
		{at(syncAlways, set, 64, 32, 1, 16), "CPU", cpu, synced, synced + "-before", nil, true, 1.02},
		{at(pageCache, waiters, 64, 1, 1, 500), "CPU", cpu, own, epoll, nil, true, 1.1},
		{both(64, 32, 1, 16, 100, 1000), "CPU", cpu, own, "memcached-default", nil, true, 0.4},
		{both(64, 32, 1, 16, 100, 1000), "rate", rate, own, redis, nil, false, 2.5},
		{both(1024, 32, 16), "rate", rate, own, redis, nil, false, 2},
		{grows, "CPU", cpu, own, mc, both(64, 32, 16)[:1], true, 0.4},
		{grows, "rate", rate, own, redis, nil, false, 2.5},
		{at(pageCache, grow, 1024, 32, 1, 16), "rate", rate, own, redis, nil, false, 2},
		{at(pageCache, grow, 1024, 32, 1, 1), "p99 µs", p99, own, "", nil, true, 2000},
		{at(pageCache, flood, 64, 1, 1, 16), "rate", rate, own, redis, nil, false, 1.3},
		{at(pageCache, flood, 64, 32, 1, 16), "rate", rate, own, redis, nil, false, 2},
		{floods, "p99", p99, own, redis, nil, true, 1},
		{at(pageCache, churn, 64, 1, 1, 16), "CPU", cpu, own, redis, nil, true, 0.9},
		{many, "rate", rate, synced, always, nil, false, 1.3},
		{at(syncAlways, set, 64, 32, 1, 16), "rate", rate, synced, always, nil, false, 1.5},
		{at(syncAlways, set, 64, 1, 1, 1), "rate", rate, synced, always, nil, false, 1.1},
		{at(syncAlways, set, 64, 1, 1000, 100), "rate", rate, synced, synced,
			at(syncAlways, set, 64, 1, 1, 100), false, 0.9},
		{tenThousand, "KiB/conn", (*sample).perClientKiB, own, "", nil, true, 8},
		{tenThousand, "rate", rate, own, own, hundred, false, 0.9},
		{at(pageCache, scaling, 64, 8, 2, 32), "CPU", cpu, "kestrel-loops2", "kestrel-loops1", nil, true,
			1.15},
	}
	for _, peer := range []string{redis, "beanstalkd"} {
		for _, q := range []struct {
			name   string
			figure func(*sample) float64
		}{{"p50", (*sample).p50Micros}, {"p99", p99}, {"p99.9", (*sample).p999Micros}} {
			list = append(list, goal{at(pageCache, waiters, 64, 1, 1, 500), q.name, q.figure, own, peer, nil,
				true, 1})
		}
	}
	return list
}

// writeGoals prints every goal whose figures were measured, and whether it is reached.
func writeGoals(w *strings.Builder, plan []planned, all results) {
	measured := make(map[string]bool)
	for _, p := range plan {
		measured[p.String()] = true
	}
	var rows strings.Builder
	for _, g := range goals() {
		for i, c := range g.cases {
			against := c
			if g.peers != nil {
				against = g.peers[i]
			}
			if measured[c.String()] && measured[against.String()] {
				g.write(&rows, c, against, all)
			}
		}
	}
	if rows.Len() > 0 {
		fmt.Fprintf(w, "\n## Goals\n\n| case | figure | of | to | goal | measured | reached |\n"+
			"|---|---|---|---|--:|--:|---|\n%s", rows.String())
	}
}

// write prints the row of a goal in one case.
func (g *goal) write(w *strings.Builder, c, against benchCase, all results) {
	own := over(all[c.String()][g.own], g.figure)
	got, peer := figures.Summarize(own), "–"
	if g.peer != "" {
		other := over(all[against.String()][g.peer], g.figure)
		got, peer = figures.Summarize(figures.Ratios(own, other)), g.peer
		if against != c {
			peer += ", " + against.name()
		}
	}
	if got.N == 0 {
		return // one of the two was not there
	}
	sign, reached := "≥", got.Median >= g.bound
	if g.most {
		sign, reached = "≤", got.Median <= g.bound
	}
	verdict := "yes"
	if !reached {
		verdict = "**no**"
	}
	fmt.Fprintf(w, "| %v %s | %s | %s | %s | %s %s | %s | %s |\n", c.class, c.name(), g.what, g.own,
		peer,
		sign, figures.Digits(g.bound), got, verdict)
}
