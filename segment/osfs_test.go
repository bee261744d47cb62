package segment_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// TestOS does on the real disk what a log asks of a file system.
func TestOS(t *testing.T) {
	dir, disk := t.TempDir(), segment.OS{}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	f, err := disk.Create(a)
	must(t, err)
	if _, err := disk.Create(a); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create of an existing file = %v, want ErrExist", err)
	}
	must(t, f.Allocate(100))
	_, err = f.WriteAt([]byte("hello"), 10)
	must(t, err)
	must(t, f.Allocate(50)) // smaller than it is: no change
	must(t, f.Datasync())
	if n, err := f.Size(); n != 100 || err != nil {
		t.Errorf("Size = %d, %v, want 100", n, err)
	}
	must(t, f.Truncate(15))
	must(t, f.Close())
	must(t, disk.Rename(a, b))
	must(t, disk.SyncDir(dir))
	if names, err := disk.List(dir); err != nil || !slices.Equal(names, []string{"b"}) {
		t.Errorf("List = %q, %v, want b", names, err)
	}
	r, err := disk.OpenReadOnly(b)
	must(t, err)
	defer r.Close()
	got := make([]byte, 20)
	if n, err := r.ReadAt(got, 0); n != 15 || err != io.EOF ||
		!bytes.Equal(got[:n], []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00hello")) {
		t.Errorf("ReadAt = %q, %v", got[:n], err)
	}
	if _, err := r.WriteAt([]byte("x"), 0); err == nil {
		t.Error("WriteAt of a file opened read-only works")
	}
	w, err := disk.Open(b)
	must(t, err)
	must(t, w.Close())
	must(t, disk.Remove(b))
	for what, err := range map[string]error{
		"Open": second(disk.Open(b)), "OpenReadOnly": second(disk.OpenReadOnly(b)),
		"Remove": disk.Remove(b), "Rename": disk.Rename(b, a),
		"List": second(disk.List(b)), "SyncDir": disk.SyncDir(b),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of what is missing = %v, want ErrNotExist", what, err)
		}
	}
	for what, err := range map[string]error{
		"Datasync": w.Datasync(), "Allocate": w.Allocate(10), "Size": second(w.Size()),
	} {
		if err == nil {
			t.Errorf("%s of a closed file works", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestOSLog lives a short life on the real disk.
func TestOSLog(t *testing.T) {
	s := newSession(nil, segment.Options{SegmentSize: 8192, Spares: 1})
	t.Chdir(t.TempDir())
	must(t, s.run([]step{
		opens, appends(10, 5000, 5000), syncs, drops(1), prepares, appends(8000, 20000), marks, closes,
		opens, appends(3), opens, // as if killed
	}))
	if s.found.Frames != 4 || s.found.Tear != nil {
		t.Errorf("Recovery = %+v, want the last 4 batches", s.found)
	}
}

func TestOSMkdirAll(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	var synced []string
	fail := map[string]error{}
	mkdir := func(name string) error {
		synced = nil
		return segment.MkdirAll(name, func(dir string) error {
			synced = append(synced, dir)
			return fail[dir]
		})
	}
	deep := filepath.Join(root, "a", "b", "c")
	must(t, mkdir(deep))
	var want []string
	for dir := deep; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		want = append(want, dir)
	}
	for range 2 { // also when all are there: an earlier process may not have got that far
		if !slices.Equal(synced, want) {
			t.Errorf("MkdirAll syncs %q, want %q", synced, want)
		}
		must(t, mkdir(deep))
	}

	must(t, os.Symlink(filepath.Join(root, "a"), filepath.Join(root, "link")))
	must(t, mkdir(filepath.Join(root, "link", "d")))
	if !slices.Equal(synced, want[1:]) {
		t.Errorf("through a symbolic link MkdirAll syncs %q, want %q", synced, want[1:])
	}
	t.Chdir(root)
	must(t, mkdir("a/e"))
	if !slices.Equal(synced, want[1:]) {
		t.Errorf("with a relative path MkdirAll syncs %q, want %q", synced, want[1:])
	}
	for _, err := range []error{fs.ErrPermission, syscall.EROFS, syscall.EINVAL} {
		fail = map[string]error{filepath.Dir(root): err}
		must(t, mkdir(deep)) // it is not ours
		fail = map[string]error{filepath.Join(root, "a"): err}
		if got := mkdir(filepath.Join(root, "a", "new"+err.Error())); !errors.Is(got, err) {
			t.Errorf("MkdirAll = %v, want %v: the new name is not durable", got, err)
		}
	}
	fail = map[string]error{filepath.Dir(root): syscall.EIO}
	if err := mkdir(deep); !errors.Is(err, syscall.EIO) {
		t.Errorf("MkdirAll = %v, want EIO", err)
	}
	must(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	for _, name := range []string{"file", "file/dir"} {
		if err := (segment.OS{}).MkdirAll(filepath.Join(root, name)); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("MkdirAll(%s) = %v, want ENOTDIR", name, err)
		}
	}
	must(t, segment.OS{}.MkdirAll(deep))
}
