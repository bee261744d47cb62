package segmenttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

func TestFaultBeforeAnything(t *testing.T) {
	type file = segment.File
	one := []byte("x")
	calls := map[OpKind]func(f *FS, h file) error{
		OpCreate:       func(f *FS, _ file) error { _, err := f.Create("new"); return err },
		OpOpen:         func(f *FS, _ file) error { _, err := f.Open("f"); return err },
		OpOpenReadOnly: func(f *FS, _ file) error { _, err := f.OpenReadOnly("f"); return err },
		OpRename:       func(f *FS, _ file) error { return f.Rename("f", "g") },
		OpRemove:       func(f *FS, _ file) error { return f.Remove("f") },
		OpList:         func(f *FS, _ file) error { _, err := f.List("/"); return err },
		OpMkdirAll:     func(f *FS, _ file) error { return f.MkdirAll("d") },
		OpSyncDir:      func(f *FS, _ file) error { return f.SyncDir("/") },
		OpReadAt:       func(_ *FS, h file) error { _, err := h.ReadAt(one, 0); return err },
		OpWriteAt:      func(_ *FS, h file) error { _, err := h.WriteAt(one, 0); return err },
		OpAllocate:     func(_ *FS, h file) error { return h.Allocate(10) },
		OpTruncate:     func(_ *FS, h file) error { return h.Truncate(0) },
		OpSize:         func(_ *FS, h file) error { _, err := h.Size(); return err },
		OpWriteOut:     func(_ *FS, h file) error { return h.WriteOut(0, 3) },
		OpDatasync:     func(_ *FS, h file) error { return h.Datasync() },
		OpClose:        func(_ *FS, h file) error { return h.Close() },
	}
	if len(calls) != int(opKinds) || opKinds.String() != "OpKind(16)" {
		t.Errorf("%d calls, want one of each kind up to %v", len(calls), opKinds)
	}
	for kind := range opKinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := New()
			h := create(t, f, "f")
			write(t, h, "abc", 0)
			files, durable := dump(t, f), dump(t, f.PowerCut(lose))
			f.SetFault(FailNth(kind, f.Calls(kind)+1, syscall.EIO))
			if err := calls[kind](f, h); !errors.Is(err, syscall.EIO) {
				t.Errorf("error %v, want EIO", err)
			}
			wantFiles(t, "after the fault", f, files)
			wantFiles(t, "after the fault, lose", f.PowerCut(lose), durable)
			if got := len(f.OpenFiles()); (got == 0) != (kind == OpClose) {
				t.Errorf("%d files open, want 1, and 0 if Close failed", got)
			}
			if err := calls[kind](f, h); err != nil && kind != OpClose {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

func TestShortWrite(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EIO, syscall.EINTR} {
		f := New()
		h := create(t, f, "f")
		write(t, h, "------", 0)
		check(t, h.Datasync())
		check(t, f.SyncDir("/"))
		f.SetFault(func(op Op) Fault { return Fault{Err: errno, Bytes: op.Size - 2} })
		n, err := h.WriteAt([]byte("abcd"), 1)
		if n != 2 || !errors.Is(err, errno) {
			t.Errorf("WriteAt = %d, %v, want 2, %v", n, err, errno)
		}
		wantFiles(t, "short write", f, map[string]string{"f": "-ab---"})
		wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"f": "------"})
		f.SetFault(nil)
		check(t, h.Datasync())
		wantFiles(t, "synced", f.PowerCut(lose), map[string]string{"f": "-ab---"})
	}
}

func TestFaultBytesAreBounded(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	for bytes, want := range map[int]int{-1: 0, 100: 3} {
		f.SetFault(func(Op) Fault { return Fault{Err: syscall.EIO, Bytes: bytes} })
		if n, err := h.WriteAt([]byte("abc"), 0); n != want || err == nil {
			t.Errorf("WriteAt with a fault after %d bytes = %d, %v, want %d", bytes, n, err, want)
		}
	}
}

func TestFailedDatasync(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	check(t, f.SyncDir("/"))
	write(t, h, "durable", 0)
	check(t, h.Datasync())
	write(t, h, "DROPPED and longer", 0)
	f.SetFault(FailNth(OpDatasync, f.Calls(OpDatasync)+1, syscall.EIO))
	if err := h.Datasync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Datasync = %v, want EIO", err)
	}
	check(t, h.Datasync()) // succeeds and proves nothing
	wantFiles(t, "now", f, map[string]string{"f": "DROPPED and longer"})
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"f": "durable"})

	again, err := f.Open("f") // nor does another handle help, nor a restart
	check(t, err)
	check(t, again.Datasync())
	killed := f.Kill()
	reopened, err := killed.Open("f")
	check(t, err)
	check(t, reopened.Datasync())
	wantFiles(t, "kill, sync, lose", killed.PowerCut(lose), map[string]string{"f": "durable"})
	wantFiles(t, "keep", f.PowerCut(CutOptions{Mode: Keep}),
		map[string]string{"f": "DROPPED and longer"})
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("f")), "durable", "DROPPED and longer",
		"durable"+strings.Repeat("\x00", 11))
}

func TestWriteAfterFailedDatasync(t *testing.T) { // only what is written again becomes durable
	f := New()
	h := create(t, f, "f")
	check(t, f.SyncDir("/"))
	write(t, h, "......", 0)
	check(t, h.Datasync())
	write(t, h, "abcdef", 0)
	f.SetFault(FailNth(OpDatasync, 2, syscall.EIO))
	if err := h.Datasync(); err == nil {
		t.Fatalf("Datasync with a fault: no error")
	}
	write(t, h, "XY", 2)
	write(t, h, "tail", 8)
	check(t, h.Datasync())
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"f": "..XY..\x00\x00tail"})
	wantOutcomes(t, outcomes(f, CutOptions{}, contents("f")),
		"..XY..\x00\x00tail", "abXYef\x00\x00tail")
	write(t, h, "unsynced", 0)
	wantFiles(t, "lose, with another write", f.PowerCut(lose),
		map[string]string{"f": "..XY..\x00\x00tail"})
}

func TestFailedDatasyncKeepingDirty(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	check(t, f.SyncDir("/"))
	write(t, h, "abc", 0)
	f.SetFault(func(Op) Fault { return Fault{Err: syscall.EINTR, KeepDirty: true} })
	if err := h.Datasync(); !errors.Is(err, syscall.EINTR) {
		t.Errorf("Datasync = %v, want EINTR", err)
	}
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"f": ""})
	f.SetFault(nil)
	check(t, h.Datasync())
	wantFiles(t, "lose after the second call", f.PowerCut(lose), map[string]string{"f": "abc"})
}

func TestFailHelpers(t *testing.T) {
	run := func(hook func(Op) Fault) string {
		f := New()
		h := create(t, f, "f")
		f.SetFault(hook)
		var b strings.Builder
		for range 5 {
			_, err := h.WriteAt([]byte("x"), 0)
			check(t, h.Truncate(0)) // other kinds are not counted and do not fail
			b.WriteByte(map[bool]byte{true: '.', false: 'E'}[err == nil])
		}
		return b.String()
	}
	if got := run(FailNth(OpWriteAt, 3, syscall.EIO)); got != "..E.." {
		t.Errorf("FailNth 3: %s, want ..E..", got)
	}
	if got := run(FailAllFrom(OpWriteAt, 3, syscall.EIO)); got != "..EEE" {
		t.Errorf("FailAllFrom 3: %s, want ..EEE", got)
	}
}

func TestHookSeesCalls(t *testing.T) {
	f := New()
	var got []string
	f.SetFault(func(op Op) Fault {
		got = append(got, fmt.Sprintf("%d.%d %v %s>%s %d+%d",
			op.N, op.KindN, op.Kind, op.Path, op.To, op.Offset, op.Size))
		return Fault{}
	})
	h := create(t, f, "/a")
	check(t, f.Rename("a", "b"))
	write(t, h, "abc", 7)
	write(t, h, "d", 1)
	check(t, h.Allocate(20))
	check(t, h.Close())
	if err := h.Close(); err == nil { // reaches no disk
		t.Errorf("second Close: no error")
	}
	want := []string{
		"1.1 create /a> 0+0", "2.1 rename a>b 0+0", "3.1 write /a> 7+3", "4.2 write /a> 1+1",
		"5.1 allocate /a> 0+20", "6.1 close /a> 0+0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("hook saw %q, want %q", got, want)
	}
	if w, m := f.Calls(OpWriteAt), f.MutatingCalls(); w != 2 || m != 5 {
		t.Errorf("Calls(OpWriteAt) = %d, MutatingCalls = %d, want 2 and 5", w, m)
	}
}

func TestDiskFull(t *testing.T) {
	f := New()
	put(t, f, "old", "12345")
	h := create(t, f, "f")
	f.DiskFull(10)
	n, err := h.WriteAt([]byte("abcdefgh"), 0)
	if n != 5 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteAt of 8 bytes with room for 5 = %d, %v, want 5, ENOSPC", n, err)
	}
	wantFull := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: error %v, want ENOSPC", what, err)
		}
	}
	n, err = h.WriteAt([]byte("x"), 100)
	wantFull("WriteAt past the end", err)
	if n != 0 {
		t.Errorf("WriteAt past the end wrote %d bytes, want 0", n)
	}
	wantFull("Allocate", h.Allocate(6))
	wantFull("Truncate", h.Truncate(6))
	write(t, h, "ABCDE", 0) // inside the file
	check(t, h.Allocate(5))
	wantFiles(t, "full", f, map[string]string{"old": "12345", "f": "ABCDE"})

	check(t, h.Truncate(3)) // gives 2
	check(t, h.Allocate(5))
	old, err := f.Open("old")
	check(t, err)
	check(t, f.Remove("old"))
	wantFull("Allocate with the removed file open", h.Allocate(6))
	check(t, old.Close()) // gives 5
	check(t, h.Allocate(10))
	wantFull("Allocate when full again", h.Allocate(11))

	check(t, h.Truncate(4))
	put(t, f, "new", "123456")
	check(t, f.Rename("f", "new")) // gives 6
	check(t, h.Allocate(10))
	f.DiskFull(-1)
	check(t, h.Allocate(1<<40))
}
