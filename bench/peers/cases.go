package main

import (
	"fmt"
	"math"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// class is what a server must have done with a put before it answers.
type class uint8

const (
	pageCache  class = iota // at most written to a file: survives the process, not the machine
	syncAlways              // synced to the disk
)

func (c class) String() string {
	return [...]string{"page-cache", "sync-always"}[c]
}

// itemSize is the size of the items in all cases, in bytes.
const itemSize = 64

// benchCase is one load.
type benchCase struct {
	class       class
	operation   loadtest.Operation
	connections int
	pipeline    int
}

// String returns the name that -cases matches, with a space at each end for exact matches.
func (c benchCase) String() string {
	return fmt.Sprintf(" %v %v c=%d P=%d ", c.class, c.operation, c.connections, c.pipeline)
}

// planned is a case and the servers that take part; the first is the reference.
type planned struct {
	benchCase
	servers []server
}

// allCases returns the cases in the order of the report.
func allCases() []benchCase {
	var cases []benchCase
	for _, operation := range []loadtest.Operation{loadtest.Set, loadtest.Get} {
		for _, pipeline := range []int{1, 32} {
			for _, connections := range []int{1, 16, 100, 1000} {
				cases = append(cases, benchCase{pageCache, operation, connections, pipeline})
			}
		}
	}
	for _, connections := range []int{16, 100} {
		cases = append(cases, benchCase{syncAlways, loadtest.Set, connections, 1})
	}
	return cases
}

// gets returns how many gets take about the given time on one core. The number is the same for all
// servers, since a queue server must be filled with as many items; what that adds up to in a second
// stays within kestrel's memory window of 128 MiB.
func (c benchCase) gets(d time.Duration) int64 {
	rate := 220e3 // per second
	switch {
	case c.pipeline > 1 && c.connections > 1:
		rate = 1e6
	case c.pipeline > 1:
		rate = 450e3
	case c.connections == 1:
		rate = 18e3
	}
	return int64(math.Ceil(rate * d.Seconds()))
}
