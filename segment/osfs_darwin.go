package segment

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Allocate implements [File].
func (f osFile) Allocate(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	err = unix.FcntlFstore(f.Fd(), unix.F_PREALLOCATE, &unix.Fstore_t{
		Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size - have,
	})
	// Where the file system cannot reserve blocks, it takes the length, and writes find out.
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("allocate %d bytes of %s: %w", size, f.Name(), err)
	}
	return f.extend(size)
}

// WriteOut implements [File]. macOS cannot write out a part of a file: Datasync does it all.
func (f osFile) WriteOut(off, n int64) error { return nil }

// Datasync implements [File]. Sync asks for F_FULLFSYNC: fsync alone leaves data in the disk's cache.
func (f osFile) Datasync() error { return f.Sync() }
