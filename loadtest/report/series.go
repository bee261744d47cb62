package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// maxSeries bounds the curves of one chart; a reader cannot distinguish more.
const maxSeries = 12

// point is a point of a curve.
type point struct{ x, y float64 }

// series is a curve.
type series struct {
	name   string
	points []point
	dashed bool   // so that two curves in one place are both seen
	thing  string // what it is of, which has one colour in all charts; "": its name
	color  string // set by paint
}

// axis says what an axis shows.
type axis uint8

const (
	timeAxis       axis = iota // seconds
	percentileAxis             // 1/(1-quantile), logarithmic: 10 is 90 %, 100 is 99 %
	latencyAxis                // milliseconds, logarithmic
	rateAxis                   // per second
	countAxis
	mebibytesAxis
	coresAxis
)

// log reports whether the axis is logarithmic.
func (a axis) log() bool { return a == percentileAxis || a == latencyAxis }

// chart is curves with common axes.
type chart struct {
	title  string
	x, y   axis
	curves []series
	marks  []mark
	left   int // curves that there was no room for
}

// maxMarks bounds the marks of a chart: the names of more of them would meet.
const maxMarks = 6

// mark is a moment with a name, such as the beginning of a phase.
type mark struct {
	at   float64 // seconds
	name string
}

// drawings returns what is to be drawn of runs; a chart without a point is not among it.
func drawings(runs []*figures.Run) ([]chart, error) {
	list, err := percentileCharts(runs)
	if err != nil {
		return nil, err
	}
	list = append(list, rampChart(runs))
	list = append(list, overTime(runs)...)
	var drawn []chart
	for _, c := range list {
		c.curves = notEmpty(c.curves)
		if len(c.curves) > maxSeries {
			c.left = len(c.curves) - maxSeries
			c.curves = c.curves[:maxSeries]
		}
		if len(c.curves) > 0 {
			drawn = append(drawn, c)
		}
	}
	paint(drawn)
	return drawn, nil
}

// paint gives each thing one colour in all charts. Beyond as many things as there are colours, a curve takes the next
// colour that its chart has not used yet.
func paint(list []chart) {
	all := colors()
	places := make(map[string]int)
	for i := range list {
		owners := make(map[int]string)
		for j := range list[i].curves {
			s := &list[i].curves[j]
			thing := cmp.Or(s.thing, s.name)
			place, ok := places[thing]
			if !ok {
				place = len(places) % len(all)
				places[thing] = place
			}
			for owner, used := owners[place]; used && owner != thing && len(owners) < len(all); owner, used = owners[place] {
				place = (place + 1) % len(all)
			}
			owners[place] = thing
			s.color = all[place]
		}
	}
}

// colors returns the colours of the curves, in their order.
func (c *chart) colors() (list []string) {
	for _, s := range c.curves {
		list = append(list, s.color)
	}
	return list
}

func notEmpty(curves []series) (some []series) {
	for _, s := range curves {
		if len(s.points) > 0 {
			some = append(some, s)
		}
	}
	return some
}

// percentileCharts returns one chart for each kind of request, with a curve for each run and phase.
func percentileCharts(runs []*figures.Run) ([]chart, error) {
	var list []chart
	places := make(map[string]int)
	for _, r := range runs {
		for _, p := range r.Phases {
			for kind, l := range p.Latencies() {
				at, ok := places[kind]
				if !ok {
					at = len(list)
					places[kind] = at
					list = append(list, chart{title: percentileTitle(kind), x: percentileAxis, y: latencyAxis})
				}
				points, err := percentiles(l)
				if err != nil {
					return nil, fmt.Errorf("%s, phase %s, %s: %w", r.Name(), p.Name, kind, err)
				}
				list[at].curves = append(list[at].curves, series{name: curveName(runs, r, p, ""),
					points: points})
			}
		}
	}
	return list, nil
}

func percentileTitle(kind string) string {
	if kind == "delivery" {
		return "Age of items when delivered, by percentile"
	}
	return fmt.Sprintf("Latency of %s, by percentile", kind)
}

// curveName says what a curve is of, as far as the runs differ.
func curveName(runs []*figures.Run, r *figures.Run, p *figures.Phase, what string) string {
	var words []string
	if len(runs) > 1 {
		words = append(words, runName(runs, r))
	}
	if p != nil && len(r.Phases) > 1 || len(runs) == 1 && p != nil && what == "" {
		words = append(words, p.Name)
	}
	if what != "" {
		words = append(words, what)
	}
	return strings.Join(words, ", ")
}

// runName is a run's name, with its number among those of the same name if there are several.
func runName(runs []*figures.Run, r *figures.Run) string {
	number, count := 0, 0
	for _, other := range runs {
		if other.Name() == r.Name() {
			count++
			if other == r {
				number = count
			}
		}
	}
	if count > 1 {
		return fmt.Sprintf("%s #%d", r.Name(), number)
	}
	return r.Name()
}

// percentiles returns the points of a distribution, the last at its maximum.
func percentiles(l *figures.Latency) ([]point, error) {
	h, err := l.Decode()
	if err != nil {
		return nil, err
	}
	var points []point
	for _, b := range h.CumulativeDistributionWithTicks(4) {
		x := float64(h.TotalCount())
		if b.Quantile < 100 {
			x = min(1/(1-b.Quantile/100), x)
		}
		points = append(points, point{x, milliseconds(b.ValueAt)})
	}
	return points, nil
}

// milliseconds returns nanoseconds as milliseconds, at least one nanosecond: axes are logarithmic.
func milliseconds(ns int64) float64 { return float64(max(ns, 1)) / 1e6 }

// rampChart returns the latencies of phases with a rate asked for, against that rate.
func rampChart(runs []*figures.Run) chart {
	c := chart{title: "Latency against rate asked for", x: rateAxis, y: latencyAxis}
	for _, r := range runs {
		var p50, p99 []point
		for _, p := range r.Phases {
			if op := p.Op("put"); p.Target > 0 && op != nil && op.Latency != nil {
				p50 = append(p50, point{p.Target, milliseconds(op.Latency.P50)})
				p99 = append(p99, point{p.Target, milliseconds(op.Latency.P99)})
			}
		}
		if p50, p99 = byX(p50), byX(p99); len(p99) > 2 && p99[0].x < p99[len(p99)-1].x { // one rate makes no curve
			c.curves = append(c.curves,
				series{name: curveName(runs, r, nil, "put p50"), points: p50, dashed: true, thing: curveName(runs, r, nil, "put")},
				series{name: curveName(runs, r, nil, "put p99"), points: p99, thing: curveName(runs, r, nil, "put")})
		}
	}
	return c
}

// overTime returns the charts of what was seen in the intervals.
func overTime(runs []*figures.Run) []chart {
	rate := chart{title: "Requests a second", x: timeAxis, y: rateAxis}
	payload := chart{title: "MiB of items a second", x: timeAxis, y: mebibytesAxis}
	p99 := chart{title: "99th percentile over time", x: timeAxis, y: latencyAxis}
	p50 := chart{title: "Median over time", x: timeAxis, y: latencyAxis}
	depth := chart{title: "Items in the queues", x: timeAxis, y: countAxis}
	disk := chart{title: "On the server's disk", x: timeAxis, y: mebibytesAxis}
	memory := chart{title: "Memory of the server, resident", x: timeAxis, y: mebibytesAxis}
	cores := chart{title: "Processors that the server keeps busy", x: timeAxis, y: coresAxis}
	for _, r := range runs {
		for i, kind := range kinds(r) {
			name, odd := curveName(runs, r, nil, kind), i%2 == 1
			rate.curves = append(rate.curves, series{name: name, points: rates(r, kind), dashed: odd})
			payload.curves = append(payload.curves, series{name: name, points: payloadRate(r, kind), dashed: odd})
			p99.curves = append(p99.curves, series{name: name, points: eachInterval(r, kind, intervalP99), dashed: odd})
			p50.curves = append(p50.curves, series{name: name, points: eachInterval(r, kind, intervalP50), dashed: odd})
		}
		rate.curves = append(rate.curves,
			series{name: curveName(runs, r, nil, "asked for"), points: askedFor(r), dashed: true})
		disk.curves = append(disk.curves,
			series{name: curveName(runs, r, nil, "journal"), points: samples(r, func(s *figures.Sample) float64 {
				return known(s.JournalBytes) / (1 << 20)
			})},
			series{name: curveName(runs, r, nil, "items on disk alone"), points: samples(r, func(s *figures.Sample) float64 {
				return (known(s.Bytes) - known(s.MemBytes)) / (1 << 20)
			})})
		name := curveName(runs, r, nil, "server")
		depth.curves = append(depth.curves, series{name: name, points: samples(r, func(s *figures.Sample) float64 {
			return known(s.Items)
		})})
		memory.curves = append(memory.curves, series{name: name, points: samples(r, func(s *figures.Sample) float64 {
			return known(s.Resident) / (1 << 20)
		})})
		cores.curves = append(cores.curves, series{name: name, points: busyCores(r)})
	}
	list := []chart{rate, payload, p99, p50, depth, disk, memory, cores}
	for i := range list {
		list[i].marks = phaseMarks(runs)
	}
	return list
}

// known returns a figure of a sample, or what is not a number if the server does not tell it.
func known(n int64) float64 {
	if n < 0 {
		return math.NaN()
	}
	return float64(n)
}

// colors returns the curves' colours, which differ also to the colour-blind, and stand out from
// black as well as from white.
func colors() []string {
	return []string{"#3b7dd8", "#e08a00", "#1fa179", "#d1495b", "#9467bd", "#8c6d46", "#d977b0",
		"#7a8793",
		"#a3a10b", "#17a2c6", "#5b5fc7", "#b5651d"}
}
