package segmenttest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// lose is the power cut that keeps only what was synced.
var lose = CutOptions{Mode: Lose}

func TestUnsyncedNameVanishes(t *testing.T) {
	f := New()
	check(t, f.MkdirAll("d"))
	h := create(t, f, "d/f")
	write(t, h, "bytes", 0)
	check(t, h.Datasync())
	check(t, f.SyncDir("/")) // not the directory of the name
	wantFiles(t, "synced bytes, unsynced name", f.PowerCut(lose), map[string]string{})
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("d/f")), "-", "bytes")
	check(t, f.SyncDir("d"))
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("d/f")), "bytes")
}

func TestSyncedNameWithoutBytes(t *testing.T) {
	f := New()
	write(t, create(t, f, "f"), "bytes", 0)
	check(t, f.SyncDir("/"))
	wantFiles(t, "synced name, unsynced bytes", f.PowerCut(lose), map[string]string{"f": ""})
}

func TestUnsyncedRemoveComesBack(t *testing.T) {
	f := New()
	put(t, f, "f", "bytes")
	check(t, f.Remove("f"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"f": "bytes"})
	wantFiles(t, "keep", f.PowerCut(CutOptions{Mode: Keep}), map[string]string{})
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("f")), "-", "bytes")
	check(t, f.SyncDir("/"))
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("f")), "-")
}

func TestUnsyncedRename(t *testing.T) { // under one of the names, never under both or neither
	f := New()
	put(t, f, "a", "bytes")
	check(t, f.Rename("a", "b"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"a": "bytes"})
	for _, reorder := range []bool{false, true} {
		got := outcomes(f, CutOptions{ReorderMetadata: reorder}, contents("a", "b"))
		wantOutcomes(t, got, "bytes -", "- bytes")
	}
	check(t, f.SyncDir("/"))
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("a", "b")), "- bytes")
}

func TestRenameOverExisting(t *testing.T) { // old or new, never neither
	f := New()
	put(t, f, "status", "old")
	h := create(t, f, "status~")
	write(t, h, "new", 0)
	check(t, h.Datasync())
	check(t, f.Rename("status~", "status"))
	got := outcomes(f, CutOptions{}, contents("status", "status~"))
	wantOutcomes(t, got, "old -", "old new", "new -")
	got = outcomes(f, CutOptions{ReorderMetadata: true}, contents("status", "status~"))
	wantOutcomes(t, got, "old -", "old new", "new -")
	check(t, f.SyncDir("/"))
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("status", "status~")), "new -")
}

func TestRenameOfUnsyncedBytes(t *testing.T) { // the classic: the name is there, the bytes are not
	f := New()
	put(t, f, "status", "old")
	write(t, create(t, f, "status~"), "new", 0)
	check(t, f.Rename("status~", "status"))
	check(t, f.SyncDir("/"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"status": ""})
}

func TestMetadataPrefix(t *testing.T) {
	f := New()
	put(t, f, "a", "A")
	check(t, f.Rename("a", "b"))
	check(t, create(t, f, "a").Close())
	check(t, f.Remove("b"))
	paths := func(image *FS) string { return strings.Join(image.Paths(), "") }
	wantOutcomes(t, outcomes(f, CutOptions{}, paths), "a", "b", "ab")
	// Of these only "a" after losing all and "a" after keeping all differ in what it is.
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("a", "b")), "A -", "- A", " A", " -")
}

func TestReorderMetadata(t *testing.T) {
	f := New()
	for _, name := range []string{"a", "b", "c"} {
		check(t, create(t, f, name).Close())
	}
	paths := func(image *FS) string { return strings.Join(image.Paths(), "") }
	wantOutcomes(t, outcomes(f, CutOptions{}, paths), "", "a", "ab", "abc")
	wantOutcomes(t, outcomes(f, CutOptions{ReorderMetadata: true}, paths),
		"", "a", "b", "c", "ab", "ac", "bc", "abc")
}

func TestReorderKeepsOneName(t *testing.T) {
	f := New()
	put(t, f, "a", "A")
	check(t, f.Rename("a", "b"))
	check(t, f.Rename("b", "c"))
	put(t, f, "other", "")
	got := outcomes(f, CutOptions{ReorderMetadata: true}, contents("a", "b", "c"))
	wantOutcomes(t, got, "A - -", "- A -", "- - A")
}

func TestReorderLosesNoFile(t *testing.T) { // a name is not reused before it was given up
	f := New()
	put(t, f, "a", "A")
	check(t, f.Rename("a", "b"))
	check(t, create(t, f, "a").Close())
	got := outcomes(f, CutOptions{ReorderMetadata: true}, contents("a", "b"))
	wantOutcomes(t, got, "A -", "- A", " A")
}

func TestDirectoriesAreIndependent(t *testing.T) {
	f := New()
	check(t, f.MkdirAll("d"))
	check(t, f.MkdirAll("e"))
	check(t, create(t, f, "d/f").Close())
	check(t, create(t, f, "e/f").Close())
	check(t, f.SyncDir("e"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"e/f": ""})
}

func TestRenameBetweenDirectories(t *testing.T) {
	build := func(sync ...string) map[string]uint64 {
		f := New()
		put(t, f, "d/f", "F")
		put(t, f, "e/f", "E")
		check(t, f.Rename("d/f", "e/f"))
		for _, dir := range sync {
			check(t, f.SyncDir(dir))
		}
		return outcomes(f, CutOptions{}, contents("d/f", "e/f"))
	}
	wantOutcomes(t, build(), "F E", "- F")         // atomic while neither is synced
	wantOutcomes(t, build("e"), "F F", "- F")      // the old name may come back
	wantOutcomes(t, build("d"), "- E", "- F")      // the file may be gone
	wantOutcomes(t, build("d", "e"), "- F")        // durable
	wantOutcomes(t, build("e", "d", "d"), "- F")   // in either order
	wantOutcomes(t, build("/", "e"), "F F", "- F") // the parent does not matter
}

func TestRenameEndsBothPrefixes(t *testing.T) {
	f := New()
	put(t, f, "d/f", "F")
	check(t, f.MkdirAll("e"))
	check(t, f.Rename("d/f", "e/f"))
	check(t, create(t, f, "e/g").Close())
	check(t, create(t, f, "d/g").Close())
	got := outcomes(f, CutOptions{}, contents("d/f", "e/f", "e/g", "d/g"))
	wantOutcomes(t, got, "F - - -", "- F - -", "- F  -", "- F - ", "- F  ")
}

func TestRenamesTwiceBetweenDirectories(t *testing.T) {
	f := New()
	put(t, f, "d/f", "F")
	check(t, f.MkdirAll("e"))
	check(t, f.Rename("d/f", "e/f"))
	check(t, f.Rename("e/f", "e/g"))
	check(t, f.Rename("e/g", "d/g"))
	got := outcomes(f, CutOptions{}, contents("d/f", "e/f", "e/g", "d/g"))
	wantOutcomes(t, got, "F - - -", "- F - -", "- - F -", "- - - F")
}

func TestMkdirAllIsDurable(t *testing.T) {
	f := New()
	put(t, f, "f", "")
	check(t, create(t, f, "g").Close())
	check(t, f.MkdirAll("a/b/c"))
	check(t, create(t, f, "a/x").Close())
	check(t, f.MkdirAll("a/b/c")) // adds nothing, syncs nothing
	image := f.PowerCut(lose)
	if _, err := image.List("a/b/c"); err != nil {
		t.Errorf("after MkdirAll and power cut: %v", err)
	}
	// The parents that got a name were synced, others were not.
	wantFiles(t, "lose", image, map[string]string{"f": "", "g": ""})
}

func TestRemovedDirectory(t *testing.T) {
	f := New()
	put(t, f, "d/f", "bytes")
	check(t, f.Remove("d/f"))
	check(t, f.Remove("d"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"d/f": "bytes"})
	check(t, f.SyncDir("/"))
	for _, mode := range []Mode{Tear, Lose, Keep} {
		image := f.PowerCut(CutOptions{Mode: mode})
		if names, err := image.List("/"); len(names) != 0 || err != nil {
			t.Errorf("mode %d: root has %q, %v, want nothing", mode, names, err)
		}
	}
	if len(f.ops) != 0 {
		t.Errorf("%d operations pending in a directory that is gone, want 0", len(f.ops))
	}
}

func TestFileMovedOutOfRemovedDirectory(t *testing.T) {
	f := New()
	put(t, f, "d/sub/f", "bytes")
	check(t, f.Rename("d/sub/f", "f"))
	check(t, f.Remove("d/sub"))
	check(t, f.Remove("d"))
	check(t, f.SyncDir("/"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"f": "bytes"})
	if len(f.ops) != 0 {
		t.Errorf("%d operations pending in directories that are gone, want 0", len(f.ops))
	}
	check(t, f.Rename("f", "g")) // the names that went with d do not count against it
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("f", "g")), "bytes -", "- bytes")
}

func TestRenamedDirectory(t *testing.T) {
	f := New()
	put(t, f, "q/f", "F")
	check(t, create(t, f, "q/g").Close())
	check(t, f.Rename("q", "~q"))
	paths := func(image *FS) string { return strings.Join(image.Paths(), " ") }
	wantOutcomes(t, outcomes(f, CutOptions{}, paths), "q/f", "q/f q/g", "~q/f", "~q/f ~q/g")
	check(t, f.SyncDir("/"))
	wantOutcomes(t, outcomes(f, CutOptions{}, paths), "~q/f", "~q/f ~q/g")
}

func TestSpaceInImages(t *testing.T) { // used is counted anew, also of names in two places
	f := New()
	put(t, f, "d/f", "12345")
	put(t, f, "e/g", "123")
	check(t, f.Rename("d/f", "e/f"))
	check(t, f.SyncDir("e"))
	h, err := f.Open("e/g")
	check(t, err)
	check(t, f.Remove("e/g"))
	if f.used != 8 {
		t.Errorf("used = %d with a removed file open, want 8", f.used)
	}
	check(t, h.Close())
	images := map[string]*FS{"original": f, "kill": f.Kill()}
	for seed := range uint64(20) {
		image := f.PowerCut(CutOptions{Seed: seed})
		want := int64(5)
		if slices.Contains(slices.Collect(maps.Keys(dump(t, image))), "e/g") {
			want = 8
		}
		if image.used != want {
			t.Errorf("seed %d: used = %d, want %d for %v", seed, image.used, want, image.Paths())
		}
	}
	for name, image := range images {
		if image.used != 5 {
			t.Errorf("%s: used = %d, want 5", name, image.used)
		}
	}
}
