package segment

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Allocate implements [File].
func (f osFile) Allocate(size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		// The file system cannot reserve blocks: take the length, and let writes find out.
		return f.extend(size)
	}
	if err != nil {
		return fmt.Errorf("allocate %d bytes of %s: %w", size, f.Name(), err)
	}
	return nil
}

// WriteOut implements [File].
func (f osFile) WriteOut(off, n int64) error {
	err := f.syncRange(off, n, unix.SYNC_FILE_RANGE_WRITE)
	if before := min(off, n); err == nil && before > 0 {
		err = f.syncRange(off-before, before, unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
	return err
}

func (f osFile) syncRange(off, n int64, flags int) error {
	for {
		switch err := unix.SyncFileRange(int(f.Fd()), off, n, flags); {
		case err == nil:
			return nil
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EINVAL):
			return nil // not here: Datasync does it all
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
		}
	}
}

// Datasync implements [File].
func (f osFile) Datasync() error {
	for {
		switch err := unix.Fdatasync(int(f.Fd())); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
