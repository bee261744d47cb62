package segmenttest

import (
	"syscall"
	"unsafe"

	"github.com/kestrelmq/kestrel/segment"
)

// blockSize is what [FS.Uncached] asks for in offsets, lengths and addresses, in bytes.
const blockSize = 4096

// uncachedFS is an FS whose files are read and written in whole blocks.
type uncachedFS struct{ *FS }

// Uncached implements segment.UncachedFS. ReadAt and WriteAt of the view's files return EINVAL unless offset, length
// and address of the memory are multiples of 4096. So does a disk that is used past the page cache, at its strictest.
// Such a call is not counted. In all else the view is the FS: what was written is durable after Datasync, and not
// before.
func (f *FS) Uncached() segment.FS { return uncachedFS{f} }

// Create implements segment.FS.
func (f uncachedFS) Create(path string) (segment.File, error) { return inBlocks(f.FS.Create(path)) }

// Open implements segment.FS.
func (f uncachedFS) Open(path string) (segment.File, error) { return inBlocks(f.FS.Open(path)) }

// OpenReadOnly implements segment.FS.
func (f uncachedFS) OpenReadOnly(path string) (segment.File, error) {
	return inBlocks(f.FS.OpenReadOnly(path))
}

func inBlocks(h segment.File, err error) (segment.File, error) {
	if err != nil {
		return nil, err
	}
	return uncachedFile{h.(*file)}, nil
}

type uncachedFile struct{ *file }

// ReadAt implements segment.File.
func (h uncachedFile) ReadAt(p []byte, off int64) (int, error) {
	if !isBlocks(p, off) {
		return 0, pathError(OpReadAt, h.path, syscall.EINVAL)
	}
	return h.file.ReadAt(p, off)
}

// WriteAt implements segment.File.
func (h uncachedFile) WriteAt(p []byte, off int64) (int, error) {
	if !isBlocks(p, off) {
		return 0, pathError(OpWriteAt, h.path, syscall.EINVAL)
	}
	return h.file.WriteAt(p, off)
}

func isBlocks(p []byte, off int64) bool {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	return (uint64(address)|uint64(len(p))|uint64(off))%blockSize == 0
}
