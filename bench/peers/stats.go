package main

import (
	"fmt"
	"math"
	"slices"
)

// spread summarizes one number over the rounds.
type spread struct {
	median, min, max float64
	n                int // rounds that have it
}

// summarize returns the spread of values, without those that are not numbers.
func summarize(values []float64) spread {
	var sorted []float64
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			sorted = append(sorted, v)
		}
	}
	if len(sorted) == 0 {
		return spread{}
	}
	slices.Sort(sorted)
	n := len(sorted)
	return spread{
		median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		min:    sorted[0],
		max:    sorted[n-1],
		n:      n,
	}
}

// over applies f to the sample of each round; a failed round is not a number.
func over(samples []*sample, f func(*sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = math.NaN()
		if s != nil {
			values[i] = f(s)
		}
	}
	return values
}

// ratios divides round by round; a round that either side lacks is not a number.
func ratios(values, reference []float64) []float64 {
	quotients := make([]float64, min(len(values), len(reference)))
	for i := range quotients {
		quotients[i] = values[i] / reference[i]
	}
	return quotients
}

// text prints the median and, in brackets, the least and the greatest, to three significant digits.
func (s spread) text() string {
	switch s.n {
	case 0:
		return "–"
	case 1:
		return digits(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", digits(s.median), digits(s.min), digits(s.max))
}

// digits prints v to three significant digits, or to its integer part if that is longer.
func digits(v float64) string {
	decimals := 2
	if v != 0 {
		decimals = max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	return fmt.Sprintf("%.*f", min(decimals, 5), v)
}
