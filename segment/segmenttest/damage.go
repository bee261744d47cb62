package segmenttest

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"syscall"

	"github.com/cespare/xxhash/v2"
)

// The functions in this file look at the disk and damage it from outside. No fault, stop or limit concerns them, they
// are not counted, and what they change is durable.

// Bytes returns a copy of what a file contains now, synced or not.
func (f *FS) Bytes(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findFile(name)
	if err != nil {
		return nil, fmt.Errorf("bytes of %s: %w", name, err)
	}
	return n.current.bytes(), nil
}

// Paths returns the paths of all files, sorted and without a leading slash. It leaves out
// directories.
func (f *FS) Paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var paths []string
	var walk func(prefix string, dir *inode)
	walk = func(prefix string, dir *inode) {
		for name, n := range dir.entries {
			if n.isDir() {
				walk(path.Join(prefix, name), n)
			} else {
				paths = append(paths, path.Join(prefix, name))
			}
		}
	}
	walk("", f.root)
	slices.Sort(paths)
	return paths
}

// FlipBit inverts a bit, 0 to 7 from the least significant, of the byte at an offset inside a file.
func (f *FS) FlipBit(name string, byteOffset int64, bit uint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findFile(name)
	if err == nil && (byteOffset < 0 || byteOffset >= n.current.size || bit > 7) {
		err = syscall.EINVAL
	}
	if err != nil {
		return fmt.Errorf("flip bit %d at offset %d of %s: %w", bit, byteOffset, name, err)
	}
	b := make([]byte, 1)
	n.current.readAt(b, byteOffset) // inside the file, so it cannot fail
	b[0] ^= 1 << bit
	f.damage(n, writeChange(b, byteOffset))
	return nil
}

// TruncateFile cuts or extends a file to size bytes.
func (f *FS) TruncateFile(name string, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findFile(name)
	if err == nil && size < 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return fmt.Errorf("truncate %s to %d bytes: %w", name, size, err)
	}
	f.damage(n, change{kind: changeTruncate, size: size})
	return nil
}

// WriteFile makes a file contain a copy of data and nothing else, and its name durable. It makes
// the file and the directories that are missing.
func (f *FS) WriteFile(name string, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.makeFile(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	f.damage(n, change{kind: changeTruncate})
	f.damage(n, writeChange(data, 0))
	return nil
}

// makeFile returns the file at a path, made if missing, its name durable.
func (f *FS) makeFile(name string) (*inode, error) {
	if err := f.mkdirAll(path.Dir("/" + clean(name))[1:]); err != nil {
		return nil, err
	}
	at, err := f.find(name)
	switch {
	case err != nil:
		return nil, err
	case at.node == nil:
		at.node = &inode{id: f.newID()}
		f.record(nameChange{at.dir, at.name, nil, at.node})
	case at.node.isDir():
		return nil, syscall.EISDIR
	}
	names := map[string]bool{at.name: true}
	f.commitNames(at.dir, names)
	return at.node, nil
}

func (f *FS) damage(n *inode, ch change) {
	before := n.current.size
	n.damage(ch)
	f.used += n.current.size - before
}

// SetRunVersion gives a run, the bytes of which are data, the header of another format version.
func SetRunVersion(data []byte, version uint32) {
	binary.LittleEndian.PutUint32(data[8:], version)
	binary.LittleEndian.PutUint64(data[56:], xxhash.Sum64(data[:56]))
}
