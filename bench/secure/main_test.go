package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestReport tests that ratios are of one load and round, and that the goals are judged.
func TestReport(t *testing.T) {
	results := make(map[string][]*sample)
	for i, l := range loads() {
		cost := float64(i + 1)
		for name, factor := range map[string]float64{
			"kestrel-tls": 1, "redis-tls": 2, "memcached-tls": 0.5, "kestrel-plain": 1, "kestrel-user": 1.01,
		} {
			for round := range 3 { // a slow round is slow for all
				slow := float64(1 + round)
				key := fmt.Sprint(name, l)
				results[key] = append(results[key], &sample{put: cost * factor * slow, get: cost * factor * slow})
			}
		}
	}
	got := report(results, 3)
	for want, n := range map[string]int{
		"redis-tls, ": 8, "| 0.500 (0.500–0.500) | ≤ 1 | yes |": 8, "| 2.00 (2.00–2.00) | ≤ 1 | **no** |": 8,
		"| ≤ 1.02 | yes |": 8, "| SET c=16 P=32 |": 3, "| GET c=100 P=1 |": 3,
	} {
		if c := strings.Count(got, want); c != n {
			t.Errorf("%d times %q, want %d, in\n%s", c, want, n, got)
		}
	}
}

func TestRequests(t *testing.T) {
	for _, l := range loads() {
		if n := l.requests(1000); n%l.pipeline != 0 || n < l.pipeline {
			t.Errorf("%+v: %d requests of each connection", l, n)
		}
	}
}
