package segment

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// IO says how the file of a run is written.
type IO uint8

// The ways.
const (
	// Cached goes through the page cache.
	Cached IO = iota
	// Direct goes past it, in whole blocks, where the file system can. What is written once and read once, much later,
	// then takes neither memory nor the time to fill it from anybody.
	Direct
)

// blockSize, in bytes, divides offsets, lengths and addresses when a file is used past the page cache. Hardly a disk
// has larger sectors.
const blockSize = 4096

// UncachedFS is implemented by an [FS] that can go past the page cache.
type UncachedFS interface {
	// Uncached returns a view of the FS. It reads and writes the files opened through it in whole blocks of 4096 bytes:
	// offsets and addresses of memory are multiples of that. A read may reach past the end of the file.
	Uncached() FS
}

// Uncached returns the view of fsys that goes past the page cache, or fsys if it has none.
func Uncached(fsys FS) FS {
	if u, ok := fsys.(UncachedFS); ok {
		return u.Uncached()
	}
	return fsys
}

// WholeBlocks returns n rounded up to whole blocks of 4096 bytes.
func WholeBlocks[T int | int64](n T) T { return (n + blockSize - 1) &^ (blockSize - 1) }

// alignedTail returns the memory of b, empty, from the first multiple of align on; nil if there is
// none.
func alignedTail(b []byte, align int) []byte {
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(align-1))
	if skip >= cap(b) {
		return nil
	}
	return b[skip:skip]
}

// BlockBuffer returns an empty buffer for n bytes, for files that are used past the page cache. It begins at a
// multiple of a block, and has whole blocks. One of 1 MiB or more begins at a huge page, and lies in such where the
// kernel has them.
func BlockBuffer(n int) []byte {
	n = WholeBlocks(n)
	if n < HugePage/2 {
		return alignedTail(make([]byte, 0, n+blockSize), blockSize)[:0:n]
	}
	whole := (n + HugePage - 1) &^ (HugePage - 1)
	b := alignedTail(make([]byte, 0, whole+HugePage), HugePage)
	AdviseHuge(b[:whole])
	return b[:0:n]
}

// Uncached implements [UncachedFS].
func (fs OS) Uncached() FS { return uncachedOS{fs} }

// uncachedOS is OS with files that are used past the page cache, where their file system can.
type uncachedOS struct{ OS }

// Create implements [FS].
func (fs uncachedOS) Create(path string) (File, error) {
	return pastCache(openOS(path, os.O_RDWR|os.O_CREATE|os.O_EXCL))
}

// Open implements [FS].
func (fs uncachedOS) Open(path string) (File, error) { return pastCache(openOS(path, os.O_RDWR)) }

// OpenReadOnly implements [FS].
func (fs uncachedOS) OpenReadOnly(path string) (File, error) {
	return pastCache(openOS(path, os.O_RDONLY))
}

// pastCache has a file that was opened be used past the page cache from now on. It is asked for
// only once the file is open: a file system that cannot do it then leaves nothing half done.
func pastCache(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	file := uncachedFile{f.(osFile)}
	switch err := file.setDirect(true); {
	case errors.Is(err, unix.EINVAL):
		return f, nil
	case err != nil:
		return nil, errors.Join(&os.PathError{Op: "fcntl", Path: file.Name(), Err: err}, f.Close())
	}
	return file, nil
}

// uncachedFile is an osFile that is used past the page cache, until the kernel refuses.
type uncachedFile struct{ osFile }

// ReadAt implements io.ReaderAt.
func (f uncachedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.osFile.ReadAt(p, off)
	if errors.Is(err, unix.EINVAL) && f.setDirect(false) == nil {
		return f.osFile.ReadAt(p, off)
	}
	return n, err
}

// WriteAt implements io.WriterAt.
func (f uncachedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.osFile.WriteAt(p, off)
	if errors.Is(err, unix.EINVAL) && f.setDirect(false) == nil {
		return f.osFile.WriteAt(p, off)
	}
	return n, err
}
