package segment

import (
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// directAlign is what offsets, sizes and memory of direct writes are multiples of: the block size
// of the file systems there are.
const directAlign = 4096

// sequentialFS is a file system that can read and write past the page cache.
type sequentialFS interface {
	// CreateSequential is Create for a file that is only ever appended to, and read by others.
	CreateSequential(path string) (File, error)
	// OpenSequential is OpenReadOnly for a file that is read from its start to its end.
	OpenSequential(path string) (File, error)
}

var _ sequentialFS = OS{}

// directFile is a file that is appended to past the page cache, where the file system can do that:
// what is written once, and read once much later, would only drive other pages out, and a page of
// the cache costs more to make than the write itself; docs/decisions/0014-direct-backlogs.md has
// the figures. The last block is written anew with what comes behind it; up to the next write the
// file ends in zeros. One goroutine at a time writes.
type directFile struct {
	osFile
	direct bool
	end    int64  // bytes that were written
	room   []byte // aligned; begins with what the last block holds, end % directAlign bytes
}

// CreateSequential creates a file that is written from its start to its end.
func (OS) CreateSequential(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_CLOEXEC, 0o640)
	if err != nil {
		return nil, err
	}
	d := &directFile{osFile: osFile{f}}
	d.direct = d.setDirect(true) == nil
	return d, nil
}

// setDirect turns the page cache off or on for what goes through f.
func (f osFile) setDirect(direct bool) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags &^= unix.O_DIRECT; direct {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	return err
}

// WriteAt implements [File]. What does not follow the last write, or cannot be written directly
// after all, goes through the page cache, as everything after it.
func (d *directFile) WriteAt(p []byte, off int64) (int, error) {
	if !d.direct || off != d.end {
		return d.writeCached(p, off)
	}
	kept := int(off % directAlign)
	whole := (kept + len(p) + directAlign - 1) &^ (directAlign - 1)
	d.grow(whole, kept)
	used := kept + copy(d.room[kept:], p)
	clear(d.room[used:whole])
	n, err := d.osFile.WriteAt(d.room[:whole], off-int64(kept))
	if errors.Is(err, unix.EINVAL) {
		return d.writeCached(p, off)
	}
	if err == nil && n < whole {
		err = io.ErrShortWrite
	}
	if err != nil {
		return min(max(n-kept, 0), len(p)), err
	}
	d.end += int64(len(p))
	copy(d.room, d.room[used&^(directAlign-1):used])
	return len(p), nil
}

func (d *directFile) writeCached(p []byte, off int64) (int, error) {
	if d.direct {
		if err := d.setDirect(false); err != nil {
			return 0, &os.PathError{Op: "fcntl", Path: d.Name(), Err: err}
		}
		d.direct, d.room = false, nil
	}
	return d.osFile.WriteAt(p, off)
}

// grow makes sure that room has size bytes, keeping its first kept.
func (d *directFile) grow(size, kept int) {
	if size <= len(d.room) {
		return
	}
	room := alignedBytes(size)
	copy(room, d.room[:kept])
	d.room = room
}

// alignedBytes makes a slice that direct reads and writes can use.
func alignedBytes(size int) []byte {
	raw := make([]byte, size+directAlign)
	skip := -int(uintptr(unsafe.Pointer(&raw[0]))) & (directAlign - 1)
	return raw[skip : skip+size]
}

// directAhead is how many bytes a direct reader asks for at least: a frame of a backlog, about.
const directAhead = 260 << 10

// directReader reads past the page cache, ahead of who reads in order. One goroutine at a time uses
// it.
type directReader struct {
	osFile
	ahead []byte // aligned; what was read last
	at    int64  // offset of ahead in the file
}

// OpenSequential implements reading from start to end.
func (OS) OpenSequential(path string) (File, error) {
	f, err := openOS(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if f.(osFile).setDirect(true) != nil {
		return f, nil
	}
	return &directReader{osFile: f.(osFile)}, nil
}

// ReadAt implements [File].
func (d *directReader) ReadAt(p []byte, off int64) (int, error) {
	if i := off - d.at; i >= 0 && i+int64(len(p)) <= int64(len(d.ahead)) {
		return copy(p, d.ahead[i:]), nil
	}
	if err := d.read(off, len(p)); err != nil {
		return 0, err
	}
	n := copy(p, d.ahead[min(off-d.at, int64(len(d.ahead))):])
	// The last block of a file that grows is written anew: what it holds is not kept.
	d.ahead = d.ahead[:max(len(d.ahead)-directAlign, 0)]
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read fills ahead from off on, with size bytes or more, as far as the file has them.
func (d *directReader) read(off int64, size int) error {
	d.at = off &^ (directAlign - 1)
	want := (max(int(off-d.at)+size, directAhead) + directAlign - 1) &^ (directAlign - 1)
	if cap(d.ahead) < want {
		d.ahead = alignedBytes(want)
	}
	n, err := d.osFile.ReadAt(d.ahead[:want], d.at)
	d.ahead = d.ahead[:n]
	if errors.Is(err, unix.EINVAL) {
		if err = d.setDirect(false); err == nil {
			n, err = d.osFile.ReadAt(d.ahead[:want], d.at)
			d.ahead = d.ahead[:n]
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
