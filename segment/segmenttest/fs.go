package segmenttest

import (
	"fmt"
	iofs "io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/kestrelmq/kestrel/segment"
)

// FS is a segment.FS in memory. Its methods and those of its files may be called from any
// goroutine, and every one is a single step for the others. Equal calls in equal order have equal
// results.
//
// Paths are slash-separated and lead from the root, with or without a leading slash; the root
// exists. Errors wrap the syscall.Errno a Linux system would give.
type FS struct {
	// Immutable.
	root *inode

	mu sync.Mutex
	// Guarded by mu.
	nextID uint64             // of the next inode
	ops    []*nameOp          // names that are not durable, in the order of the calls
	open   map[*file]struct{} // handles not closed
	used   int64              // bytes: the sizes of the files that have a name or a handle

	total    int // calls
	mutating int
	calls    [opKinds]int

	fault     func(Op) Fault // nil if none
	limit     int64          // of used; negative if none
	stopAt    int            // mutating call to stop at; 0 if none
	stopBytes int            // bytes of that call, if a write, to write nevertheless
	stopped   bool
}

var _ segment.FS = (*FS)(nil)

// New returns an FS that has an empty root directory and nothing else.
func New() *FS {
	root := newDir(1)
	root.links, root.durableLinks = 1, 1
	return newFS(root, 2)
}

func newFS(root *inode, nextID uint64) *FS {
	return &FS{root: root, nextID: nextID, open: make(map[*file]struct{}), limit: -1}
}

// Create implements segment.FS.
func (f *FS) Create(path string) (segment.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flt := f.begin(Op{Kind: OpCreate, Path: path}); flt.Err != nil {
		return nil, pathError(OpCreate, path, flt.Err)
	}
	at, err := f.find(path)
	if err == nil && at.node != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return nil, pathError(OpCreate, path, err)
	}
	n := &inode{id: f.newID()}
	f.record(nameChange{at.dir, at.name, nil, n})
	return f.newFile(n, path, false), nil
}

// Open implements segment.FS.
func (f *FS) Open(path string) (segment.File, error) {
	return f.openFile(OpOpen, path)
}

// OpenReadOnly implements segment.FS. WriteAt, Allocate and Truncate then return EBADF; Datasync,
// as on Linux, works.
func (f *FS) OpenReadOnly(path string) (segment.File, error) {
	return f.openFile(OpOpenReadOnly, path)
}

func (f *FS) openFile(kind OpKind, path string) (segment.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flt := f.begin(Op{Kind: kind, Path: path}); flt.Err != nil {
		return nil, pathError(kind, path, flt.Err)
	}
	n, err := f.findFile(path)
	if err != nil {
		return nil, pathError(kind, path, err)
	}
	return f.newFile(n, path, kind == OpOpenReadOnly), nil
}

// Rename implements segment.FS. A directory can be renamed within its parent only, to a free name.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.begin(Op{Kind: OpRename, Path: from, To: to}).Err
	if err == nil {
		err = f.rename(from, to)
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}

func (f *FS) rename(from, to string) error {
	src, err := f.find(from)
	if err != nil {
		return err
	}
	dst, err := f.find(to)
	if err != nil {
		return err
	}
	switch {
	case src.node == nil:
		return syscall.ENOENT
	case src.dir == nil || dst.dir == nil:
		return syscall.EBUSY
	case src.node == dst.node: // the same name, or two of one file: POSIX has nothing to do
		return nil
	case src.node.isDir() && dst.node != nil && !dst.node.isDir():
		return syscall.ENOTDIR
	case src.node.isDir() && dst.node != nil:
		return syscall.ENOTEMPTY
	case src.node.isDir() && src.dir != dst.dir:
		return syscall.EXDEV
	case dst.node != nil && dst.node.isDir():
		return syscall.EISDIR
	}
	f.record(
		nameChange{dst.dir, dst.name, dst.node, src.node},
		nameChange{src.dir, src.name, src.node, nil},
	)
	return nil
}

// Remove implements segment.FS.
func (f *FS) Remove(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flt := f.begin(Op{Kind: OpRemove, Path: path}); flt.Err != nil {
		return pathError(OpRemove, path, flt.Err)
	}
	at, err := f.find(path)
	switch {
	case err != nil:
	case at.node == nil:
		err = syscall.ENOENT
	case at.dir == nil:
		err = syscall.EBUSY
	case len(at.node.entries) > 0:
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return pathError(OpRemove, path, err)
	}
	f.record(nameChange{at.dir, at.name, at.node, nil})
	return nil
}

// List implements segment.FS. The order differs from call to call.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flt := f.begin(Op{Kind: OpList, Path: dir}); flt.Err != nil {
		return nil, pathError(OpList, dir, flt.Err)
	}
	n, err := f.findDir(dir)
	if err != nil {
		return nil, pathError(OpList, dir, err)
	}
	names := slices.Sorted(maps.Keys(n.entries))
	rng := rand.New(rand.NewPCG(uint64(f.total), 0))
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names, nil
}

// MkdirAll implements segment.FS.
func (f *FS) MkdirAll(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if flt := f.begin(Op{Kind: OpMkdirAll, Path: dir}); flt.Err != nil {
		return pathError(OpMkdirAll, dir, flt.Err)
	}
	if err := f.mkdirAll(clean(dir)); err != nil {
		return pathError(OpMkdirAll, dir, err)
	}
	return nil
}

// mkdirAll makes the directory at a clean path and syncs the parents it added a name to.
func (f *FS) mkdirAll(dir string) error {
	at := f.root
	for rest := dir; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := at.entries[name]
		if next == nil {
			next = newDir(f.newID())
			f.record(nameChange{at, name, nil, next})
			f.commitDir(at)
		}
		if !next.isDir() {
			return syscall.ENOTDIR
		}
		at = next
	}
	return nil
}

// SyncDir implements segment.FS.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	flt := f.begin(Op{Kind: OpSyncDir, Path: dir})
	n, err := f.findDir(dir)
	switch {
	case flt.Err != nil:
		if err == nil && !flt.KeepDirty {
			f.loseDir(n)
		}
		return pathError(OpSyncDir, dir, flt.Err)
	case err != nil:
		return pathError(OpSyncDir, dir, err)
	}
	f.commitDir(n)
	return nil
}

func (f *FS) newID() uint64 {
	f.nextID++
	return f.nextID - 1
}

func pathError(kind OpKind, path string, err error) error {
	return &iofs.PathError{Op: kind.String(), Path: path, Err: err}
}
