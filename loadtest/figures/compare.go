package figures

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// A figure is one number of a phase that runs are compared by.
type figure struct {
	phase, kind, name string
	text              func(v float64) string
	whole             func(p *Phase) float64   // of a whole phase
	parts             func(p *Phase) []float64 // by full interval; nil if there is none
}

// Compare prints the median of each side for every figure that the first of the runs has, and its
// ratio to the first side. With it stands the interval that holds 95 % of the resampled ratios.
// Runs of the same name are rounds of one side. With one run on every side, the intervals of the
// run take the place of rounds. It returns an error if there is nothing to compare.
func Compare(w io.Writer, runs []*Run) error {
	sides := bySide(runs)
	if len(sides) < 2 {
		return errors.New("compare needs runs of at least two names; 'label' gives a run its name")
	}
	rounds := len(runs) > len(sides)
	var b strings.Builder
	fmt.Fprintf(&b, "reference: %s\n", describe(sides[0], rounds))
	for _, side := range sides[1:] {
		fmt.Fprintf(&b, "     with: %s\n", describe(side, rounds))
		for _, d := range differences(sides[0][0], side[0]) {
			fmt.Fprintf(&b, "           %s\n", d)
		}
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nphase\trequest\tfigure\trun\tmedian\tratio (95 %)\tsamples")
	for _, f := range figuresOf(sides[0][0]) {
		reference := f.samples(sides[0], rounds)
		for i, side := range sides {
			own := f.samples(side, rounds)
			s := Summarize(own)
			if s.N == 0 {
				continue
			}
			ratio := "1"
			if i > 0 {
				ratio = RatioOfMedians(own, reference).String()
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", f.phase, f.kind, f.name, side[0].Name(),
				f.text(s.Median), ratio, s.N)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// bySide gathers runs of the same name, in the order of their first.
func bySide(runs []*Run) [][]*Run {
	var sides [][]*Run
	places := make(map[string]int)
	for _, r := range runs {
		at, ok := places[r.Name()]
		if !ok {
			at = len(sides)
			places[r.Name()] = at
			sides = append(sides, nil)
		}
		sides[at] = append(sides[at], r)
	}
	return sides
}

// describe names a side and how many rounds of it there are.
func describe(side []*Run, rounds bool) string {
	r := side[0]
	text := fmt.Sprintf("%s: %s, seed %d, %s", r.Name(), r.Scenario, r.Seed,
		r.Started.Format("2006-01-02 15:04"))
	if rounds {
		text += fmt.Sprintf(", %d rounds", len(side))
	}
	if failed := len(failures(side)); failed > 0 {
		text += fmt.Sprintf(", %d FAILED", failed)
	}
	return text
}

func failures(side []*Run) (failed []*Run) {
	for _, r := range side {
		if r.Failure != "" {
			failed = append(failed, r)
		}
	}
	return failed
}

// differences lists how two runs differ besides their names; this may explain a ratio.
func differences(a, b *Run) (list []string) {
	note := func(what, x, y string) {
		if x != y {
			list = append(list, fmt.Sprintf("%s: %s, here %s", what, x, y))
		}
	}
	note("scenario", a.Scenario, b.Scenario)
	note("machine", a.Machine.String(), b.Machine.String())
	note("generator", a.Versions.Generator, b.Versions.Generator)
	for _, key := range sortedKeys(a.Options, b.Options) {
		if key != "server" && key != "output" && key != "label" && key != "seed" {
			note("option "+key, orNone(a.Options[key]), orNone(b.Options[key]))
		}
	}
	return list
}

// figuresOf returns what the phases of a run can be compared by.
func figuresOf(r *Run) (list []figure) {
	for _, p := range r.Phases {
		for _, op := range p.Ops {
			list = append(list, opFigures(p.Name, op.Name)...)
		}
		list = append(list, deliveryFigures(p.Name)...)
		list = append(list, figure{
			phase: p.Name, kind: "all", name: "server CPU/request", text: nanoseconds,
			whole: func(p *Phase) float64 {
				if p.Server == nil || p.Requests() == 0 {
					return math.NaN()
				}
				return float64(p.Server.CPU) / float64(p.Requests())
			},
		}, figure{
			phase: p.Name, kind: "all", name: "server resident", text: bytesText,
			whole: func(p *Phase) float64 {
				if p.Server == nil {
					return math.NaN()
				}
				return float64(p.Server.Peak)
			},
		})
	}
	return list
}

func opFigures(phase, kind string) []figure {
	list := []figure{{
		phase: phase, kind: kind, name: "rate/s", text: func(v float64) string {
			return Thousands(int64(v + 0.5))
		},
		whole: func(p *Phase) float64 {
			if op := p.Op(kind); op != nil {
				return op.Rate
			}
			return math.NaN()
		},
		parts: eachOp(kind, func(i Interval, op IntervalOp) float64 {
			return float64(op.Requests) / (float64(i.Wall) / 1e9)
		}),
	}}
	for _, q := range quantiles() {
		list = append(list, figure{
			phase: phase, kind: kind, name: q.name, text: nanoseconds,
			whole: func(p *Phase) float64 {
				if op := p.Op(kind); op != nil && op.Latency != nil {
					return q.whole(op.Latency)
				}
				return math.NaN()
			},
			parts: eachOp(kind, func(_ Interval, op IntervalOp) float64 { return q.part(op.Quantiles) }),
		})
	}
	return list
}

func deliveryFigures(phase string) (list []figure) {
	for _, q := range quantiles() {
		list = append(list, figure{
			phase: phase, kind: "delivery", name: q.name, text: nanoseconds,
			whole: func(p *Phase) float64 {
				if p.Delivery == nil {
					return math.NaN()
				}
				return q.whole(p.Delivery)
			},
			parts: func(p *Phase) (values []float64) {
				for _, i := range p.full() {
					if i.Delivery != nil {
						values = append(values, q.part(*i.Delivery))
					}
				}
				return values
			},
		})
	}
	return list
}

// quantile is a figure of a distribution, whole or of an interval.
type quantile struct {
	name  string
	whole func(*Latency) float64
	part  func(Quantiles) float64
}

func quantiles() []quantile {
	return []quantile{
		{"p50", func(l *Latency) float64 { return float64(l.P50) },
			func(q Quantiles) float64 { return float64(q.P50) }},
		{"p99", func(l *Latency) float64 { return float64(l.P99) },
			func(q Quantiles) float64 { return float64(q.P99) }},
		{"p99.9", func(l *Latency) float64 { return float64(l.P999) },
			func(q Quantiles) float64 { return float64(q.P999) }},
	}
}

// eachOp returns the function that gives a figure of one kind of request by interval.
func eachOp(kind string, f func(Interval, IntervalOp) float64) func(*Phase) []float64 {
	return func(p *Phase) (values []float64) {
		for _, i := range p.full() {
			for _, op := range i.Ops {
				if op.Name == kind {
					values = append(values, f(i, op))
				}
			}
		}
		return values
	}
}

// full returns the intervals without the last one, which is cut short.
func (p *Phase) full() []Interval {
	return p.Intervals[:max(len(p.Intervals)-1, 0)]
}

// samples returns the figure of each round of a side, or of each interval of its only one. A side
// without intervals, and a figure that intervals lack, has one sample.
func (f *figure) samples(side []*Run, rounds bool) (values []float64) {
	for _, r := range side {
		for _, p := range r.Phases {
			if p.Name != f.phase {
				continue
			}
			if !rounds && f.parts != nil {
				values = f.parts(p)
			}
			if len(values) == 0 || rounds {
				values = append(values, f.whole(p))
			}
		}
	}
	return values
}

func nanoseconds(v float64) string { return Duration(int64(v + 0.5)) }
func bytesText(v float64) string   { return Bytes(int64(v)) }

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// sortedKeys returns the keys of both maps.
func sortedKeys(a, b map[string]string) []string {
	keys := make(map[string]bool)
	for _, m := range []map[string]string{a, b} {
		for key := range m {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
