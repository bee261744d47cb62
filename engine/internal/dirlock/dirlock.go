package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

// ErrLocked is returned if another process has the directory. The engine returns it to its callers, so its
// words name the engine.
var ErrLocked = errors.New("engine: data directory is in use by another process")

// FileName is the file in the directory that stands for the lock.
const FileName = "LOCK"

// Lock is a lock on a directory. The operating system releases it when the process ends, however it ends.
// A nil Lock holds nothing.
type Lock struct{ file *os.File }

// Make makes dir if it is missing, and locks it against all other processes.
func Make(dir string) (*Lock, error) {
	if err := (segment.OS{}).MkdirAll(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, err
	}
	return flock(f, unix.LOCK_EX)
}

// Share locks dir against processes that would change it, but not against others that only read. It makes
// nothing. It returns nil if there is no lock to take: no engine has ever been opened there.
func Share(dir string) (*Lock, error) { return lockFound(dir, unix.LOCK_SH) }

// Hold is Share, but locks dir against all other processes.
func Hold(dir string) (*Lock, error) { return lockFound(dir, unix.LOCK_EX) }

func lockFound(dir string, how int) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return flock(f, how)
}

// flock takes the lock that f stands for, and closes f if it cannot.
func flock(f *os.File, how int) (*Lock, error) {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	var s unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &s)
	}
	switch {
	case err == nil && s.Nlink > 0:
		return &Lock{f}, nil
	case err == nil, errors.Is(err, unix.EWOULDBLOCK): // it is locked, or was, until its holder removed it
		err = ErrLocked
	default:
		err = fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	f.Close()
	return nil, err
}

// Release releases the lock.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
