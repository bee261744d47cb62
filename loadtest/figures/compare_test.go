package figures

import (
	"math"
	"strings"
	"testing"
)

// row returns the fields of the row of a figure of a run.
func row(t *testing.T, table, kind, figure, run string) []string {
	t.Helper()
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 4 && f[1] == kind && f[2] == figure && f[3] == run {
			return f
		}
	}
	t.Fatalf("no row of %s %s of %s in\n%s", kind, figure, run, table)
	return nil
}

// TestCompareIntervals compares two runs by their intervals.
func TestCompareIntervals(t *testing.T) {
	a, b := testRun(t, "a", 31, 1000, 50_000), testRun(t, "b", 31, 2000, 25_000)
	b.Options["rate"], b.Failure = "2000", "lost"
	var out strings.Builder
	if err := Compare(&out, []*Run{a, b}); err != nil {
		t.Fatal(err)
	}
	table := out.String()
	if got := row(t, table, "put", "rate/s", "a"); got[4] != "1,000" || got[5] != "1" ||
		got[6] != "30" {
		t.Errorf("rate of a = %q", got)
	}
	got := row(t, table, "put", "rate/s", "b")
	if got[4] != "2,000" || got[5] != "2.00" || got[6] != "(1.98–2.02)" {
		t.Errorf("rate of b = %q, want a ratio of 2.00 (1.98–2.02)", got)
	}
	if got := row(t, table, "put", "p99", "b"); got[4] != "25.0µs" || got[5] != "0.500" {
		t.Errorf("p99 of b = %q, want 25.0µs and 0.500", got)
	}
	for _, want := range []string{"reference: a: open-loop, seed 0", "option rate: 1000, here 2000",
		"FAILED"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// TestCompareRounds compares sides of several runs each by the runs.
func TestCompareRounds(t *testing.T) {
	var runs []*Run
	for round := range int64(5) {
		runs = append(runs, testRun(t, "a", 4, 1000+10*round, 50_000),
			testRun(t, "b", 4, 3000+10*round, 50_000))
	}
	var out strings.Builder
	if err := Compare(&out, runs); err != nil {
		t.Fatal(err)
	}
	got := row(t, out.String(), "put", "rate/s", "b")
	if got[len(got)-1] != "5" || !strings.HasPrefix(got[5], "2.9") {
		t.Errorf("rate of b = %q, want a ratio of about 2.96 of 5 samples", got)
	}
	if err := Compare(&out, runs[:1]); err == nil {
		t.Error("Compare of one run: no error")
	}
}

// TestRatioOfMedians checks that the interval holds the truth as often as it says: about 95 times in a hundred. It
// draws samples whose medians have a known ratio.
func TestRatioOfMedians(t *testing.T) {
	for _, tt := range []struct {
		values, reference []float64
		want              Spread
	}{
		{nil, []float64{1}, Spread{}},
		{[]float64{3}, []float64{2}, Spread{1.5, 1.5, 1.5, 1}},
		{[]float64{6, 6, 6}, []float64{2, 2, math.NaN()}, Spread{3, 3, 3, 2}},
	} {
		if got := RatioOfMedians(tt.values, tt.reference); got != tt.want {
			t.Errorf("RatioOfMedians(%v, %v) = %+v, want %+v", tt.values, tt.reference, got, tt.want)
		}
	}
	var a, b []float64
	for i := range 40 {
		a, b = append(a, 100+float64(i*37%40)), append(b, 50+float64(i*23%40)/2)
	}
	got := RatioOfMedians(a, b)
	if got.Min >= got.Median || got.Max <= got.Median || got.Min < 1.7 || got.Max > 2.3 {
		t.Errorf("RatioOfMedians = %+v, want 2 within about 1.8 to 2.2", got)
	}
	if again := RatioOfMedians(a, b); again != got {
		t.Errorf("RatioOfMedians = %+v, and then %+v", got, again)
	}
}
