package engine

import (
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// hookFS is a memory file system with a hook around some calls. Unlike a fault of segmenttest, a
// hook may block, and may leave the call out without an error. A nil hook is none.
type hookFS struct {
	*segmenttest.FS
	datasync func(call func() error) error
	write    func(call func() error) error
	writeOut func(call func() error) error
	syncDir  func(call func() error) error
	remove   func(call func() error) error
	openRead func() // before a file is opened for reading
}

// Uncached implements segment.UncachedFS: the hooks are for all files.
func (f *hookFS) Uncached() segment.FS { return f }

func (f *hookFS) Create(path string) (segment.File, error) { return f.wrap(f.FS.Create(path)) }

func (f *hookFS) Open(path string) (segment.File, error) { return f.wrap(f.FS.Open(path)) }

func (f *hookFS) OpenReadOnly(path string) (segment.File, error) {
	if f.openRead != nil {
		f.openRead()
	}
	return f.FS.OpenReadOnly(path)
}

func (f *hookFS) SyncDir(dir string) error {
	return hooked(f.syncDir, func() error { return f.FS.SyncDir(dir) })
}

func (f *hookFS) Remove(path string) error {
	return hooked(f.remove, func() error { return f.FS.Remove(path) })
}

func (f *hookFS) wrap(file segment.File, err error) (segment.File, error) {
	if err != nil {
		return nil, err
	}
	return &hookFile{file, f}, nil
}

type hookFile struct {
	segment.File
	fs *hookFS
}

func (f *hookFile) Datasync() error { return hooked(f.fs.datasync, f.File.Datasync) }

func (f *hookFile) WriteOut(off, n int64) error {
	return hooked(f.fs.writeOut, func() error { return f.File.WriteOut(off, n) })
}

func (f *hookFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = hooked(f.fs.write, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func hooked(hook func(func() error) error, call func() error) error {
	if hook == nil {
		return call()
	}
	return hook(call)
}
