package plancmd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// TestPlan works a plan out by hand: 50,000 items of 2 KiB a second, and consumers that are away for two hours.
func TestPlan(t *testing.T) {
	l := load{rate: 50_000, size: 2048, outage: 2 * time.Hour, connections: 1000, processors: 8,
		costs: costs{10 * time.Microsecond, 10 * time.Microsecond, "by hand"}}
	p := l.plan()
	want := plan{
		busy: 1, servers: 1, backlog: 360e6, disk: 826848000000, memory: 64<<20 + 128<<20 + 2304000,
		gets: 590_000, drain: 666666666666,
	}
	if near := func(a, b float64) bool { return a/b > 0.999999 && a/b < 1.000001 }; !near(p.busy, want.busy) ||
		p.servers != want.servers || !near(p.backlog, want.backlog) || !near(float64(p.disk), float64(want.disk)) ||
		p.memory != want.memory || !near(p.gets, want.gets) || !near(float64(p.drain), float64(want.drain)) || p.never {
		t.Errorf("plan = %+v, want %+v", p, want)
	}
	l.processors, l.rate = 1, 200_000
	if p := l.plan(); p.servers != 8 || p.never {
		t.Errorf("four busy processors on servers of one: %+v, want 8 servers", p)
	}
	l.costs.put, l.rate, l.costs.get = 10*time.Microsecond, 40_000, 12*time.Microsecond
	l.processors = 2
	var out bytes.Buffer
	p = l.plan()
	p.never, p.gets = true, 30_000
	if p.write(&out, l); !strings.Contains(out.String(), "never") {
		t.Errorf("a drain without end:\n%s", &out)
	}
}

// TestPlanCommand tests the example of the help, and what is refused.
func TestPlanCommand(t *testing.T) {
	_, example, _ := strings.Cut(planPage, "$ kestrel plan ")
	example, _, _ = strings.Cut(example, "\n")
	for _, tt := range []struct{ args, want, err string }{
		{example, "drain        11m7s", ""},
		{"--rate 1.5M --size 64B --outage 1m --processors 64", "servers      1 ", ""},
		{"--rate many --size 1KiB --outage 1m", "", `--rate "many" is not a number`},
		{"--rate 5x --size 1KiB --outage 1m", "", `--rate "5x" is not a number`},
		{"--rate 5 --size big --outage 1m", "", `--size "big"`},
		{"--rate 5 --size 64MiB --outage 1m", "", `--size "64MiB"`},
		{"--rate 5 --size 1KiB", "", "--outage"},
	} {
		cmd := New()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(tt.args))
		err := cmd.Execute()
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("plan %s: %v, want %q", tt.args, err, tt.err)
		}
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("plan %s printed:\n%s\nwant %q in it", tt.args, &out, tt.want)
		}
	}
}

// TestCostsOf tests what is taken from the figures of a run.
func TestCostsOf(t *testing.T) {
	r := &figures.Run{Phases: []*figures.Phase{
		{Name: "put", Server: &figures.Usage{PerOpCPU: 7000}}, {Name: "get", Server: &figures.Usage{PerOpCPU: 5000}},
	}}
	if c, err := costsOf(r); err != nil || c.put != 7*time.Microsecond || c.get != 5*time.Microsecond {
		t.Errorf("costsOf = %+v, %v", c, err)
	}
	if _, err := costsOf(&figures.Run{Phases: r.Phases[:1]}); err == nil {
		t.Error("a run without gets has costs")
	}
}
