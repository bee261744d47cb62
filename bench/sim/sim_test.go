package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// isSample reports whether `make test` runs, and not CI: of what is long even with -short, it runs a sample.
func isSample() bool { return testing.Short() && os.Getenv("KESTREL_CI") == "" }

// TestSim simulates some seeds; make sim goes on for ten minutes.
func TestSim(t *testing.T) {
	var out bytes.Buffer
	n := 16
	switch {
	case isSample():
		n = 2
	case testing.Short():
		n = 4
	}
	o := options{limit: time.Minute, seed: 9, step: 1, n: n, workers: 2, shortens: true, dir: t.TempDir()}
	failed, err := o.run(t.Context(), &out)
	if err != nil || failed {
		t.Errorf("%v\n%s", err, &out)
	}
}

// A seed makes the same script every time, and a script can be written and read.
func TestScript(t *testing.T) {
	s := newScript(7)
	o := options{dir: t.TempDir()}
	name, err := o.save(s, "")
	if err != nil {
		t.Fatal(err)
	}
	o.file = name
	again, err := o.load(0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", newScript(7)); got != want {
		t.Errorf("script read again:\n%.500s\nwant\n%.500s", got, want)
	}
}

// Some seeds are chains: about a hundred short processes.
func TestChain(t *testing.T) {
	chains, seeds, least := 0, uint64(900), 3
	if isSample() {
		seeds, least = 300, 1
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		s := newScript(seed)
		if n := len(s.Phases); isChain(seed) != (n > 15) || n > 15 && (n < 90 || n > 110) {
			t.Errorf("seed %d has %d processes; chain: %t", seed, n, isChain(seed))
		}
		if !isChain(seed) {
			continue
		}
		chains++
		for i, p := range s.Phases {
			if p.Length > time.Second/2 || len(p.Clients) == 0 || len(p.Clients) > chainClients {
				t.Errorf("process %d of seed %d takes %v and has %d clients", i, seed, p.Length, len(p.Clients))
			}
		}
	}
	if chains < least {
		t.Errorf("%d of %d seeds are chains, want %d at least", chains, seeds, least)
	}
}

// A script is made as short as its failure allows.
func TestWithFewer(t *testing.T) {
	s := Script{Phases: []Phase{{Clients: []Client{{Ops: make([]Op, 100)}}}}}
	for i := range s.Phases[0].Clients[0].Ops {
		s.Phases[0].Clients[0].Ops[i].N = i
	}
	ops := func(s *Script) *[]Op { return &s.Phases[0].Clients[0].Ops }
	short := withFewer(s, func(s Script) bool {
		has := func(n int) bool { return slices.ContainsFunc(*ops(&s), func(op Op) bool { return op.N == n }) }
		return has(17) && has(80)
	}, ops)
	if got := *ops(&short); len(got) != 2 || got[0].N != 17 || got[1].N != 80 {
		t.Errorf("shortened to %v, want 17 and 80", got)
	}
	if len(*ops(&s)) != 100 {
		t.Error("the script itself was changed")
	}
}

// A worker that dies of a seed is a failure of that seed, and the next one goes on.
func TestWorkerDies(t *testing.T) {
	name := t.TempDir() + "/worker"
	script := "#!/bin/sh\necho '{\"Begin\":'$4'}' >&3\necho 'fatal error: all goroutines are asleep' >&2\nexit 2\n"
	if err := os.WriteFile(name, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var seeds []uint64
	p := &program{path: name}
	err := p.simulate(context.Background(), options{limit: time.Minute, seed: 5, step: 2, n: 3}, nil, func(r report) bool {
		seeds = append(seeds, r.Seed)
		if r.Problems[0].Law != "crash" || !strings.Contains(r.Problems[0].Text, "asleep") {
			t.Errorf("report %v, want a crash", r)
		}
		return true
	})
	if err != nil || !slices.Equal(seeds, []uint64{5, 7, 9}) {
		t.Errorf("seeds %v, error %v; want 5, 7 and 9", seeds, err)
	}
}

// Processes at the same time share the seeds that -seed, -step and -n name: each seed is simulated once.
func TestShareSeeds(t *testing.T) {
	for _, o := range []options{
		{seed: 5, step: 1, n: 7, workers: 3}, {seed: 5, step: 10, n: 7, workers: 3}, {seed: 9, step: 4, n: 2, workers: 2},
	} {
		var want, got []uint64
		for i := range uint64(o.n) {
			want = append(want, o.seed+i*o.step)
		}
		for i := range o.workers {
			mine := o.share(i)
			for i := range uint64(mine.n) {
				got = append(got, mine.seed+i*mine.step)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%d processes take the seeds %d, want %d", o.workers, got, want)
		}
	}
}

// A failure is of the same kind as another if the law is, and the reason.
func TestProblemKind(t *testing.T) {
	missing := problem{"start", "open log: queue 7: 0000000012.run: no such file"}
	for _, tt := range []struct {
		p    problem
		same bool
	}{
		{problem{"start", "open log: queue 9: 0000000001.run: no such file"}, true},
		{problem{"start", "open log: queue 9 has 3 items but no name"}, false},
		{problem{"stop", "open log: no such file"}, false},
	} {
		if same := tt.p.kind() == missing.kind(); same != tt.same {
			t.Errorf("%v is of the kind of %v: %t, want %t", tt.p, missing, same, tt.same)
		}
	}
}
