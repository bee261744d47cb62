package report

import (
	"math"
	"slices"
	"strconv"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// kinds returns the kinds of request of a run, in the order in which they come up.
func kinds(r *figures.Run) (list []string) {
	for _, p := range r.Phases {
		for _, i := range p.Intervals {
			for _, op := range i.Ops {
				if !slices.Contains(list, op.Name) {
					list = append(list, op.Name)
				}
			}
		}
	}
	return list
}

// minShare is how long the last interval of a phase must be, as a share of the one before it, to be drawn. A rate over
// a moment says little.
const minShare = 0.25

// shown returns the intervals of a phase that are drawn.
func shown(p *figures.Phase) []figures.Interval {
	n := len(p.Intervals)
	if n > 1 && float64(p.Intervals[n-1].Wall) < minShare*float64(p.Intervals[n-2].Wall) {
		n--
	}
	return p.Intervals[:n]
}

// The functions below are what is drawn of an interval.

func requestRate(i figures.Interval, op figures.IntervalOp) float64 {
	return float64(op.Requests) / (float64(i.Wall) / 1e9)
}

func intervalP50(_ figures.Interval, op figures.IntervalOp) float64 { return milliseconds(op.P50) }
func intervalP99(_ figures.Interval, op figures.IntervalOp) float64 { return milliseconds(op.P99) }

// eachInterval returns a figure of a kind of request over time.
func eachInterval(
	r *figures.Run, kind string, f func(figures.Interval, figures.IntervalOp) float64,
) (points []point) {
	for _, p := range r.Phases {
		for _, i := range shown(p) {
			for _, op := range i.Ops {
				if op.Name == kind && i.Wall > 0 {
					points = appendFinite(points, endOf(p, i), f(i, op))
				}
			}
		}
	}
	return points
}

// rates returns the requests of a kind a second, over time. Where there were none the rate is zero. A line from the
// last request before an outage to the first one after it would show requests that nobody made.
func rates(r *figures.Run, kind string) []point {
	return scaledRates(r, kind, func(*figures.Phase) float64 { return 1 })
}

// scaledRates is rates times what a request has in each phase.
func scaledRates(r *figures.Run, kind string, each func(*figures.Phase) float64) (points []point) {
	for _, p := range r.Phases {
		scale := each(p)
		for _, i := range shown(p) {
			if i.Wall <= 0 || len(i.Ops) == 0 {
				continue
			}
			rate := 0.0
			for _, op := range i.Ops {
				if op.Name == kind {
					rate += requestRate(i, op)
				}
			}
			points = appendFinite(points, endOf(p, i), rate*scale)
		}
	}
	return points
}

// phaseMarks returns where the phases of a run begin, if it has several. There are none in charts of several runs,
// which begin elsewhere in each.
func phaseMarks(runs []*figures.Run) (marks []mark) {
	if len(runs) != 1 || len(runs[0].Phases) < 2 || len(runs[0].Phases) > maxMarks {
		return nil
	}
	for _, p := range runs[0].Phases {
		marks = append(marks, mark{float64(p.Start) / 1e9, p.Name})
	}
	return marks
}

// payloadOf returns how many bytes of items a request of a kind carries in a phase, 0 if that is not known.
func payloadOf(r *figures.Run, p *figures.Phase, kind string) float64 {
	size, err := strconv.ParseInt(r.Options["bytes"], 10, 64)
	op := p.Op(kind)
	if err != nil || op == nil || op.Requests == 0 {
		return 0
	}
	return float64(size) * float64(op.Items) / float64(op.Requests)
}

// payloadRate returns the MiB of items a second that a kind of request carried, over time.
func payloadRate(r *figures.Run, kind string) []point {
	known := false
	for _, p := range r.Phases {
		known = known || payloadOf(r, p, kind) > 0
	}
	if !known {
		return nil
	}
	return scaledRates(r, kind, func(p *figures.Phase) float64 { return payloadOf(r, p, kind) / (1 << 20) })
}

// askedFor returns the rate that was asked for, from the beginning of each phase to its end.
func askedFor(r *figures.Run) (points []point) {
	for _, p := range r.Phases {
		if p.Target > 0 {
			points = append(points, point{float64(p.Start) / 1e9, p.Target}, point{float64(p.Start+p.Wall) / 1e9, p.Target})
		}
	}
	return points
}

// samples returns a figure of the server over time.
func samples(r *figures.Run, f func(*figures.Sample) float64) (points []point) {
	for _, p := range r.Phases {
		for _, i := range shown(p) {
			if i.Server != nil {
				points = appendFinite(points, endOf(p, i), f(i.Server))
			}
		}
	}
	return points
}

// busyCores returns how many processors the server kept busy from one sample to the next.
func busyCores(r *figures.Run) (points []point) {
	for _, p := range r.Phases {
		last, lastAt := int64(-1), 0.0
		for _, i := range shown(p) {
			if i.Server == nil || i.Server.CPU < 0 {
				continue
			}
			at := endOf(p, i)
			if last >= 0 && at > lastAt {
				points = appendFinite(points, at, float64(i.Server.CPU-last)/1e9/(at-lastAt))
			}
			last, lastAt = i.Server.CPU, at
		}
	}
	return points
}

// endOf returns when an interval ends, in seconds since its run began.
func endOf(p *figures.Phase, i figures.Interval) float64 {
	return float64(p.Start+i.Start+i.Wall) / 1e9
}

func appendFinite(points []point, x, y float64) []point {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return points
	}
	return append(points, point{x, y})
}

// byX returns points in the order of x.
func byX(points []point) []point {
	slices.SortFunc(points, func(a, b point) int {
		switch {
		case a.x < b.x:
			return -1
		case a.x > b.x:
			return 1
		}
		return 0
	})
	return points
}
