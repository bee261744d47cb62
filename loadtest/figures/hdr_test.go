package figures

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWriteFile writes over a file, by a link to it, and to what is no regular file. A failure changes none of them.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			io.WriteString(w, s)
			return err
		}
	}
	full := errors.New("full")
	for _, err := range []error{
		WriteFile(file, text("one", nil)), os.Symlink(file, link), WriteFile(link, text("two", nil)), syscall.Mkfifo(pipe, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(link, text("half", full)); !errors.Is(err, full) {
		t.Errorf("WriteFile = %v, want %v", err, full)
	}
	if got, err := os.ReadFile(file); string(got) != "two" {
		t.Errorf("the file has %q, %v; want what was written last as a whole", got, err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := WriteFile(pipe, text("three", nil)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	n, err := reader.Read(got)
	if string(got[:n]) != "three" {
		t.Errorf("the pipe has %q, %v", got[:n], err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 || left[1].Type()&os.ModeSymlink == 0 {
		t.Errorf("left are %v, %v; want the file, the link and the pipe", left, err)
	}
}
