package segmenttest

import (
	iofs "io/fs"
	"math"
	"slices"
	"syscall"

	"github.com/kestrelmq/kestrel/segment"
)

// file is a handle of a file. It implements segment.File.
type file struct {
	// Immutable.
	fs       *FS
	node     *inode
	path     string // it was opened under
	readOnly bool

	closed bool // guarded by fs.mu
}

var _ segment.File = (*file)(nil)

func (f *FS) newFile(n *inode, path string, readOnly bool) *file {
	h := &file{fs: f, node: n, path: path, readOnly: readOnly}
	f.open[h] = struct{}{}
	n.opens++
	return h
}

// OpenFiles returns the paths, sorted, under which files were opened that are not closed, one for
// each handle.
func (f *FS) OpenFiles() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	paths := make([]string, 0, len(f.open))
	for h := range f.open {
		paths = append(paths, h.path)
	}
	slices.Sort(paths)
	return paths
}

// ReadAt implements segment.File.
func (h *file) ReadAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	_, err := h.begin(Op{Kind: OpReadAt, Offset: off, Size: len(p)}, off)
	if err != nil {
		return 0, err
	}
	return h.node.current.readAt(p, off) // io.EOF stays bare
}

// WriteAt implements segment.File.
func (h *file) WriteAt(p []byte, off int64) (int, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	flt, err := h.begin(Op{Kind: OpWriteAt, Offset: off, Size: len(p)}, off)
	n := len(p)
	if err != nil {
		n = min(max(flt.Bytes, 0), len(p))
	}
	if fits := max(0, h.fs.room(h.node.current.size)-off); int64(n) > fits {
		n = int(fits)
		if err == nil {
			err = pathError(OpWriteAt, h.path, syscall.ENOSPC)
		}
	}
	if n > 0 {
		h.change(writeChange(p[:n], off))
	}
	return n, err
}

// Allocate implements segment.File.
func (h *file) Allocate(size int64) error {
	return h.resize(change{kind: changeAllocate, size: size}, OpAllocate)
}

// Truncate implements segment.File.
func (h *file) Truncate(size int64) error {
	return h.resize(change{kind: changeTruncate, size: size}, OpTruncate)
}

func (h *file) resize(ch change, kind OpKind) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if _, err := h.begin(Op{Kind: kind, Size: int(ch.size)}, ch.size); err != nil {
		return err
	}
	if size := h.node.current.size; ch.size > size && ch.size > h.fs.room(size) {
		return pathError(kind, h.path, syscall.ENOSPC)
	}
	h.change(ch)
	return nil
}

// NextData implements segment.File. It knows of whole pages, and is not counted as a call.
func (h *file) NextData(off int64) (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return 0, iofs.ErrClosed
	}
	return h.node.current.nextData(off), nil
}

// Size implements segment.File.
func (h *file) Size() (int64, error) {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if _, err := h.begin(Op{Kind: OpSize}, 0); err != nil {
		return 0, err
	}
	return h.node.current.size, nil
}

// WriteOut implements segment.File. What it writes out may still be lost, as on a disk with a cache.
func (h *file) WriteOut(off, n int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	flt, err := h.begin(Op{Kind: OpWriteOut, Offset: off, Size: int(n)}, off)
	if flt.Err != nil && !flt.KeepDirty {
		h.node.finish(dropped)
	}
	return err
}

// Datasync implements segment.File.
func (h *file) Datasync() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	flt, err := h.begin(Op{Kind: OpDatasync}, 0)
	switch {
	case err == nil:
		h.node.finish(synced)
	case flt.Err != nil && !flt.KeepDirty:
		h.node.finish(dropped)
	}
	return err
}

// Close implements io.Closer.
func (h *file) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.closed {
		return pathError(OpClose, h.path, iofs.ErrClosed)
	}
	_, err := h.begin(Op{Kind: OpClose}, 0)
	h.closed = true
	delete(h.fs.open, h)
	h.node.opens--
	h.fs.release(h.node)
	return err
}

// begin counts a call and returns why it must fail, if it must. The file may be closed or
// read-only, or at, its offset or size, absurd; or there is a fault, which then has Err set.
func (h *file) begin(op Op, at int64) (Fault, error) {
	op.Path = h.path
	switch {
	case h.closed:
		return Fault{}, pathError(op.Kind, h.path, iofs.ErrClosed)
	case at < 0 || at > math.MaxInt64-int64(op.Size):
		return Fault{}, pathError(op.Kind, h.path, syscall.EINVAL)
	}
	flt := h.fs.begin(op)
	writes := op.Kind == OpWriteAt || op.Kind == OpAllocate || op.Kind == OpTruncate
	switch {
	case writes && h.readOnly:
		return Fault{}, pathError(op.Kind, h.path, syscall.EBADF)
	case flt.Err != nil:
		return flt, pathError(op.Kind, h.path, flt.Err)
	}
	return Fault{}, nil
}

// change makes a change to the file and counts the space it takes.
func (h *file) change(ch change) {
	before := h.node.current.size
	h.node.change(ch)
	h.fs.used += h.node.current.size - before
}
