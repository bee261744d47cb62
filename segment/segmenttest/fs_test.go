package segmenttest

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestErrors(t *testing.T) {
	f := New()
	check(t, f.MkdirAll("d/sub"))
	put(t, f, "d/file", "x")
	open := func(path string) error {
		_, err := f.Open(path)
		return err
	}
	make := func(path string) error {
		_, err := f.Create(path)
		return err
	}
	list := func(path string) error {
		_, err := f.List(path)
		return err
	}
	_, readOnly := f.OpenReadOnly("d/none")
	tests := []struct {
		name string
		got  error
		want error
	}{
		{"open missing", open("d/none"), iofs.ErrNotExist},
		{"open read-only missing", readOnly, iofs.ErrNotExist},
		{"open in missing directory", open("none/file"), iofs.ErrNotExist},
		{"open empty path", open(""), iofs.ErrNotExist},
		{"open directory", open("d"), syscall.EISDIR},
		{"open below file", open("d/file/x"), syscall.ENOTDIR},
		{"create existing", make("d/file"), iofs.ErrExist},
		{"create over directory", make("d"), iofs.ErrExist},
		{"create in missing directory", make("none/file"), iofs.ErrNotExist},
		{"rename missing", f.Rename("d/none", "d/x"), iofs.ErrNotExist},
		{"rename to missing directory", f.Rename("d/file", "none/x"), iofs.ErrNotExist},
		{"rename from missing directory", f.Rename("none/x", "d/x"), iofs.ErrNotExist},
		{"rename file over directory", f.Rename("d/file", "d/sub"), syscall.EISDIR},
		{"rename directory over file", f.Rename("d/sub", "d/file"), syscall.ENOTDIR},
		{"rename directory over directory", f.Rename("d/sub", "d"), iofs.ErrExist},
		{"rename directory to other parent", f.Rename("d/sub", "sub"), syscall.EXDEV},
		{"rename root", f.Rename("/", "d/x"), syscall.EBUSY},
		{"remove missing", f.Remove("d/none"), iofs.ErrNotExist},
		{"remove below missing", f.Remove("none/x"), iofs.ErrNotExist},
		{"remove full directory", f.Remove("d"), syscall.ENOTEMPTY},
		{"remove root", f.Remove("."), syscall.EBUSY},
		{"list missing", list("none"), iofs.ErrNotExist},
		{"list file", list("d/file"), syscall.ENOTDIR},
		{"mkdir over file", f.MkdirAll("d/file"), syscall.ENOTDIR},
		{"mkdir below file", f.MkdirAll("d/file/x/y"), syscall.ENOTDIR},
		{"sync missing directory", f.SyncDir("none"), iofs.ErrNotExist},
		{"sync file as directory", f.SyncDir("d/file"), syscall.ENOTDIR},
	}
	for _, tt := range tests {
		if !errors.Is(tt.got, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	wantFiles(t, "after failed calls", f, map[string]string{"d/file": "x"})
}

func TestNames(t *testing.T) {
	f := New()
	check(t, f.MkdirAll("/d/sub/deep"))
	check(t, f.MkdirAll("d/sub")) // exists
	for _, name := range []string{"a", "b", "c"} {
		check(t, create(t, f, "d/"+name).Close())
	}
	check(t, f.Rename("d/a", "/d/sub/../e"))
	check(t, f.Remove("d/b"))
	check(t, f.Remove("d/sub/deep"))
	check(t, f.Rename("d/sub", "d/~sub"))
	names, err := f.List("d/")
	check(t, err)
	slices.Sort(names)
	if want := []string{"c", "e", "~sub"}; !slices.Equal(names, want) {
		t.Errorf("List = %q, want %q", names, want)
	}
	if got, want := f.Paths(), []string{"d/c", "d/e"}; !slices.Equal(got, want) {
		t.Errorf("Paths = %q, want %q", got, want)
	}
}

func TestListOrderVaries(t *testing.T) {
	f := New()
	for i := range 8 {
		put(t, f, fmt.Sprint(i), "")
	}
	first, err := f.List("/")
	check(t, err)
	for range 20 {
		if names, _ := f.List("/"); !slices.Equal(names, first) {
			return
		}
	}
	t.Errorf("List returned %q 20 times, want other orders", first)
}

func TestRenameReplaces(t *testing.T) {
	f := New()
	put(t, f, "old", "old")
	put(t, f, "new", "new")
	h, err := f.Open("old")
	check(t, err)
	check(t, f.Rename("new", "old"))
	check(t, f.Rename("old", "old"))
	wantFiles(t, "after rename", f, map[string]string{"old": "new"})
	p := make([]byte, 3)
	if _, err := h.ReadAt(p, 0); err != nil || string(p) != "old" {
		t.Errorf("the replaced file's handle reads %q, %v, want old", p, err)
	}
}

func TestFileReadsAndWrites(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	write(t, h, "abc", 2*pageSize-1)
	if size, err := h.Size(); size != 2*pageSize+2 || err != nil {
		t.Errorf("Size = %d, %v, want %d", size, err, 2*pageSize+2)
	}
	p := make([]byte, 5)
	if n, err := h.ReadAt(p, 2*pageSize-2); n != 4 || err != io.EOF || string(p[:n]) != "\x00abc" {
		t.Errorf("ReadAt across the end = %d %q, %v, want 4 bytes and io.EOF", n, p[:n], err)
	}
	if n, err := h.ReadAt(p, 1<<40); n != 0 || err != io.EOF {
		t.Errorf("ReadAt past the end = %d, %v, want 0, io.EOF", n, err)
	}
	if n, err := h.ReadAt(p[:4], 2*pageSize-2); n != 4 || err != nil {
		t.Errorf("ReadAt up to the end = %d, %v, want 4, nil", n, err)
	}
	data := []byte("caller's")
	_, err := h.WriteAt(data, 0)
	check(t, err)
	data[0] = 'X'
	check(t, h.Allocate(10)) // never shrinks
	got, err := f.Bytes("f")
	check(t, err)
	if string(got[:8]) != "caller's" || len(got) != 2*pageSize+2 {
		t.Errorf("file is %d bytes %.8q, want a copy of what was written", len(got), got)
	}
}

func TestWriteOfPagesOfZeros(t *testing.T) {
	f := New()
	put(t, f, "f", strings.Repeat("a", 3*pageSize))
	h, err := f.Open("f")
	check(t, err)
	zeros := strings.Repeat("\x00", 2*pageSize)
	write(t, h, zeros+"b", 1)
	want := "a" + zeros + "b" + strings.Repeat("a", pageSize-2)
	wantFiles(t, "zeros and one byte", f, map[string]string{"f": want})
	write(t, h, zeros, pageSize+1)
	want = "a" + zeros + zeros[:pageSize]
	wantFiles(t, "zeros only", f, map[string]string{"f": want})
}

func TestTruncateZeroes(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	write(t, h, "abcdef", 0)
	write(t, h, "xyz", pageSize)
	check(t, h.Truncate(2))
	check(t, h.Allocate(4))
	check(t, h.Truncate(5))
	wantFiles(t, "cut and extended", f, map[string]string{"f": "ab\x00\x00\x00"})
}

func TestHandleErrors(t *testing.T) {
	f := New()
	put(t, f, "f", "abc")
	ro, err := f.OpenReadOnly("f")
	check(t, err)
	_, errWrite := ro.WriteAt([]byte("x"), 0)
	for name, err := range map[string]error{
		"WriteAt": errWrite, "Allocate": ro.Allocate(10), "Truncate": ro.Truncate(0),
	} {
		if !errors.Is(err, syscall.EBADF) {
			t.Errorf("%s of a read-only file: error %v, want EBADF", name, err)
		}
	}
	rw, err := f.Open("f")
	check(t, err)
	for _, off := range []int64{-1, 1<<63 - 1} {
		if _, err := rw.WriteAt([]byte("x"), off); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("WriteAt offset %d: error %v, want EINVAL", off, err)
		}
	}
	if err := rw.Truncate(-1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Truncate(-1): error %v, want EINVAL", err)
	}
	if got, want := f.OpenFiles(), []string{"f", "f"}; !slices.Equal(got, want) {
		t.Errorf("OpenFiles = %q, want %q", got, want)
	}
	check(t, ro.Close())
	check(t, rw.Close())
	if got := f.OpenFiles(); len(got) != 0 {
		t.Errorf("OpenFiles after Close = %q, want none", got)
	}
	_, errRead := rw.ReadAt(make([]byte, 1), 0)
	_, errWrite = rw.WriteAt([]byte("x"), 0)
	_, errSize := rw.Size()
	for name, err := range map[string]error{
		"ReadAt": errRead, "WriteAt": errWrite, "Size": errSize, "Allocate": rw.Allocate(1),
		"Truncate": rw.Truncate(0), "Datasync": rw.Datasync(), "Close": rw.Close(),
	} {
		if !errors.Is(err, iofs.ErrClosed) {
			t.Errorf("%s of a closed file: error %v, want ErrClosed", name, err)
		}
	}
	wantFiles(t, "after refused writes", f, map[string]string{"f": "abc"})
}

func TestConcurrentUse(t *testing.T) { // for the race detector
	f := New()
	h := create(t, f, "shared")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				own := fmt.Sprintf("%d-%d", i, j)
				mine, err := f.Create(own)
				if err != nil {
					t.Errorf("Create(%s): %v", own, err)
					return
				}
				_, errWrite := h.WriteAt([]byte{byte(i)}, int64(i))
				_, errRead := h.ReadAt(make([]byte, 1), int64(i))
				image := f.PowerCut(CutOptions{Seed: uint64(j)})
				if kept, err := image.Open("shared"); err == nil {
					_, err = kept.WriteAt([]byte("image"), 0)
					errWrite = errors.Join(errWrite, err)
				}
				err = errors.Join(errWrite, h.Datasync(), mine.Close(), f.SyncDir("/"))
				err = errors.Join(err, f.Remove(own))
				if err != nil || errRead != nil && errRead != io.EOF {
					t.Errorf("goroutine %d, round %d: %v, read %v", i, j, err, errRead)
				}
			}
		})
	}
	wg.Wait()
	wantFiles(t, "at the end", f, map[string]string{"shared": "\x00\x01\x02\x03\x04\x05\x06\x07"})
}
