package main

import (
	"math"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		values []float64
		want   spread
		text   string
	}{
		{nil, spread{}, "–"},
		{[]float64{nan, math.Inf(1)}, spread{}, "–"},
		{[]float64{4.321}, spread{4.321, 4.321, 4.321, 1}, "4.32"},
		{[]float64{3, nan, 1}, spread{2, 1, 3, 2}, "2.00 (1.00–3.00)"},
		{[]float64{0.5, 0.1, 0.4, 0.3, 0.2}, spread{0.3, 0.1, 0.5, 5}, "0.300 (0.100–0.500)"},
	} {
		got := summarize(tt.values)
		if got != tt.want || got.text() != tt.text {
			t.Errorf("summarize(%v) = %+v, %s, want %+v, %s", tt.values, got, got.text(), tt.want, tt.text)
		}
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.000123: "0.00012", 0.0456: "0.0456", 0.4567: "0.457", 1: "1.00", 9.999: "10.00",
		12.345: "12.3", 123.45: "123", 123456: "123456", -1.234: "-1.23",
	} {
		if got := digits(v); got != want {
			t.Errorf("digits(%v) = %s, want %s", v, got, want)
		}
	}
}

// A round counts only where both sides have it, and each is divided by its own round's reference.
func TestRatios(t *testing.T) {
	cost := func(us int) *sample {
		return &sample{operations: 1, serverCPU: time.Duration(us) * time.Microsecond}
	}
	own := over([]*sample{cost(2), nil, cost(9), cost(1)}, (*sample).cpuPerOperation)
	reference := over([]*sample{cost(4), cost(5), cost(3), nil}, (*sample).cpuPerOperation)
	got := summarize(ratios(own, reference))
	if want := (spread{1.75, 0.5, 3, 2}); got != want {
		t.Errorf("ratios = %+v, want %+v", got, want)
	}
	if got := ratios(own, nil); len(got) != 0 {
		t.Errorf("ratios to no rounds = %v, want none", got)
	}
}

func TestSampleUnits(t *testing.T) {
	s := sample{
		operations: 1000, wall: 500 * time.Microsecond, serverCPU: 250 * time.Microsecond,
		generatorCPU: 100 * time.Microsecond, resident: 3 << 20,
	}
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"cpuPerOperation", s.cpuPerOperation(), 0.25},
		{"generatorPerOperation", s.generatorPerOperation(), 0.1},
		{"rate", s.rate(), 2e6},
		{"busy", s.busy(), 50},
		{"residentMiB", s.residentMiB(), 3},
	} {
		if math.Abs(tt.got-tt.want) > 1e-9*tt.want {
			t.Errorf("%s = %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}
