package scenario

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/testserver"
)

// TestOutage runs an outage against a real server's stand-in: everything that was put comes, and the lines say how
// many waited.
func TestOutage(t *testing.T) {
	s := testserver.New(t, nil)
	e, out := newEnv(s)
	e.Interval = 10 * time.Millisecond
	flow := Flow{Queue: "spam", Queues: 1, Size: 64, Producers: 2, Consumers: 2, Pipeline: 1, Rate: 1000}
	o := Outage{Flow: flow, Before: 100 * time.Millisecond, Outage: 100 * time.Millisecond, After: 300 * time.Millisecond}
	err := Run(context.Background(), e, o)
	unmeasured := err != nil && strings.HasPrefix(err.Error(), "nothing was measured") // a machine that stood still
	if err != nil && !unmeasured {
		t.Fatalf("Run = %v; it printed:\n%s", err, out)
	}
	for _, line := range []string{
		`(?m)^outage: 2 producers of 64 bytes, 2 consumers that are away for 100ms$`,
		`(?m)^Backlog: \d+ items when the consumers came back\.$`,
		`(?m)^Puts: \d+ a second before, \d+ during the drain, which is \d+\.\d+ of it\. Gets meanwhile: \d+ a second\.$`,
	} {
		if !unmeasured && !regexp.MustCompile(line).MatchString(out.String()) {
			t.Errorf("it printed:\n%s\nwant a match of %s", out, line)
		}
	}
	if c := e.Figures.Checked; !c.Verified || c.Lost != 0 || c.Put == 0 || c.Got != c.Put {
		t.Errorf("Checked = %+v", c)
	}
	var phases []string
	for _, p := range e.Figures.Phases {
		phases = append(phases, p.Name)
	}
	if got := strings.Join(phases, ","); got != "steady,outage,catch up" {
		t.Errorf("phases %s", got)
	}
}

// intervals returns intervals of one second with so many puts and gets, and so many items left at their ends.
func intervals(rows ...[3]int64) *figures.Phase {
	p := new(figures.Phase)
	for i, r := range rows {
		p.Intervals = append(p.Intervals, figures.Interval{
			Start: int64(i) * 1e9, Wall: 1e9, Server: &figures.Sample{Items: r[2]},
			Ops: []figures.IntervalOp{{Name: "put", Requests: r[0]}, {Name: "get", Requests: r[1]}},
		})
	}
	return p
}

// TestOutageJudged tests what is made of the figures of three phases: only what happened until the backlog was gone
// counts as the drain.
func TestOutageJudged(t *testing.T) {
	steady, away := intervals([3]int64{100, 100, 0}, [3]int64{100, 100, 0}), intervals([3]int64{100, 0, 100}, [3]int64{100, 0, 1000})
	for _, tt := range []struct {
		name string
		back *figures.Phase
		keep float64
		err  string
		says string
	}{
		{"kept", intervals([3]int64{95, 500, 500}, [3]int64{95, 600, 10}, [3]int64{10, 10, 0}), 0.9, "", "Drain: it took 2s."},
		{"lost", intervals([3]int64{80, 500, 500}, [3]int64{80, 600, 10}, [3]int64{100, 10, 0}), 0.9,
			"puts kept 0.800 of their rate while the backlog drained, want at least 0.9", "which is 0.800 of it"},
		{"any", intervals([3]int64{80, 500, 500}, [3]int64{80, 600, 10}), 0, "", "which is 0.800 of it"},
		{"not over", intervals([3]int64{95, 50, 955}, [3]int64{95, 50, 1000}), 0.9, "", "Drain: it was not over when the puts ended, after 4s."},
		{"nothing measured", intervals(), 0.9, "nothing was measured of the drain: make --outage longer, or --interval shorter", ""},
	} {
		e, out := newEnv(testserver.New(t, nil))
		e.Figures.Phases = []*figures.Phase{steady, away, tt.back}
		err := Outage{Before: 2 * time.Second, Outage: 2 * time.Second, After: 4 * time.Second, Keep: tt.keep}.judge(e)
		if got := errorText(err); got != tt.err || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: judge = %q, want %q; it printed:\n%s", tt.name, got, tt.err, out)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestOutageOptions tests that nonsense is refused, all of it at once.
func TestOutageOptions(t *testing.T) {
	err := Outage{Flow: Flow{Queues: 1, Producers: 1, Pipeline: 1}, Before: 1, Outage: -1, After: 1, Keep: 2}.Validate()
	for _, want := range []string{"consumers is 0, want at least 1", "outage -1ns", "keep is 2"} {
		if !strings.Contains(errorText(err), want) {
			t.Errorf("Validate = %v, want %q in it", err, want)
		}
	}
}
