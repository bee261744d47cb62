package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMannWhitney compares with figures worked out by hand: U of 0 and of its mean, with and without ties.
func TestMannWhitney(t *testing.T) {
	for _, tt := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, -4.5 / math.Sqrt(5.25)}, // ranks 1+2+3, mean 10.5, variance 3·3·7/12
		{[]float64{4, 5, 6}, []float64{1, 2, 3}, 4.5 / math.Sqrt(5.25)},
		{[]float64{1, 4}, []float64{2, 3}, 0},
		{[]float64{1, 1}, []float64{1, 2}, -1 / math.Sqrt(1.0/3*(5-24.0/12))}, // ranks 2+2, mean 5, three equal
		{[]float64{7, 7}, []float64{7}, 0},
	} {
		if got := mannWhitney(tt.a, tt.b); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("mannWhitney(%v, %v) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
	// Of times with a long tail, a shift of a tenth of their spread is seen, and none is not.
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(shift float64) (list []float64) {
		for range 4000 {
			list = append(list, 100+shift+10*r.NormFloat64()+1000*math.Floor(r.Float64()*1.01))
		}
		return list
	}
	a, b, c := draw(0), draw(0), draw(2)
	if z := mannWhitney(a, b); math.Abs(z) > 4 {
		t.Errorf("equal distributions: %v", z)
	}
	if z := mannWhitney(c, a); z < maxRankScore {
		t.Errorf("a shift is not seen: %v", z)
	}
}
