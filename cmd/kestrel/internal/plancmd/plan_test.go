package plancmd

import (
	"bytes"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

func TestMain(m *testing.M) { os.Exit(clitest.Main(m)) }

// TestPlan works a plan out by hand: 50,000 items of 2 KiB a second, and consumers that are away for two hours.
func TestPlan(t *testing.T) {
	l := load{rate: 50_000, size: 2048, outage: 2 * time.Hour, connections: 1000, processors: 8,
		costs: roundCosts}
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
	l.costs.fetch, l.rate, l.processors = 20*time.Microsecond, 40_000, 2
	if p := l.plan(); math.Round(p.gets) != 60_000 || p.servers != 1 {
		t.Errorf("items on disk cost twice as much: %+v, want 60,000 gets of one server", p)
	}
	var out bytes.Buffer
	p = l.plan()
	p.never, p.gets = true, 30_000
	if p.write(&out, l); !strings.Contains(out.String(), "30,000 gets a second are not more") {
		t.Errorf("a drain without end:\n%s", &out)
	}
}

// TestPlanCommand tests the example of the help, and what is refused.
func TestPlanCommand(t *testing.T) {
	_, example, _ := strings.Cut(planPage, "$ kestrel plan ")
	example, _, _ = strings.Cut(example, "\n")
	for _, tt := range []struct{ args, want, err string }{
		{example, "drain        11m7s             backlog / (gets − rate), with 590,000 gets a second: ", ""},
		{example, "\nbacklog      360,000,000 items ", ""},
		{"--rate 1.5M --size 64B --outage 1m --processors 64", "servers      1 ", ""},
		{"--rate many --size 1KiB --outage 1m", "", "such as 20000, 50k or 1.5M"},
		{"--rate 5x --size 1KiB --outage 1m", "", "such as 20000, 50k or 1.5M"},
		{"--size 1KiB --outage 1m", "", "--rate is missing"},
		{"--rate 5 --outage 1m", "", "--size is missing: how large"},
		{"--rate 5 --size big --outage 1m", "", `--size "big"`},
		{"--rate 5 --size 64MiB --outage 1m", "", `--size "64MiB"`},
		{"--rate 5 --size 1KiB", "", "--outage is missing"},
		{"--rate 5 --size 1KiB --outage 1m --connections 0", "", "--connections is a number above zero, and not 0"},
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

// TestCostsOf tests what is taken from the figures of the two runs.
func TestCostsOf(t *testing.T) {
	memory := &figures.Run{Phases: []*figures.Phase{
		{Name: "put", Server: &figures.Usage{PerOpCPU: 7000, AtStart: 30 << 20}}, {Name: "get", Server: &figures.Usage{PerOpCPU: 5000}},
	}}
	disk := &figures.Run{Phases: []*figures.Phase{
		{Name: "get", Wall: 5e8, Ops: []figures.Op{{Name: "get", Items: 1000}}, Server: &figures.Usage{PerOpCPU: 9000}},
	}}
	want := costs{7 * time.Microsecond, 5 * time.Microsecond, 9 * time.Microsecond, 30 << 20, 2048000, measured}
	if c, err := costsOf(memory, disk, 1024); err != nil || c != want {
		t.Errorf("costsOf = %+v, %v, want %+v", c, err, want)
	}
	var out bytes.Buffer
	l := load{rate: 100, size: 1024, outage: time.Hour, connections: 1, processors: 1, costs: want}
	l.plan().write(&out, l)
	for _, text := range []string{"get on disk  9µs", "30.0 MiB + max_memory_size", "disk writes  207.8 KiB/s", "it gave 2.0 MiB/s at least"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the plan has no %q:\n%s", text, &out)
		}
	}
	for _, runs := range [][2]*figures.Run{{disk, disk}, {memory, {}}, {{Phases: memory.Phases[:1]}, disk}} {
		if c, err := costsOf(runs[0], runs[1], 1024); err == nil {
			t.Errorf("runs without a phase cost %+v", c)
		}
	}
}

// TestEndToEndMeasureSignalled ends a plan that measures by a signal. It leaves no server and no file.
func TestEndToEndMeasureSignalled(t *testing.T) {
	for _, to := range []string{"the command", "its group, as a terminal does"} {
		cmd := clitest.Command(t, "plan", "--rate", "100", "--size", "64KiB", "--outage", "1m", "--measure")
		left := t.TempDir()
		cmd.Env = append(os.Environ(), "TMPDIR="+left)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for measuring := false; !measuring; measuring = len(names(t, left)) > 0 {
			<-time.After(time.Millisecond)
		}
		pid := cmd.Process.Pid
		if to != "the command" {
			pid = -pid
		}
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != cli.ExitFailed || out.String() != "kestrel: plan: interrupt signal received\n" {
			t.Errorf("a signal to %s: exit code %d, %s", to, code, &out)
		}
		if all := names(t, left); len(all) > 0 {
			t.Errorf("a signal to %s left %v", to, all)
		}
	}
}

// names returns the files of a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

// TestEndToEndMeasure has the built program measure: the plan says what was measured, and leaves no server and no file.
func TestEndToEndMeasure(t *testing.T) {
	cmd := clitest.Command(t, "plan", "--rate", "100", "--size", "64KiB", "--outage", "1m", "--measure")
	left := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+left)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("plan --measure: %v\n%s", err, out)
	}
	for _, text := range []string{measured, "likewise, from a backlog", "/s at least", " MiB + max_memory_size"} {
		if !strings.Contains(string(out), text) {
			t.Errorf("the plan has no %q:\n%s", text, out)
		}
	}
	if strings.Contains(string(out), "stated") {
		t.Errorf("a measured plan states costs:\n%s", out)
	}
	if names, err := os.ReadDir(left); err != nil || len(names) > 0 {
		t.Errorf("measuring left %v: %v", names, err)
	}
}
