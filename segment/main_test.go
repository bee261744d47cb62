package segment

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest/failingdisk"
)

func TestMain(m *testing.M) {
	if status, is := failingdisk.Served(os.Args[1:]); is {
		os.Exit(status)
	}
	debug.SetGCPercent(400) // tests make thousands of small logs; to collect each takes half of their time
	os.Exit(m.Run())
}
