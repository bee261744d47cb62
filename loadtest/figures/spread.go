package figures

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Spread summarizes one number over rounds.
type Spread struct {
	Median, Min, Max float64
	N                int // rounds that have it
}

// Summarize returns the spread of values, without those that are not numbers.
func Summarize(values []float64) Spread {
	sorted := numbers(values)
	if len(sorted) == 0 {
		return Spread{}
	}
	slices.Sort(sorted)
	return Spread{median(sorted), sorted[0], sorted[len(sorted)-1], len(sorted)}
}

// numbers returns the finite values.
func numbers(values []float64) []float64 {
	var finite []float64
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			finite = append(finite, v)
		}
	}
	return finite
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Ratios divides round by round; a round that either side lacks is not a number.
func Ratios(values, reference []float64) []float64 {
	quotients := make([]float64, min(len(values), len(reference)))
	for i := range quotients {
		quotients[i] = values[i] / reference[i]
	}
	return quotients
}

// String prints the median and, in brackets, the least and the greatest, to three significant
// digits.
func (s Spread) String() string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return Digits(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", Digits(s.Median), Digits(s.Min), Digits(s.Max))
}

// Digits prints v to three significant digits, or to its integer part if that is longer.
func Digits(v float64) string {
	decimals := 2
	if v != 0 {
		decimals = max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return fmt.Sprintf("%.*f", min(decimals, 5), v)
}

const (
	resamples    = 2000
	resampleSeed = 1
)

// RatioOfMedians returns the median of values over that of reference, and an interval that says how far it may be
// chance. The interval is the 95 % confidence interval of the ratio, found by resampling both. Samples need not be
// paired. The resampling has a fixed seed, so that the same samples give the same answer. With less than two samples on
// a side Min and Max equal the Median.
func RatioOfMedians(values, reference []float64) Spread {
	v, r := numbers(values), numbers(reference)
	if len(v) == 0 || len(r) == 0 {
		return Spread{}
	}
	slices.Sort(v)
	slices.Sort(r)
	s := Spread{Median: median(v) / median(r), N: min(len(v), len(r))}
	s.Min, s.Max = s.Median, s.Median
	if s.N < 2 || math.IsNaN(s.Median) || math.IsInf(s.Median, 0) {
		return s
	}
	random := rand.New(rand.NewPCG(resampleSeed, 0))
	quotients := make([]float64, 0, resamples)
	for range resamples {
		if q := resample(v, random) / resample(r, random); !math.IsNaN(q) && !math.IsInf(q, 0) {
			quotients = append(quotients, q)
		}
	}
	if len(quotients) > 0 {
		slices.Sort(quotients)
		s.Min = quotients[len(quotients)*25/1000]
		s.Max = quotients[len(quotients)*975/1000]
	}
	return s
}

// resample returns the median of as many values drawn with replacement.
func resample(values []float64, random *rand.Rand) float64 {
	drawn := make([]float64, len(values))
	for i := range drawn {
		drawn[i] = values[random.IntN(len(values))]
	}
	slices.Sort(drawn)
	return median(drawn)
}
