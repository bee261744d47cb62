package main

import (
	"io"
	"testing"
	"time"
)

// TestSchedule has measurements take twice as long as expected, which is said after a while.
func TestSchedule(t *testing.T) {
	o, err := parseOptions([]string{"-rounds", "10", "-window", "1s"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := benchCase{pageCache, churn, 64, 16, 1, 1}
	plan := []planned{{c, []server{named("a"), named("b"), named("c"), named("d")}}}
	s := newSchedule(o, plan)
	now := s.began
	s.now = func() time.Time { return now }
	each := o.estimate(c, named("a"))
	if least := o.window + o.warmup; each < least || each > least+time.Second {
		t.Errorf("estimate of a window of %v = %v", least, each)
	}
	if got, want := s.left(), 40*each; got != want {
		t.Errorf("at the start %v are left, want %v", got, want)
	}
	for range 20 {
		now = now.Add(2 * each)
		s.measured(each)
	}
	if got, want := s.left(), 2*20*each; got.Round(time.Millisecond) != want.Round(time.Millisecond) {
		t.Errorf("after half of it %v are left, want %v", got, want)
	}
	if got, want := s.String(), "[21/40, "+(40*each).Round(time.Second).String()+" left]"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	for range 20 {
		s.measured(each)
	}
	if got := s.left(); got != 0 {
		t.Errorf("at the end %v are left", got)
	}
}

// TestEverything bounds how long the default run takes, all servers installed.
func TestEverything(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.window < 400*time.Millisecond || o.rounds < 5 {
		t.Errorf("%d rounds of windows of %v, want at least 5 and 400ms", o.rounds, o.window)
	}
	var byDefault []server
	for _, s := range servers() {
		if s.byDefault {
			byDefault = append(byDefault, s)
		}
	}
	s := newSchedule(o, o.plan(byDefault))
	t.Logf("%d measurements, %v", s.count, s.left())
	if got := s.left(); got > 25*time.Minute {
		t.Errorf("%d measurements take %v, want half an hour with a margin", s.count, got)
	}
}
