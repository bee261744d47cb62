//go:build faketime

package main

import (
	"time"
	_ "unsafe" // for the name of a variable
)

const fakeTime = true

// clockStep is by how many milliseconds the engine's clock is off; see clockEdits.
//
//go:linkname clockStep github.com/kestrelmq/kestrel/engine/internal/item.clockStep
var clockStep int64

func setClock(off time.Duration) { clockStep = off.Milliseconds() }
