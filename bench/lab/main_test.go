package main

import (
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest/failingdisk"
)

// cleanUp ends what tests of the real server have begun, after all of them; nil for nothing.
var cleanUp func()

func TestMain(m *testing.M) {
	if status, is := runShortened(os.Args[1:]); is {
		os.Exit(status)
	}
	if status, is := failingdisk.Served(os.Args[1:]); is {
		os.Exit(status)
	}
	code := m.Run()
	if cleanUp != nil {
		cleanUp()
	}
	os.Exit(code)
}

func newTestTrial(t *testing.T, binary string, cycles int) *trial {
	t.Helper()
	tr, err := newTrial("test", binary, cycles, rand.Uint64(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("files are in %s", tr.dir)
			return
		}
		os.RemoveAll(tr.dir)
	})
	return tr
}
