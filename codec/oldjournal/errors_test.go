package oldjournal

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

// failingFS has files that the disk cannot read from an offset on. Their errors name them, as those of the operating
// system do.
type failingFS struct {
	fstest.MapFS
	from int64
}

func (f failingFS) Open(name string) (fs.File, error) {
	opened, err := f.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	return failingFile{opened.(file), "old/" + name, f.from}, nil
}

type failingFile struct {
	file
	path string
	from int64
}

func (f failingFile) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, &fs.PathError{Op: "read", Path: f.path, Err: syscall.EIO}
	}
	return f.file.ReadAt(p, off)
}

// TestErrorsNameFilesOnce reads files of a failing disk: at once, behind a break, and the data of an item.
func TestErrorsNameFilesOnce(t *testing.T) {
	item := Append(nil, &Record{Op: OpAddX, Added: 1, Data: []byte("one")})
	long := append(item, 0xff)
	long = append(long, make([]byte, 3*scanBuffer)...)
	for what, dir := range map[string]failingFS{
		"file":           {fstest.MapFS{"q": {Data: item}}, 0},
		"behind a break": {fstest.MapFS{"q": {Data: long}}, scanBuffer + 30},
	} {
		_, err := Load(dir, Files{"q", []string{"q"}}, LoadOptions{})
		wantOnce(t, what, err)
	}
	sound := fstest.MapFS{"q": {Data: item}}
	q, err := Load(sound, Files{"q", []string{"q"}}, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Bodies(failingFS{sound, 0}).Append(nil, q.Items[0])
	wantOnce(t, "data of an item", err)
}

func wantOnce(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, syscall.EIO) || strings.Count(err.Error(), "read ") != 1 || !strings.Contains(err.Error(), "old/q") {
		t.Errorf("%s: %v, want an error that names the file once", what, err)
	}
}
