package segment

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system.
type OS struct{}

var _ FS = OS{}

// Create implements [FS].
func (OS) Create(path string) (File, error) {
	return openOS(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open implements [FS].
func (OS) Open(path string) (File, error) { return openOS(path, os.O_RDWR) }

// OpenReadOnly implements [FS].
func (OS) OpenReadOnly(path string) (File, error) { return openOS(path, os.O_RDONLY) }

// Rename implements [FS].
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements [FS].
func (OS) Remove(path string) error { return os.Remove(path) }

// List implements [FS].
func (OS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// MkdirAll implements [FS]. Directories above the new ones, which it need not own, may be such that
// it cannot sync them.
func (fs OS) MkdirAll(dir string) error { return mkdirAll(dir, fs.SyncDir) }

// mkdirAll makes dir and syncs all the directories above it.
func mkdirAll(dir string, syncDir func(string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	found := dir // the deepest directory on the way that was there before
	for _, err := os.Stat(found); errors.Is(err, os.ErrNotExist); _, err = os.Stat(found) {
		found = filepath.Dir(found)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if found, err = filepath.EvalSymlinks(found); err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		parent := filepath.Dir(dir)
		isNew := len(dir) > len(found)
		if err := syncDir(parent); err != nil && (isNew || !notOurs(err)) {
			return err
		}
	}
	return nil
}

// notOurs reports whether an error of syncing a directory says that this process has no business
// there, rather than that the disk fails.
func notOurs(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP)
}

// Space returns how many bytes of the disk that dir is on are free for this process, and how many
// it has.
func (OS) Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}

// SyncDir implements [FS].
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// osFile is a [File] of the operating system.
type osFile struct{ *os.File }

func openOS(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) extend(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	return f.Truncate(size)
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// NextData implements [File]. Blocks that are reserved and were never written count as holes.
func (f osFile) NextData(off int64) (int64, error) {
	next, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	switch {
	case err == nil:
		return next, nil
	case errors.Is(err, unix.ENXIO):
		return f.Size()
	}
	return off, nil // the file system cannot tell
}
