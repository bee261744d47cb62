package figures

import (
	"math"
	"testing"
)

func TestSummarize(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		values []float64
		want   Spread
		text   string
	}{
		{nil, Spread{}, "–"},
		{[]float64{nan, math.Inf(1)}, Spread{}, "–"},
		{[]float64{4.321}, Spread{4.321, 4.321, 4.321, 1}, "4.32"},
		{[]float64{3, nan, 1}, Spread{2, 1, 3, 2}, "2.00 (1.00–3.00)"},
		{[]float64{0.5, 0.1, 0.4, 0.3, 0.2}, Spread{0.3, 0.1, 0.5, 5}, "0.300 (0.100–0.500)"},
	} {
		got := Summarize(tt.values)
		if got != tt.want || got.String() != tt.text {
			t.Errorf("Summarize(%v) = %+v, %s, want %+v, %s", tt.values, got, got.String(), tt.want, tt.text)
		}
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.000123: "0.00012", 0.0456: "0.0456", 0.4567: "0.457", 1: "1.00", 9.999: "10.00",
		12.345: "12.3", 123.45: "123", 123456: "123456", -1.234: "-1.23",
	} {
		if got := Digits(v); got != want {
			t.Errorf("Digits(%v) = %s, want %s", v, got, want)
		}
	}
}

// A round counts only where both sides have it, and each is divided by its own round's reference.
func TestRatios(t *testing.T) {
	nan := math.NaN()
	got := Summarize(Ratios([]float64{2, nan, 9, 1}, []float64{4, 5, 3, nan}))
	if want := (Spread{1.75, 0.5, 3, 2}); got != want {
		t.Errorf("ratios = %+v, want %+v", got, want)
	}
	if got := Ratios([]float64{1}, nil); len(got) != 0 {
		t.Errorf("ratios to no rounds = %v, want none", got)
	}
}
