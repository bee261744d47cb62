package scenario

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEnv returns where a scenario runs against a server, and what it prints there.
func newEnv(s *testserver.Server) (*Env, *strings.Builder) {
	out := new(strings.Builder)
	return &Env{
		Server:  s.Addr(),
		Out:     out,
		Figures: new(figures.Run),
		Seed:    5,
		Verify:  true,
		Flush:   true,
		Timeout: 20 * time.Second,
	}, out
}

const (
	finished = `Finished in \d+ msec \(\d+\.\d usec/put throughput\)\.`
	spread   = `Distribution in usec: min=\d+ max=\d+ p50=\d+ p75=\d+ p90=\d+ p95=\d+ p99=\d+ p999=\d+ ` +
		`p9999=\d+`
)

// TestDial has a server that comes late. Dial says at once that it waits, and why, and what else is wrong ends it at once.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	said := 0
	e := &Env{Waits: func(why error, most time.Duration) {
		said++
		if l, err = net.Listen("tcp", addr); err != nil || !errors.Is(why, syscall.ECONNREFUSED) || most != dialWait {
			t.Errorf("Waits has %v and %v; then Listen = %v", why, most, err)
		}
	}}
	c, err := e.dial(t.Context(), addr, loadtest.Memcache)
	if err != nil || said != 1 {
		t.Fatalf("dial = %v and says %d times that it waits, want nil and once", err, said)
	}
	c.close()
	l.Close()
	if _, err := e.dial(t.Context(), "127.0.0.1:99999", loadtest.Memcache); err == nil || said != 1 {
		t.Errorf("dial = %v, and says %d times that it waits, want an error at once", err, said)
	}
}

// TestSilentServer has a server take connections and answer nothing. A run ends when its time is over.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := &Env{Server: l.Addr().String(), Figures: new(figures.Run), Timeout: 50 * time.Millisecond}
	began := time.Now()
	err = Run(t.Context(), e, PutMany{Clients: 1, Items: 1, Size: 64, Burst: 1, Queue: "spam", Queues: 1})
	if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "did not end within 50ms") || strings.Contains(err.Error(), "closed network") || took > controlWait/2 {
		t.Errorf("Run = %v after %v, want an error after 50ms", err, took)
	}
}

// TestScenarios runs every scenario as a whole and checks what it prints, line by line, and counts.
func TestScenarios(t *testing.T) {
	flow := Flow{Queue: "spam", Queues: 1, Size: 64, Producers: 2, Consumers: 2, Pipeline: 1}
	crowd := with(flow, 100)
	crowd.Producers = 10
	for _, tt := range []struct {
		scenario Scenario
		thrift   bool
		want     []string // lines, as regular expressions
		put, got int64
		phases   string
	}{
		{PutMany{Clients: 3, Items: 100, Size: 1024, Burst: 5, Queue: "spam", Queues: 2, Get: true},
			false,
			[]string{
				`Put 100 items of 1024 bytes in bursts of 5 to HOST in 2 queues named spam using 3 clients\.`,
				finished, spread,
				`Get 100 items of 1024 bytes in batches of 5 from HOST in 2 queues named spam using 3 clients\.`,
				finished, spread,
			}, 90, 90, "put,get"},
		{PutMany{Clients: 3, Items: 100, Size: 64, Burst: 5, Queue: "spam", Queues: 1, Get: true}, true,
			[]string{
				`Put 100 items of 64 bytes in bursts of 5 to HOST in 1 queues named spam using 3 clients\.`,
				finished, spread,
				`Get 100 items of 64 bytes in batches of 5 from HOST in 1 queues named spam using 3 clients\.`,
				finished, spread,
			}, 90, 90, "put,get"},
		{ManyClients{Sleep: time.Millisecond, Items: 20, Size: 64, Queue: "spam", Clients: 3}, false,
			[]string{
				`many-clients: 20 items to HOST using 3 clients, kill rate 0%, at 1 msec/item`,
				`Received 20 items in \d+ msec\.`,
			}, 20, 20, "put and get"},
		{ManyClients{Items: 20, Size: 64, Queue: "spam", Clients: 3, Kill: 30}, false, []string{
			`many-clients: 20 items to HOST using 3 clients, kill rate 30%, at 0 msec/item`,
			`Received \d+ items in \d+ msec\.`,
		}, 20, -1, "put and get"},
		{Flood{Items: 101, Size: 1024, Queue: "spam", Prefill: 10, Producers: 2, Consumers: 3, Rollup: 1},
			false, []string{
				`prefill: 10 items of 1kB`,
				`flood: producers=2 each sending 51 items \(in chunks of 1\) of 1kB to spam`,
				`flood: consumers=3 each reading 33 items \(in chunks of 1\) from spam`,
				finished, `Consumer\(s\) spun \d+ times in misses\.`,
			}, 112, 99, "prefill,flood"},
		{Flood{Items: 100, Size: 1024, Queue: "spam", Producers: 2, Consumers: 2, Rollup: 10}, false,
			[]string{
				`flood: producers=2 each sending 50 items \(in chunks of 10\) of 1kB to spam`,
				`flood: consumers=2 each reading 50 items \(in chunks of 10\) from spam`,
				finished, `Consumer\(s\) spun \d+ times in misses\.`,
			}, 100, 100, "flood"},
		{Packing{Queue: "spam", Items: 50, Size: 1024, Cycles: 2}, false, []string{
			`packing: 50 items of 1kB with 0 second pauses`,
			`Wrote 50 items starting at 0\.`,
			`cycle: 1`, `Wrote 50 items starting at 50\.`,
			`Read 50 items in \d+ msec\. Consumer spun \d+ times in misses\.`,
			`cycle: 2`, `Wrote 50 items starting at 100\.`,
			`Read 50 items in \d+ msec\. Consumer spun \d+ times in misses\.`,
			`Read 50 items in \d+ msec\. Consumer spun 0 times in misses\.`,
		}, 150, 150, "ahead,cycle 1,cycle 2,rest"},
		{LeakyReader{Items: 1500, Rate: 0.05, Queue: "spam", Threads: 2}, true, []string{
			`leaky-reader: 2 threads each sending 1500 items through spam`, `1000`, finished,
			`Completed all reads`,
		}, 1500, -1, "put and get"},
		{OpenLoop{Flow: with(flow, 2000), Duration: 50 * time.Millisecond}, false, []string{
			`open-loop: 2000 puts a second of 64 bytes for 50ms to HOST: 2 producers, 2 consumers`,
		}, -1, -1, "load"},
		{Ramp{Flow: crowd, P99: time.Minute, Step: 30 * time.Millisecond, Max: 200, Accuracy: 0.5},
			false, []string{
				`ramp: the highest rate .* to HOST with p99 within 1m0s: 10 producers, 2 consumers`,
				` +100/s: p99 .*, \d+ of 3 sent: held`, ` +200/s: p99 .*, \d+ of 6 sent: held`,
				`Held 200 puts a second\.`,
			}, -1, -1, "100/s,200/s"},
		{Mixed{Flows: []Flow{flow, {Queue: "eggs", Queues: 2, Size: 300, Producers: 2, Consumers: 2,
			Pipeline: 3, Reliable: true, Reconnect: 7}}, Items: 60}, false, []string{
			`mixed: 1 queues named spam, 64 bytes, 2 producers, 2 consumers`,
			`mixed: 2 queues named eggs, 300 bytes, 2 producers, 2 consumers`,
		}, 120, 120, "mixed"},
		{Soak{Flow: with(flow, 1000), Duration: 50 * time.Millisecond}, false, []string{
			`soak: 1000 puts a second of 64 bytes for 50ms to HOST in 1 queues: 2 producers, 2 consumers`,
		}, -1, -1, "soak"},
	} {
		t.Run(tt.scenario.Name(), func(t *testing.T) {
			s := testserver.New(t, nil)
			if tt.thrift {
				s = testserver.NewThrift(t, true)
			}
			e, out := newEnv(s)
			if tt.thrift {
				e.Protocol, e.ClientID = loadtest.Thrift, "load-test"
			}
			if err := Run(context.Background(), e, tt.scenario); err != nil {
				t.Fatalf("Run = %v; it printed:\n%s", err, out)
			}
			want := "^Flushing queues first\\.\n" + strings.Join(tt.want, "\n") + "\n$"
			want = strings.ReplaceAll(want, "HOST", regexp.QuoteMeta(s.Addr()))
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("it printed:\n%s\nwant a match of\n%s", out, want)
			}
			c := e.Figures.Checked
			if !c.Verified || c.Lost != 0 || tt.put >= 0 && c.Put != tt.put || tt.got >= 0 &&
				c.Got != tt.got ||
				c.Put == 0 || c.Got == 0 {
				t.Errorf("Checked = %+v, want %d put and %d got", c, tt.put, tt.got)
			}
			var phases []string
			for _, p := range e.Figures.Phases {
				phases = append(phases, p.Name)
				if len(p.Ops) == 0 || p.Wall <= 0 || len(p.Intervals) == 0 || p.Generator.ThreadCPU <= 0 {
					t.Errorf("phase %q lacks figures: %+v", p.Name, p)
				}
			}
			if got := strings.Join(phases, ","); got != tt.phases {
				t.Errorf("phases %s, want %s", got, tt.phases)
			}
			if e.Figures.Versions.Server != "test" || e.Figures.Failure != "" {
				t.Errorf("version %q, failure %q", e.Figures.Versions.Server, e.Figures.Failure)
			}
		})
	}
}

func with(f Flow, rate float64) Flow {
	f.Rate = rate
	return f
}

// TestFanout gives the children what their parent gets, which the test server does not by itself.
func TestFanout(t *testing.T) {
	s := testserver.New(t, nil)
	s.SetTamper(func(_ int, reply string) (string, bool) {
		if reply == "STORED\r\n" {
			s.Put("spam+0", s.Last("spam"))
			s.Put("spam+1", s.Last("spam"))
		}
		return reply, true
	})
	e, out := newEnv(s)
	err := Run(context.Background(), e, Fanout{Items: 40, Children: 2, Flow: Flow{
		Queue: "spam", Queues: 1, Size: 64, Producers: 1, Consumers: 1, Pipeline: 1}})
	if err != nil || !strings.Contains(out.String(), "Put 40 items, got 120.") {
		t.Errorf("Run = %v; it printed:\n%s", err, out)
	}
}

// TestQueuesNotEmpty tests that a scenario destroys nobody's items, unless it is to.
func TestQueuesNotEmpty(t *testing.T) {
	for _, protocol := range []loadtest.Protocol{loadtest.Memcache, loadtest.Thrift} {
		t.Run(protocol.String(), func(t *testing.T) {
			s := testserver.New(t, nil)
			if protocol == loadtest.Thrift {
				s = testserver.NewThrift(t, false)
			}
			puts := PutMany{Clients: 1, Items: 10, Size: 64, Burst: 1, Queue: "spam", Queues: 2}
			taken := puts.queues()[1]
			for range 3 {
				s.Put(taken, "somebody's")
			}
			e, _ := newEnv(s)
			e.Protocol, e.Flush = protocol, false
			err := Run(context.Background(), e, puts)
			var full *NotEmptyError
			if !errors.As(err, &full) || *full != (NotEmptyError{taken, 3}) {
				t.Errorf("Run on a queue of 3 items = %v, want an error that says so", err)
			}
			if n := s.Depth(); n != 3 {
				t.Errorf("the queues hold %d items afterwards, want the 3 from before", n)
			}
			e.Flush = true
			if err := Run(context.Background(), e, puts); err != nil || s.Depth() != 10 {
				t.Errorf("Run that flushes = %v, and %d items are there, want 10", err, s.Depth())
			}
		})
	}
}

// TestFailures runs scenarios against servers that break a promise, and scenarios that make no
// sense. The error says what is wrong, and is in the figures.
func TestFailures(t *testing.T) {
	damage := func(n int, reply string) (string, bool) {
		if n > 30 {
			reply = strings.Replace(reply, "abc", "abd", 1)
		}
		return reply, true
	}
	refuse := func(n int, reply string) (string, bool) {
		if n == 30 {
			return "SERVER_ERROR full\r\n", false
		}
		return reply, true
	}
	flow := Flow{Queue: "spam", Queues: 1, Size: 64, Producers: 1, Consumers: 1, Pipeline: 1}
	for _, tt := range []struct {
		name     string
		tamper   func(int, string) (string, bool)
		scenario Scenario
		change   func(*Env)
		want     string
	}{
		{"damaged item", damage, PutMany{Clients: 1, Items: 50, Size: 99, Burst: 1, Queue: "q", Queues: 1,
			Get: true}, nil, `get: loadtest: queue "q", GET connection 0, request 0 of its batch: damaged`},
		{"refused put", refuse, PutMany{Clients: 1, Items: 50, Size: 64, Burst: 1, Queue: "q", Queues: 1},
			nil, `SERVER_ERROR full`},
		{"too small to verify", nil, PutMany{Clients: 1, Items: 50, Size: 9, Burst: 1, Queue: "q",
			Queues: 1}, nil, "want at least 34 to verify"},
		{"no items for a client", nil, PutMany{Clients: 9, Items: 8, Size: 64, Burst: 1, Queue: "q",
			Queues: 1}, nil, "8 items are less than a burst of 1 for each of 9 clients"},
		{"more to read than is put", nil, Flood{Items: 10, Producers: 1, Consumers: 4, Rollup: 4,
			Queue: "q",
			Size:  64}, nil, "would read 16 items in chunks of 4, but only 12 are put"},
		{"a rate too high from the start", nil, Ramp{Flow: with(flow, 100), P99: 1,
			Step: 50 * time.Millisecond,
			Max:  200, Accuracy: 0.1}, nil, "p99 is above 1ns already at 100 puts a second"},
		{"leaky reader of memcache", nil, LeakyReader{Items: 1, Threads: 1, Queue: "q"}, nil,
			"speaks Thrift only"},
		{"soak without a process", nil, Soak{Flow: flow, Duration: 1, MaxGrowth: 0.1}, nil,
			"cannot be watched"},
		{"consumers without verification", nil, OpenLoop{Flow: with(flow, 1), Duration: 1},
			func(e *Env) { e.Verify = false }, "consumers need verification"},
		{"mixed twice", nil, Mixed{Flows: []Flow{flow, flow}, Items: 1}, nil,
			`flow 2: queue "spam" belongs to another flow`},
		{"nobody there", nil, PutMany{Clients: 1, Items: 1, Size: 64, Burst: 1, Queue: "q", Queues: 1},
			func(e *Env) {
				e.Server, e.Timeout = "127.0.0.1:1",
					10*time.Millisecond
			}, "did not end within 10ms"},
	} {
		e, out := newEnv(testserver.New(t, tt.tamper))
		if tt.change != nil {
			tt.change(e)
		}
		err := Run(context.Background(), e, tt.scenario)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q; it printed:\n%s", tt.name, err, tt.want, out)
			continue
		}
		if e.Figures.Failure != err.Error() {
			t.Errorf("%s: the figures say %q, want %q", tt.name, e.Figures.Failure, err)
		}
	}
}

// TestSearch checks where the search for a rate ends, for limits in and out of its range.
func TestSearch(t *testing.T) {
	for _, tt := range []struct{ capacity, want float64 }{
		{50, 0}, {100, 100}, {150, 150}, {999, 950}, {1000, 1000}, {5000, 1000},
	} {
		tried := 0
		got, err := search(100, 1000, 0.05, func(rate float64) (bool, error) {
			tried++
			return rate <= tt.capacity, nil
		})
		if err != nil || got != tt.want || tried > 12 {
			t.Errorf("search with a capacity of %v = %v, %v after %d steps, want %v", tt.capacity, got, err,
				tried, tt.want)
		}
	}
}

// TestBottleneck checks when the generator is said to have shaped the figures.
func TestBottleneck(t *testing.T) {
	at := func(p99 int64) *figures.Latency { return &figures.Latency{P99: p99} }
	for _, tt := range []struct {
		name  string
		phase figures.Phase
		want  string // in the only note, or no note
	}{
		{"both idle", figures.Phase{Generator: figures.Generator{Busy: 0.5}}, ""},
		{"server busy", figures.Phase{Generator: figures.Generator{Busy: 0.99},
			Server: &figures.Usage{CPU: 97e7, Processor: 1}}, ""},
		{"generator busy", figures.Phase{Generator: figures.Generator{Busy: 0.99},
			Server: &figures.Usage{CPU: 60e7, Processor: 1}}, "the generator was the bottleneck"},
		{"generator busy, server unknown", figures.Phase{Generator: figures.Generator{Busy: 0.99}},
			"may have been the bottleneck"},
		{"late", figures.Phase{Lag: at(300), Ops: []figures.Op{{Name: "put", Latency: at(1000)}}},
			"the generator was late"},
		{"on time", figures.Phase{Lag: at(100), Ops: []figures.Op{{Name: "put", Latency: at(1000)}}}, ""},
		{"overloaded", figures.Phase{Lag: at(1), Unsent: 5000}, "5,000 requests were due and never sent"},
	} {
		e := &Env{Figures: new(figures.Run)}
		tt.phase.Wall = 1e9
		e.noteBottleneck(&tt.phase)
		got := strings.Join(e.Figures.Notes, "; ")
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestProgress checks what is said while a phase runs.
func TestProgress(t *testing.T) {
	e, _ := newEnv(testserver.New(t, nil))
	e.Interval = 40 * time.Millisecond
	var seen []Progress
	e.Progress = func(p Progress) { seen = append(seen, p) }
	err := Run(context.Background(), e, OpenLoop{Duration: 150 * time.Millisecond, Flow: Flow{
		Queue: "q", Queues: 1, Size: 64, Producers: 1, Pipeline: 1, Rate: 500}})
	if err != nil || len(seen) < 3 {
		t.Fatalf("Run = %v with %d reports, want at least 3", err, len(seen))
	}
	first, last := seen[0], seen[len(seen)-1]
	if first.Phase != "load" || first.Rate <= 0 || first.Remaining <= last.Remaining ||
		first.Elapsed >= last.Elapsed || last.Depth <= 0 {
		t.Errorf("progress from %+v to %+v", first, last)
	}
}

// TestSignal has a signal end a run. The error is the signal alone, and a table of nothing has no head.
func TestSignal(t *testing.T) {
	s := testserver.New(t, nil)
	e, out := newEnv(s)
	ctx, signal := context.WithCancelCause(t.Context())
	come := errors.New("a signal came")
	e.Progress = func(Progress) { signal(come) }
	e.Interval = 20 * time.Millisecond
	err := Run(ctx, e, OpenLoop{Flow: Flow{Queue: "spam", Queues: 1, Size: 64, Producers: 1, Consumers: 1, Pipeline: 1, Rate: 100}, Duration: time.Hour})
	if err != come {
		t.Errorf("Run = %v, want %v", err, come)
	}
	if err := (&figures.Run{Phases: []*figures.Phase{{Name: "load"}}}).WriteTable(out); err != nil || strings.Contains(out.String(), "p99") {
		t.Errorf("the table of nothing is %v\n%s", err, out)
	}
}
