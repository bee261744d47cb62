package engine

import (
	"errors"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestBacklogWithoutJournal tests that nothing takes a backlog for nobody's because its journal is missing, as when the
// journal's disk is not mounted. The start would remove the backlog.
func TestBacklogWithoutJournal(t *testing.T) {
	e, fsys := newQuiet(t, tiny)
	putMany(t, e, "q", 0, 40)
	spoolSome(e, 1)
	for _, keepDir := range []bool{true, false} {
		without := fsys.Kill()
		removeJournal(t, without, keepDir)
		before := dumpOf(without)
		opts := testOptions(without, tiny)
		_, opened := open(opts)
		_, inspected := Inspect(opts)
		_, examined := Examine(opts)
		for what, err := range map[string]error{"open": opened, "Inspect": inspected, "Examine": examined} {
			if !errors.Is(err, segment.ErrCorrupt) || !strings.Contains(err.Error(), "0000000001.run") {
				t.Errorf("with the directory of the journal %v, %s = %v, want damage that names the run", keepDir, what, err)
			}
		}
		if !maps.Equal(before, dumpOf(without)) {
			t.Errorf("with the directory of the journal %v, files were changed", keepDir)
		}
	}
}

// removeJournal removes the journal, and its directory unless that is kept.
func removeJournal(t *testing.T, fsys *segmenttest.FS, keepDir bool) {
	t.Helper()
	dir, err := JournalDir(fsys, "data")
	if err != nil {
		t.Fatal(err)
	}
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := fsys.Remove(path.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if keepDir {
		return
	}
	if err := fsys.Remove(dir); err != nil {
		t.Fatal(err)
	}
}
