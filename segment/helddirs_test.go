package segment_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// withoutDescriptors runs f while this process can open no file.
func withoutDescriptors(t *testing.T, f func()) {
	t.Helper()
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: was.Max}))
	defer func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)) }()
	if _, err := os.Open("."); err == nil {
		t.Fatal("a file can be opened")
	}
	f()
}

// TestDropWithoutDescriptors drops segments on the real disk while no file can be opened.
func TestDropWithoutDescriptors(t *testing.T) {
	dir, held := t.TempDir(), segment.NewHeldDirs()
	defer held.Close()
	must(t, held.Hold(dir))
	log, _, err := segment.Open(dir, segment.Options{FS: held, SegmentSize: 1024, Spares: 1}, collect(new([]batch)))
	must(t, err)
	for range 4 {
		_, _, err := log.Append(make([]byte, segment.FrameHeaderSize+700))
		must(t, err)
	}
	_, err = log.Sync()
	must(t, err)
	withoutDescriptors(t, func() {
		if n, err := log.DropBefore(4); n != 3 || err != nil {
			t.Errorf("DropBefore = %d, %v, want 3", n, err)
		}
	})
	must(t, log.Close())
}

// TestHeldDirsLetGo tests that a removed directory is closed, and that one made in its place is another one. A
// directory that is not held does not stay open.
func TestHeldDirsLetGo(t *testing.T) {
	held := segment.NewHeldDirs()
	dir := filepath.Join(t.TempDir(), "dir")
	for range 2 {
		must(t, held.MkdirAll(dir))
		must(t, held.Hold(dir+"/"))
		must(t, held.Hold(dir))
		must(t, held.SyncDir(dir))
		if n := openBelow(t, dir); n != 1 {
			t.Errorf("%d descriptors of the directory are open, want 1", n)
		}
		must(t, held.Remove(dir))
		if n := openBelow(t, dir); n != 0 {
			t.Errorf("%d descriptors of a removed directory are open", n)
		}
	}
	must(t, held.MkdirAll(dir))
	must(t, held.SyncDir(dir))
	if n := openBelow(t, dir); n != 0 {
		t.Errorf("%d descriptors are open of a directory that is not held", n)
	}
	must(t, held.Hold(dir))
	must(t, held.Close())
	if n := openBelow(t, dir); n != 0 {
		t.Errorf("%d descriptors are open after Close", n)
	}
}

// openBelow counts the descriptors of this process that lead to a path or below.
func openBelow(t *testing.T, path string) (n int) {
	t.Helper()
	const own = "/proc/self/fd"
	entries, err := os.ReadDir(own)
	if err != nil {
		t.Skip(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(own, e.Name())); err == nil && strings.HasPrefix(to, path) {
			n++
		}
	}
	return n
}
