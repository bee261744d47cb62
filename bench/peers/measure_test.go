package main

import (
	"math"
	"testing"
	"time"
)

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
