package engine

import (
	"bytes"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestRepairUndo: a repair copies every file of the backlog that it takes away, so that moving the copies back undoes
// it. Among them are a run of which nothing can be had, and a whole file that says what is gone of the queue.
func TestRepairUndo(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(400)
	m.removeEvery(2, 30, 300)
	m.checkpointed()
	awaitRuns(m.Engine)
	turnOver(t, m.Engine)
	fsys := m.fsys.Kill()
	damaged := m.queue().backlog.runs[1].Path
	if err := fsys.FlipBit(damaged, 200, 3); err != nil {
		t.Fatal(err)
	}
	before := make(map[string][]byte)
	for _, name := range runFiles(fsys) {
		body, err := fsys.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = body
	}
	d, err := Examine(markOptions(fsys))
	if err != nil || d.Sound() {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := errors.Join(d.Repair(), d.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range runFiles(fsys) {
		if !strings.HasPrefix(name, d.Saved) {
			delete(before, name)
		}
	}
	if before[damaged] == nil || before[m.file().Path] == nil {
		t.Errorf("the repair has left %s or %s", damaged, m.file().Path)
	}
	for name, want := range before {
		got, err := fsys.Bytes(path.Join(d.Saved, "backlog", path.Base(name)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %s, which is gone, there is no copy: %v", name, err)
		}
	}
}
