package main

import "testing"

// What grows must be noticed, whatever it is, and what only wavers must not.
func TestJudgeSamples(t *testing.T) {
	flat := func(i int) sample {
		return sample{memory: 50<<20 + int64(i%3)<<20, descriptors: 30 + i%2, goroutines: 20 + i%3}
	}
	for _, tt := range []struct {
		name string
		of   func(int) sample
		good bool
	}{
		{"flat", flat, true},
		{"memory", func(i int) sample { s := flat(i); s.memory += int64(i) << 18; return s }, false},
		{"descriptors", func(i int) sample { s := flat(i); s.descriptors += i / 5; return s }, false},
		{"goroutines", func(i int) sample { s := flat(i); s.goroutines += i / 5; return s }, false},
	} {
		tr := newTestTrial(t, "", 1)
		var samples []sample
		for i := range 100 {
			samples = append(samples, tt.of(i))
		}
		judgeSamples(tr, samples)
		if good := len(tr.violations()) == 0; good != tt.good {
			t.Errorf("%s: judged good %t, want %t: %v", tt.name, good, tt.good, tr.violations())
		}
	}
}
