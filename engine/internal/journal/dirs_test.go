package journal

import (
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// makePaths makes files, or directories where a path ends with a slash, in the data directory.
func makePaths(t *testing.T, fsys *segmenttest.FS, paths ...string) {
	t.Helper()
	if err := fsys.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if dir, _, ok := strings.Cut(p, "/"); ok {
			if err := fsys.MkdirAll(path.Join(testDir, dir)); err != nil {
				t.Fatal(err)
			}
		}
		f, err := fsys.Create(path.Join(testDir, p))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

func TestFindDirs(t *testing.T) {
	for _, tt := range []struct {
		paths   []string
		current uint64
		others  []uint64
	}{
		{nil, 0, nil},
		{[]string{"journal/a"}, 0, nil},
		{[]string{"journal/a", "journal.1/a"}, 0, []uint64{1}},
		{[]string{"journal/a", "journal.1/complete"}, 1, []uint64{0}},
		{[]string{"journal.1/complete"}, 1, nil},
		{[]string{"journal.2/complete", "journal.10/complete", "journal.11/a"}, 10, []uint64{2, 11}},
		{[]string{"journal/a", "journal.01/complete", "journal.x/complete", "journal.0/complete",
			"journalx/complete", "journal.3"}, 0, nil},
	} {
		fsys := segmenttest.New()
		makePaths(t, fsys, tt.paths...)
		current, others, err := findDirs(fsys, testDir)
		slices.Sort(others)
		if err != nil || current != tt.current || !slices.Equal(others, tt.others) {
			t.Errorf("of %q journal %d counts, others %v, %v; want %d, %v",
				tt.paths, current, others, err, tt.current, tt.others)
		}
	}
}

// TestDirs goes through the life of the directories: of a journal that is abandoned, and of one that comes to count.
// The others are removed, with one failure.
func TestDirs(t *testing.T) {
	fsys := segmenttest.New()
	makePaths(t, fsys, "journal/a", "journal.3/a")
	d, err := FindDirs(fsys, testDir)
	if err != nil || d.Current() != "data/journal" {
		t.Fatalf("FindDirs = %v, %v", d, err)
	}
	if got := d.Next(); got != "data/journal.4" {
		t.Errorf("Next = %q, want journal.4: a name is not used twice", got)
	}
	makePaths(t, fsys, "journal.4/a", "journal.5/a")
	if err := d.Abandon("data/journal.4"); err != nil {
		t.Error(err)
	}
	if err := d.Abandon("data/journal.4"); err != nil {
		t.Errorf("Abandon of what is not there = %v", err)
	}
	if err := d.Complete(d.Next()); err != nil || d.Current() != "data/journal.5" {
		t.Errorf("Complete = %v, and %s counts", err, d.Current())
	}
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpRemove, 0, syscall.EIO))
	if err := d.RemoveOthers(); err == nil || !d.OthersLeft() {
		t.Errorf("RemoveOthers = %v on a disk that fails", err)
	}
	fsys.SetFault(nil)
	if err := d.RemoveOthers(); err != nil || d.OthersLeft() {
		t.Errorf("RemoveOthers = %v", err)
	}
	names, err := fsys.List(testDir)
	if err != nil || !slices.Equal(names, []string{"journal.5"}) {
		t.Errorf("the data directory holds %q, %v, want journal.5 alone", names, err)
	}
	if again, err := FindDirs(fsys, testDir); err != nil || again.Current() != d.Current() {
		t.Errorf("the next start takes %v, %v", again, err)
	}
}

// TestRetractIsDurable has power cuts come while a journal is retracted that may count. What names it goes for good
// before its segments do: a start never chooses what is left of it.
func TestRetractIsDurable(t *testing.T) {
	for n := 1; ; n++ {
		fsys := segmenttest.New()
		makePaths(t, fsys, "journal/a")
		d, err := FindDirs(fsys, testDir)
		if err != nil {
			t.Fatal(err)
		}
		dir := d.Next()
		makePaths(t, fsys, "journal.1/a", "journal.1/b")
		fsys.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
			if op.Kind == segmenttest.OpSyncDir {
				f.Err, f.KeepDirty = syscall.EIO, true
			}
			return f
		})
		if err := d.Complete(dir); err == nil || !d.MayCount(dir) {
			t.Fatalf("Complete = %v, and the journal may count = %t", err, d.MayCount(dir))
		}
		fsys.SetFault(nil)
		for _, p := range []string{dir, testDir, "."} { // it is on the disk even so
			if err := fsys.SyncDir(p); err != nil {
				t.Fatal(err)
			}
		}
		fsys.StopInWrite(n, 0)
		if err := d.Retract(); err == nil {
			return
		}
		for seed := range uint64(20) {
			image := fsys.PowerCut(segmenttest.CutOptions{Seed: seed, ReorderMetadata: true})
			names, err := image.List(dir)
			if slices.Contains(names, completeName) && len(names) != 3 {
				t.Fatalf("a cut at call %d leaves %q, %v", n, names, err)
			}
		}
	}
}
