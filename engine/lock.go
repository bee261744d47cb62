package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

// dirLock keeps other processes out of a data directory. The operating system gives it up when the
// process ends, however it ends.
type dirLock struct{ file *os.File }

// lockDir makes dir if it is missing and locks it.
func lockDir(dir string) (*dirLock, error) {
	if err := (segment.OS{}).MkdirAll(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, err
	}
	return flock(f, unix.LOCK_EX)
}

// shareDir keeps processes that would change dir out of it, but not others that only read; it
// makes nothing. It returns nil if there is no lock to take: no engine was ever opened there.
func shareDir(dir string) (*dirLock, error) { return lockFound(dir, unix.LOCK_SH) }

// holdDir is shareDir that keeps all other processes out.
func holdDir(dir string) (*dirLock, error) { return lockFound(dir, unix.LOCK_EX) }

func lockFound(dir string, how int) (*dirLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return flock(f, how)
}

// flock takes the lock that f stands for, and closes f if it cannot.
func flock(f *os.File, how int) (*dirLock, error) {
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
