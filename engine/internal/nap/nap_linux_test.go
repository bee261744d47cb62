package nap

import (
	"testing"
	"time"
)

// A process without a descriptor for it does without naps.
func TestNapWithoutDescriptor(t *testing.T) {
	var n Napper
	if !n.Nap(time.Microsecond) {
		t.Fatal("no nap")
	}
	n.file.Close()
	for range 2 {
		if n.Nap(time.Microsecond) {
			t.Error("a nap without a descriptor")
		}
	}
	if n.file != nil {
		t.Error("the descriptor is kept")
	}
}
