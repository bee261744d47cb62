package netloop

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWeights tests that a queue comes first, and then second, as often as its share of the weights says.
func TestWeights(t *testing.T) {
	const draws, seed = 100_000, 7
	for _, tt := range []struct {
		weights []int
		first   []float64 // share of the draws in which the queue comes first, by queue
		behind  []float64 // in which it is second, behind the first queue
	}{
		{[]int{3, 1}, []float64{0.75, 0.25}, []float64{0, 1}},
		{[]int{3, 0}, []float64{0.75, 0.25}, []float64{0, 1}}, // one that has none has 1
		{[]int{5, 3, 2}, []float64{0.5, 0.3, 0.2}, []float64{0, 0.6, 0.4}},
		{[]int{1, 1_000_000}, []float64{1e-6, 1}, []float64{0, 1}},
		{[]int{0, 0, 0}, []float64{1, 0, 0}, []float64{0, 1, 0}}, // as they stand there
	} {
		random := rand.New(rand.NewPCG(seed, seed))
		first, behind := make([]int, len(tt.weights)), make([]int, len(tt.weights))
		for range draws {
			v := several{sources: make([]source, len(tt.weights))}
			for i, w := range tt.weights {
				v.sources[i] = source{spelt: []byte{byte(i)}, weight: w}
			}
			v.shuffle(random.IntN)
			one, two := v.sources[0].spelt[0], v.sources[1].spelt[0]
			first[one]++
			if one == 0 {
				behind[two]++
			}
		}
		for i := range tt.weights {
			if got := float64(first[i]) / draws; math.Abs(got-tt.first[i]) > 0.01 {
				t.Errorf("weights %v, seed %d: queue %d comes first in %.3f of the draws, want %.3f", tt.weights, seed, i, got, tt.first[i])
			}
			if first[0] < 100 {
				continue
			}
			if got := float64(behind[i]) / float64(first[0]); math.Abs(got-tt.behind[i]) > 0.01 {
				t.Errorf("weights %v, seed %d: queue %d comes behind the first in %.3f of the draws, want %.3f", tt.weights, seed, i, got, tt.behind[i])
			}
		}
	}
}
