package main

import (
	"fmt"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// goal is a figure that kestrel is meant to reach.
type goal struct {
	what   string
	values []float64 // of each round
	most   bool      // the bound is an upper one
	bound  float64
	worst  bool // the worst round counts, not the median
}

// goals returns what is meant to be reached, of the rows that are measured.
func (t *table) goals() (list []goal) {
	if t.o.peers {
		const own, redis = "kestrel", "redis-everysec"
		if t.has(own) && t.has(redis) {
			list = append(list,
				goal{"fill, to " + redis, t.ratios(own, redis, (*sample).putRate), false, 2, false},
				goal{"drain, to " + redis, t.ratios(own, redis, (*sample).getRate), false, 1.5, false})
		}
		if t.has(own) {
			list = append(list,
				goal{"items lost by kill -9", t.over(own, (*sample).lostItems), true, 0, true})
		}
		return list
	}
	if t.o.backup {
		return t.backupGoals()
	}
	room := float64(t.o.memory)/(1<<20) + 64
	for _, name := range []string{rowBehind, rowKilled, rowNeighbour} {
		list = append(list, goal{"highest resident set, MiB, " + name, t.over(name, (*sample).peak),
			true, room, true})
	}
	for _, to := range []string{rowCycles, rowAll} {
		if !t.has(to) {
			continue
		}
		list = append(list,
			goal{"rate of puts in read-behind, to " + to,
				t.ratios(rowBehind, to, (*sample).putRate), false, 0.7, false},
			goal{"rate of gets in read-behind, to " + to,
				t.ratios(rowBehind, to, (*sample).getRate), false, 0.8, false},
			goal{"p99 of a get in read-behind, to " + to,
				t.ratios(rowBehind, to, (*sample).getP99), true, 2, false})
	}
	return append(list,
		goal{"from exec to the first item after kill -9, ms",
			t.over(rowKilled, (*sample).firstMillis), true, 250, true},
		goal{fmt.Sprintf("items of %d lost by kill -9", t.o.items()),
			t.over(rowKilled, (*sample).lostItems), true, 0, true},
		goal{"p99 of a neighbour's put while a queue spills, to quiet", t.toQuiet(spilling), true, 2,
			false},
		goal{"p99 of a neighbour's put while a queue drains, to quiet", t.toQuiet(draining), true, 2,
			false})
}

// writeGoals prints every goal, what was measured, and whether that reaches it.
func (t *table) writeGoals(b *strings.Builder) {
	var rows strings.Builder
	for _, g := range t.goals() {
		g.write(&rows)
	}
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n## Goals\n\n| figure | goal | measured | reached |\n|---|--:|--:|---|\n%s",
			rows.String())
	}
}

// reached reports whether what was measured is as it is meant to be, in every round.
func (g *goal) reached() bool {
	got := figures.Summarize(g.values)
	counts := got.Median
	switch {
	case g.worst && g.most:
		counts = got.Max
	case g.worst:
		counts = got.Min
	}
	return !g.failed() && (g.most && counts <= g.bound || !g.most && counts >= g.bound)
}

// failed reports whether a round was not measured.
func (g *goal) failed() bool {
	n := figures.Summarize(g.values).N
	return n < len(g.values) || n == 0
}

func (g *goal) write(b *strings.Builder) {
	got := figures.Summarize(g.values)
	sign := "≥"
	if g.most {
		sign = "≤"
	}
	verdict := "**NO**"
	switch {
	case g.failed():
		verdict = "**NO**, a round failed"
	case g.reached():
		verdict = "yes"
	}
	fmt.Fprintf(b, "| %s | %s %s | %s | %s |\n", g.what, sign, figures.Digits(g.bound), got, verdict)
}
