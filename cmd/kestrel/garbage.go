package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much garbage the process may hold, in percent of what lives. What lives is
// items, in large blocks without pointers: a collection costs next to nothing, and serving
// allocates next to nothing, while Go's usual 100 would double the memory that max_memory_size asks
// for. See docs/decisions/0013-garbage.md.
const gcPercent = 20

// boundGarbage has the runtime collect garbage early, unless the operator has said when: GOGC
// counts.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// returnGarbage gives the operating system back what a start has used and needs no more: the
// runtime would keep most of it until the next collections, which an idle server seldom has.
func returnGarbage() { debug.FreeOSMemory() }
