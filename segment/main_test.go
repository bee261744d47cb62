package segment

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // tests make thousands of small logs; to collect each takes half of their time
	os.Exit(m.Run())
}
