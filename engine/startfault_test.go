package engine

import (
	"maps"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestStartFaults has every call of a start fail once. The directory has a torn journal, backlogs, files that belong
// to nobody and a journal that was replaced. A start that fails has lost nothing: the next one has it all. What cannot
// be removed keeps no start from going on.
func TestStartFaults(t *testing.T) {
	w := newWreck(t, false)
	for name, data := range map[string]string{
		"backlog/0000009999.run": "left", "journal.1/0000000001.seg": "left", "journal/0000000099.spare": "left",
		"journal/0000000098.new": "left",
	} {
		if err := w.disk.WriteFile(w.opts.Dir+"/"+name, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := w.contents(w.disk.Kill())
	if err != nil {
		t.Fatal(err)
	}
	for n, struck := 1, true; struck; n++ {
		struck = false
		image := w.disk.Kill()
		calls, what := 0, ""
		image.SetFault(func(op segmenttest.Op) segmenttest.Fault {
			if calls++; calls != n {
				return segmenttest.Fault{}
			}
			struck, what = true, op.Kind.String()+" "+op.Path
			return segmenttest.Fault{Err: syscall.EIO}
		})
		e, err := open(w.on(image))
		image.SetFault(nil)
		if err == nil {
			e.Close()
		} else if strings.HasPrefix(what, "remove ") {
			t.Errorf("%s failed once: the start = %v, want one that goes on", what, err)
		}
		got, err := w.contents(image.Kill())
		if err != nil || !maps.EqualFunc(got, want, maps.Equal) {
			t.Errorf("%s failed once: %v, %v, want %v", what, got, err, want)
		}
	}
}
