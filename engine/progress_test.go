package engine

import (
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestProgress looks at the progress of an Open from inside it: whenever it reads the journal.
func TestProgress(t *testing.T) {
	e, fsys := newQuiet(t)
	for range 20 {
		mustPut(t, e, "q", strings.Repeat("x", 1000))
	}
	e.Close()
	size := e.Stats().JournalBytes
	o := testOptions(fsys)
	o.Progress = new(Progress)
	var seen []int64
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpReadAt {
			read, total := o.Progress.Bytes()
			if total != size {
				t.Errorf("total = %d, want the %d bytes of the journal", total, size)
			}
			seen = append(seen, read)
		}
		return segmenttest.Fault{}
	})
	openQuiet(t, o)
	fsys.SetFault(nil)
	steps := 0
	for i := 1; i < len(seen); i++ {
		if seen[i] < seen[i-1] {
			t.Fatalf("progress goes back: %v", seen)
		}
		if seen[i] > seen[i-1] {
			steps++
		}
	}
	if read, total := o.Progress.Bytes(); steps < 5 || read < total/2 || read > total {
		t.Errorf("progress ends at %d of %d after %d steps: %v", read, total, steps, seen)
	}
}

func TestProgressOfNothing(t *testing.T) {
	o := testOptions(segmenttest.New())
	o.Progress = new(Progress)
	openQuiet(t, o)
	if read, total := o.Progress.Bytes(); read != 0 || total != 0 {
		t.Errorf("progress of a new directory = %d of %d", read, total)
	}
}
