package main

import (
	"math"
	"slices"
)

// mannWhitney compares two samples by the ranks of their values. It returns the standardized sum of the ranks of a,
// corrected for ties. That is normally distributed around 0 if both are drawn from one distribution, and positive if
// the values of a tend to be greater. Outliers, of which times have many, count no more than others.
func mannWhitney(a, b []float64) (z float64) {
	type value struct {
		v   float64
		ofA bool
	}
	all := make([]value, 0, len(a)+len(b))
	for _, v := range a {
		all = append(all, value{v: v, ofA: true})
	}
	for _, v := range b {
		all = append(all, value{v: v})
	}
	slices.SortFunc(all, func(x, y value) int {
		switch {
		case x.v < y.v:
			return -1
		case x.v > y.v:
			return 1
		}
		return 0
	})
	ties, sum := 0.0, 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		equal := float64(j - i)
		ties += equal*equal*equal - equal
		for k := i; k < j; k++ {
			if all[k].ofA {
				sum += float64(i+j+1) / 2 // the mean of the ranks i+1 to j
			}
		}
		i = j
	}
	n, m := float64(len(a)), float64(len(b))
	total := n + m
	variance := n * m / 12 * (total + 1 - ties/(total*(total-1)))
	if variance == 0 {
		return 0
	}
	return (sum - n*(total+1)/2) / math.Sqrt(variance)
}

// quantile returns the value below which the share q of sorted values is.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
