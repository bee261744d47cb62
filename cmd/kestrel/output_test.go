package main

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
)

// fullOutput is a standard output on a disk that is full.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// TestLostOutput tests that a command fails whose output cannot be written, and says so in one line.
func TestLostOutput(t *testing.T) {
	dir := t.TempDir()
	e, err := engine.Open(engine.Options{Dir: dir, Settings: engine.Settings{Default: engine.DefaultQueueOptions()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(engine.Now(), []byte("work"), engine.PutRequest{Data: []byte("item")}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"version", "--version", "help", "help config", "journal", "journal export --help", "completion bash",
		"journal verify --data-dir DIR", "journal inspect --data-dir DIR", "journal inspect --json --data-dir DIR",
		"journal inspect work --data-dir DIR", "journal repair --data-dir DIR", "journal export work --output OUT --data-dir DIR",
		"backup --stopped --data-dir DIR --output OUT/backup", "user hash --help",
	} {
		out := t.TempDir()
		var errs strings.Builder
		code := run(strings.Fields(strings.NewReplacer("DIR", dir, "OUT", out).Replace(args)), fullOutput{}, &errs)
		said := errs.String()
		if code != 1 || strings.Count(said, "\n") != 1 || strings.Count(said, "write") != 1 ||
			!strings.HasPrefix(said, "kestrel: write ") || !strings.HasSuffix(said, ": no space left on device\n") {
			t.Errorf("kestrel %s with a full disk as its output ends with %d, want 1, and says\n%s", args, code, said)
		}
	}
}
