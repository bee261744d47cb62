package loadtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestPacer checks how many requests are due over time, and how they are spaced.
func TestPacer(t *testing.T) {
	const rate, window = 1000, 20 * time.Second
	for _, poisson := range []bool{false, true} {
		random := rand.New(rand.NewPCG(1, 2))
		p := newPacer(&group{Group: &Group{Rate: 2 * rate, Poisson: poisson}}, 1, 0.5)
		p.start(time.Minute, time.Minute+window, random)
		var gaps []float64
		last := time.Duration(0)
		for p.due(time.Hour) {
			due := p.advance(random)
			if due < time.Minute || due >= time.Minute+window {
				t.Fatalf("poisson %v: a request is due at %v", poisson, due)
			}
			if last > 0 {
				gaps = append(gaps, float64(due-last))
			}
			last = due
		}
		mean, deviation := meanAndDeviation(gaps)
		if math.Abs(mean-1e6) > 3e4 {
			t.Errorf("poisson %v: %v ns between requests, want about 1e6", poisson, mean)
		}
		if want := map[bool]float64{false: 0, true: 1e6}[poisson]; math.Abs(deviation-want) > 5e4 {
			t.Errorf("poisson %v: deviation %v ns, want about %v", poisson, deviation, want)
		}
	}
}

func meanAndDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(deviation)
}

// TestPacerLeft checks what is counted as due and never sent.
func TestPacerLeft(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	p := newPacer(&group{Group: &Group{Rate: 100}}, 1, 1)
	p.start(0, time.Second, random)
	for range 60 {
		p.advance(random)
	}
	if n := p.left(500 * time.Millisecond); n != 0 {
		t.Errorf("before the end %d are left, want 0", n)
	}
	if n := p.left(2 * time.Second); n != 40 {
		t.Errorf("at the end %d are left, want 40", n)
	}
	p.spent = true
	if n := p.left(2 * time.Second); n != 0 {
		t.Errorf("with nothing more to send %d are left, want 0", n)
	}
}

// TestRing compares the ring with a slice.
func TestRing(t *testing.T) {
	r := ring{slots: make([]int32, 3)}
	var model []int32
	for step := range int32(100) {
		if len(model) == 3 || step%5 == 4 && len(model) > 0 {
			if got := r.pop(); got != model[0] {
				t.Fatalf("step %d: pop = %d, want %d", step, got, model[0])
			}
			model = model[1:]
			continue
		}
		r.push(step)
		model = append(model, step)
		if r.n != len(model) {
			t.Fatalf("step %d: %d in the ring, want %d", step, r.n, len(model))
		}
	}
}
