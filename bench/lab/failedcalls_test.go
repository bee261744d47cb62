package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFailedIn counts the calls that strace says it made fail, and no others.
func TestFailedIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls")
	said := `12 fdatasync(9</d/1.seg>) = -1 EIO (Input/output error) (INJECTED)
12 pwrite64(9, "(INJECTED)", 10, 0) = 10
13 openat(AT_FDCWD, "x", O_RDONLY) = -1 ENOENT (No such file or directory)
13 pwrite64(9, "a", 1, 0) = -1 EINTR (Interrupted system call) (INJECTED)
13 +++ killed by SIGKILL +++
`
	if err := os.WriteFile(file, []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := failedIn(file); n != 2 || err != nil {
		t.Errorf("%d calls failed, %v, want 2", n, err)
	}
	if _, err := failedIn(file + ".none"); err == nil {
		t.Error("a file that is not there has no error")
	}
}
