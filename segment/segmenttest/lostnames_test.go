package segmenttest

import (
	"syscall"
	"testing"
)

func TestFailedSyncDir(t *testing.T) {
	f := New()
	put(t, f, "old", "")
	check(t, create(t, f, "f").Close())
	check(t, f.Remove("old"))
	f.SetFault(FailNth(OpSyncDir, 1, syscall.EIO))
	if err := f.SyncDir("/"); err == nil {
		t.Fatalf("SyncDir with a fault: no error")
	}
	check(t, f.SyncDir("/")) // succeeds and proves nothing
	wantFiles(t, "now", f, map[string]string{"f": ""})
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"old": ""})
	killed := f.Kill()
	check(t, killed.SyncDir("/"))
	wantFiles(t, "kill, sync, lose", killed.PowerCut(lose), map[string]string{"old": ""})
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("old", "f")), " -", " ", "- -", "- ")

	check(t, create(t, f, "g").Close())
	check(t, f.SyncDir("/")) // covers what was done since
	wantFiles(t, "lose, with a later name", f.PowerCut(lose), map[string]string{"old": "", "g": ""})

	check(t, f.Rename("f", "h")) // builds on the create that was dropped
	check(t, f.SyncDir("/"))
	wantFiles(t, "lose, renamed", f.PowerCut(lose), map[string]string{"old": "", "g": "", "h": ""})
}

func TestFailedSyncDirOfRename(t *testing.T) { // the dropped rename stays one operation
	f := New()
	put(t, f, "a", "A")
	check(t, f.Rename("a", "b"))
	f.SetFault(FailNth(OpSyncDir, 1, syscall.EIO))
	if err := f.SyncDir("/"); err == nil {
		t.Fatalf("SyncDir with a fault: no error")
	}
	check(t, f.SyncDir("/"))
	for _, reorder := range []bool{false, true} {
		opts := CutOptions{ReorderMetadata: reorder}
		wantOutcomes(t, outcomes(f, opts, contents("a", "b")), "A -", "- A")
	}
	check(t, f.Rename("b", "c"))
	for _, reorder := range []bool{false, true} {
		got := outcomes(f, CutOptions{ReorderMetadata: reorder}, contents("a", "b", "c"))
		wantOutcomes(t, got, "A - -", "- A -", "- - A")
	}
	check(t, f.SyncDir("/"))
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("a", "b", "c")), "- - A")
}

func TestFailedSyncDirKeepingDirty(t *testing.T) {
	f := New()
	check(t, create(t, f, "f").Close())
	f.SetFault(func(op Op) Fault {
		if op.Kind == OpSyncDir && op.KindN == 1 {
			return Fault{Err: syscall.EINTR, KeepDirty: true}
		}
		return Fault{}
	})
	if err := f.SyncDir("/"); err == nil {
		t.Fatalf("SyncDir with a fault: no error")
	}
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{})
	check(t, f.SyncDir("/"))
	wantFiles(t, "lose after the second call", f.PowerCut(lose), map[string]string{"f": ""})
}

func TestFailedSyncDirOfOneDirectory(t *testing.T) { // the other half of a rename is not affected
	f := New()
	put(t, f, "d/f", "F")
	check(t, f.MkdirAll("e"))
	check(t, f.Rename("d/f", "e/f"))
	f.SetFault(FailNth(OpSyncDir, 1, syscall.EIO))
	if err := f.SyncDir("d"); err == nil {
		t.Fatalf("SyncDir with a fault: no error")
	}
	check(t, f.SyncDir("d"))
	check(t, f.SyncDir("e"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"d/f": "F", "e/f": "F"})
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("d/f", "e/f")), "F F", "- F")
}

func TestFailedSyncDirOfTwoDirectories(t *testing.T) {
	f := New()
	for _, dir := range []string{"d", "e"} {
		check(t, f.MkdirAll(dir))
		check(t, create(t, f, dir+"/f").Close())
	}
	f.SetFault(func(op Op) Fault {
		if op.Kind == OpSyncDir && op.KindN <= 2 {
			return Fault{Err: syscall.EIO}
		}
		return Fault{}
	})
	for _, dir := range []string{"d", "e"} {
		if err := f.SyncDir(dir); err == nil {
			t.Fatalf("SyncDir(%s) with a fault: no error", dir)
		}
	}
	check(t, f.SyncDir("d"))
	check(t, f.SyncDir("e"))
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{})
}
