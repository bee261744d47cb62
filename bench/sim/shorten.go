package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	rehearsals  = 10               // how often a seed that failed is run again, to see whether it fails always
	shortenTime = 90 * time.Second // how long it is made shorter
)

// shortener makes a script that fails shorter, as long as it fails in the same way.
type shortener struct {
	o     options
	p     *program
	what  string // that the seed did, see problem.kind
	tries int    // runs that a shorter script gets to fail
	until time.Time
	runs  int
}

// shorten reports how often a seed fails, makes its script shorter, and keeps both.
func (o *options) shorten(ctx context.Context, out io.Writer, p *program, r report) error {
	whole := newScript(r.Seed)
	sh := &shortener{o: *o, p: p, what: r.Problems[0].kind(), until: time.Now().Add(shortenTime)}
	failed := 0
	for range rehearsals {
		if sh.fails(ctx, whole, 1) {
			failed++
		}
	}
	name, err := o.save(whole, "")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d breaks the law %q in %d runs of %d; replay it with\n  go run ./bench/sim -replay %s\n",
		r.Seed, r.Problems[0].Law, failed, rehearsals, name)
	if failed == 0 {
		return nil
	}
	sh.tries = min(max(3*rehearsals/failed, 2), 20)
	short := sh.script(ctx, whole)
	name, err = o.save(short, "-short")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "shortened from %s to %s in %d runs:\n%s"+
		"replay it with\n  go run ./bench/sim -trace -n 1 -replay %s\n",
		whole.size(), short.size(), sh.runs, short, name)
	return nil
}

// fails reports whether a script breaks the law in one of some tries.
func (sh *shortener) fails(ctx context.Context, s Script, tries int) bool {
	sh.runs++
	o := sh.o
	name, err := o.save(s, "-try")
	if err != nil {
		return false
	}
	o.file, o.n, o.limit = name, tries, time.Minute
	found := false
	sh.p.simulate(ctx, o, io.Discard, func(r report) bool {
		found = len(r.Problems) > 0 && r.Problems[0].kind() == sh.what
		return !found
	})
	return found
}

// script returns a shorter script that still fails.
func (sh *shortener) script(ctx context.Context, s Script) Script {
	still := func(t Script) bool {
		return ctx.Err() == nil && time.Now().Before(sh.until) && sh.fails(ctx, t, sh.tries)
	}
	for size := -1; size != s.weight(); {
		size = s.weight()
		s = withFewer(s, still, func(s *Script) *[]Phase { return &s.Phases })
		for i := range s.Phases {
			s = withFewer(s, still, func(s *Script) *[]Client { return &s.Phases[i].Clients })
			s = withFewer(s, still, func(s *Script) *[]Fault { return &s.Phases[i].Faults })
		}
		for i := range s.Phases {
			for j := range s.Phases[i].Clients {
				s = withFewer(s, still, func(s *Script) *[]Op { return &s.Phases[i].Clients[j].Ops })
			}
		}
	}
	return s
}

// withFewer drops as many elements of one list of the script as it can: first large parts of it, then
// small ones.
func withFewer[T any](s Script, still func(Script) bool, list func(*Script) *[]T) Script {
	for part := max(len(*list(&s))/2, 1); ; part /= 2 {
		for at := 0; at < len(*list(&s)); {
			t := s.clone()
			l := list(&t)
			*l = slices.Delete(*l, at, min(at+part, len(*l)))
			if still(t) {
				s = t
			} else {
				at += part
			}
		}
		if part <= 1 {
			return s
		}
	}
}

// kind is which law is broken and, where the text ends in a reason, for what reason: a server may fail to
// start for several.
func (p problem) kind() string {
	at := strings.LastIndex(p.Text, ": ")
	if at < 0 || p.Law == "crash" {
		return p.Law
	}
	return p.Law + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, p.Text[at:])
}

// clone returns a copy of which lists can be changed.
func (s Script) clone() Script {
	s.Phases = slices.Clone(s.Phases)
	for i := range s.Phases {
		p := &s.Phases[i]
		p.Faults, p.Clients = slices.Clone(p.Faults), slices.Clone(p.Clients)
		for j := range p.Clients {
			p.Clients[j].Ops = slices.Clone(p.Clients[j].Ops)
		}
	}
	return s
}

// weight counts everything that can be dropped.
func (s Script) weight() (n int) {
	for _, p := range s.Phases {
		n += 1 + len(p.Faults)
		for _, c := range p.Clients {
			n += 1 + len(c.Ops)
		}
	}
	return n
}

func (s Script) size() string {
	clients, ops, faults := 0, 0, 0
	for _, p := range s.Phases {
		clients, faults = clients+len(p.Clients), faults+len(p.Faults)
		for _, c := range p.Clients {
			ops += len(c.Ops)
		}
	}
	return fmt.Sprintf("%d processes, %d clients, %d requests and %d faults", len(s.Phases), clients, ops, faults)
}
