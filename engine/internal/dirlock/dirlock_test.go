package dirlock

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLocks takes every lock beside every other one. The operating system tells locks of one process apart by
// the open file, so that is what two processes see.
func TestLocks(t *testing.T) {
	kinds := map[string]func(string) (*Lock, error){"make": Make, "share": Share, "hold": Hold}
	for first, takeFirst := range kinds {
		for second, takeSecond := range kinds {
			dir := filepath.Join(t.TempDir(), "data")
			release(t, Make, dir) // so that there is a lock to take
			a, err := takeFirst(dir)
			if err != nil || a == nil {
				t.Fatalf("%s = %v, %v", first, a, err)
			}
			want := ErrLocked
			if first == "share" && second == "share" {
				want = nil
			}
			b, err := takeSecond(dir)
			if err != want || (b != nil) != (want == nil) {
				t.Errorf("%s beside %s = %v, %v, want %v", second, first, b, err, want)
			}
			if err := b.Release(); err != nil {
				t.Errorf("Release = %v", err)
			}
			if err := a.Release(); err != nil {
				t.Errorf("Release = %v", err)
			}
			release(t, takeSecond, dir) // nobody has it any more
		}
	}
}

func release(t *testing.T, take func(string) (*Lock, error), dir string) {
	t.Helper()
	l, err := take(dir)
	if err != nil || l == nil {
		t.Fatalf("the lock of a directory that nobody has = %v, %v", l, err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestNoLock: where no engine has ever been opened, readers lock nothing and make nothing.
func TestNoLock(t *testing.T) {
	dir := t.TempDir()
	for _, take := range []func(string) (*Lock, error){Share, Hold} {
		if l, err := take(dir); l != nil || err != nil {
			t.Errorf("lock of an empty directory = %v, %v, want none", l, err)
		}
	}
	if names, err := os.ReadDir(dir); len(names) > 0 || err != nil {
		t.Errorf("the directory holds %v, %v, want nothing", names, err)
	}
}

// TestLockOfRemovedFile has somebody remove the directory, with its lock, between the open of that and the lock. What is
// locked then stands for nothing.
func TestLockOfRemovedFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), FileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	if l, err := flock(f, unix.LOCK_EX); l != nil || err != ErrLocked {
		t.Errorf("the lock of a file that is gone = %v, %v, want %v", l, err, ErrLocked)
	}
}
