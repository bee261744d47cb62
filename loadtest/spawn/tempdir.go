package spawn

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockName is the file of a TempDir that is locked.
const lockName = "lock"

// mostTries is how many directories MakeTemp makes.
const mostTries = 10

// TempDir is a temporary directory. A lock in it is held while a process that uses it lives.
type TempDir struct {
	Path string
	Lock *os.File // for processes that use the directory, too: a copy holds the lock as well
}

// MakeTemp makes a directory in parent, by default that of the system for temporary files. Its name begins with name. It
// first removes those of that name whose processes were killed.
func MakeTemp(parent, name string) (*TempDir, error) {
	parent = cmp.Or(parent, os.TempDir())
	removeLeftovers(parent, name+"-")
	for try := 1; ; try++ {
		path, err := os.MkdirTemp(parent, name+"-")
		if err != nil {
			return nil, err
		}
		lock, err := lockIn(path, os.O_CREATE, unix.LOCK_EX)
		if err == nil {
			return &TempDir{path, lock}, nil
		}
		os.RemoveAll(path)
		if try == mostTries { // else another process may have taken it for a leftover before it was locked
			return nil, err
		}
	}
}

// Remove removes the directory. If it is killed meanwhile, the next MakeTemp goes on: the lock goes last.
func (d *TempDir) Remove() error {
	defer d.Lock.Close()
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != lockName {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.Path, entry.Name())))
		}
	}
	return errors.Join(err, os.RemoveAll(d.Path))
}

// lockIn locks a directory. It returns an error that wraps [os.ErrNotExist] if the directory was removed meanwhile.
func lockIn(dir string, flags, how int) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	lock, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	var here, there os.FileInfo
	if err = unix.Flock(int(lock.Fd()), how); err == nil {
		here, err = lock.Stat()
	}
	if err == nil {
		there, err = os.Lstat(path)
	}
	if err == nil && !os.SameFile(here, there) {
		err = os.ErrNotExist
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// removeLeftovers removes this user's directories of a name that nobody has locked. What cannot be removed stays, for the
// next one that can.
func removeLeftovers(parent, name string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, entry := range entries {
		number, named := strings.CutPrefix(entry.Name(), name)
		path := filepath.Join(parent, entry.Name())
		if !named || strings.Trim(number, "0123456789") != "" || !isMine(path) {
			continue
		}
		if lock, err := lockIn(path, 0, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			(&TempDir{path, lock}).Remove()
		}
	}
}

// isMine reports whether a directory is this user's own: nobody else has put something there.
func isMine(dir string) bool {
	var s unix.Stat_t
	return unix.Lstat(dir, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFDIR && int(s.Uid) == os.Geteuid()
}
