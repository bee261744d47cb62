package segment

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Map implements [Mapper]. The pages come from the disk in one system call, which the scheduler knows of. So no
// goroutine takes a major fault later on unless memory is short. Kernels before 5.14 cannot do that, and files are
// not mapped there.
func (f osFile) Map(off int64, n int) ([]byte, error) {
	mem, err := unix.Mmap(int(f.Fd()), off, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: f.Name(), Err: err}
	}
	AdviseHuge(mem)
	err = unix.Madvise(mem, unix.MADV_POPULATE_READ)
	for errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
		err = unix.Madvise(mem, unix.MADV_POPULATE_READ)
	}
	switch {
	case err == nil:
		return mem, nil
	case errors.Is(err, unix.EINVAL):
		err = errNoMap
	default:
		err = &os.PathError{Op: "madvise", Path: f.Name(), Err: err}
	}
	return nil, errors.Join(err, unix.Munmap(mem))
}

// Unmap implements [Mapper].
func (f osFile) Unmap(mem []byte, off int64) error {
	err := unix.Munmap(mem)
	unix.Fadvise(int(f.Fd()), off, int64(len(mem)), unix.FADV_DONTNEED) // or the kernel drops them later
	return err
}
