package main

import (
	"fmt"

	"github.com/kestrelmq/kestrel/bench/peer"
)

// The rows of kestrel alone.
const (
	rowCycles    = "in memory, a little at a time"
	rowAll       = "in memory, all of it"
	rowBehind    = "read-behind"
	rowKilled    = "read-behind, killed"
	rowNeighbour = "read-behind, a neighbour"
)

// ownRows returns what is measured of kestrel alone. A backlog that does not fit into half of the
// memory is not kept there for comparison.
func (o *options) ownRows() ([]row, error) {
	s, _ := peer.Find("kestrel")
	s, err := o.setup.Locate(s)
	if err != nil {
		return nil, err
	}
	behind := o.setup
	behind.KestrelQueues = fmt.Sprintf("max_memory_size = %d\n", o.memory)
	window := used(o.memory)
	rows := []row{
		{name: rowCycles, server: s, setup: &behind, kind: cycles, touch: window},
		{name: rowBehind, server: s, setup: &behind, kind: whole, touch: window},
		{name: rowKilled, server: s, setup: &behind, kind: outage, touch: window},
		{name: rowNeighbour, server: s, setup: &behind, kind: neighbour},
	}
	available, err := memoryAvailable()
	if err != nil {
		return nil, err
	}
	if limit := o.inMemoryNeeds(); limit < available {
		all := o.setup
		all.KestrelServer = fmt.Sprintf("memory_limit = %d\njournal_size = %d\n", limit, limit)
		all.KestrelQueues = fmt.Sprintf("max_memory_size = %d\n", limit)
		rows = append(rows, row{name: rowAll, server: s, setup: &all, kind: whole})
	}
	return rows, nil
}
