package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// Item is an item of a queue as a reader sees it.
type Item = item.Item

// Time is an instant in milliseconds since the Unix epoch, the resolution of everything the engine
// keeps. Event loops read the clock once per turn and pass it on. As an expiry, zero means never.
type Time = item.Time

// At returns t as a Time; the zero time.Time gives zero.
func At(t time.Time) Time { return item.At(t) }

// Now is the present.
func Now() Time { return item.Now() }
