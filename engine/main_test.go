package engine

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("seed", 0, "replay this one seed of a random test")

// amount is how much of a random test to run: a little with -short, a lot with KESTREL_LONG=1.
func amount[T any](short, normal, long T) T {
	switch {
	case os.Getenv("KESTREL_LONG") != "":
		return long
	case testing.Short():
		return short
	}
	return normal
}

// sampled is how much of a long test to run. With `make test` that is little, because of -short, and with KESTREL_CI,
// which CI sets, it is much.
func sampled[T any](few, many T) T {
	if testing.Short() && os.Getenv("KESTREL_CI") == "" {
		return few
	}
	return many
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // tests make thousands of small engines; to collect each takes a fifth of their time
	goleak.VerifyTestMain(m)
}
