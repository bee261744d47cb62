package segment_test

import "github.com/kestrelmq/kestrel/segment"

// wrapFS passes every call on, and every file it opens through wrap.
type wrapFS struct {
	segment.FS
	wrap func(name string, f segment.File) segment.File
}

func (w wrapFS) Create(name string) (segment.File, error) { return w.file(name, w.FS.Create) }
func (w wrapFS) Open(name string) (segment.File, error)   { return w.file(name, w.FS.Open) }

func (w wrapFS) file(name string, open func(string) (segment.File, error)) (segment.File, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return w.wrap(name, f), nil
}

// syncWatch sees to it that a file is left alone once a sync of it failed.
type syncWatch struct {
	broken []error
}

func (w *syncWatch) on(fsys segment.FS) segment.FS {
	return wrapFS{fsys, func(name string, f segment.File) segment.File {
		return &watchedFile{File: f, name: name, watch: w}
	}}
}

type watchedFile struct {
	segment.File
	name   string
	watch  *syncWatch
	failed bool
}

func (f *watchedFile) used(how string) {
	if f.failed {
		f.watch.broken = append(f.watch.broken,
			violationf("%s of %s after a sync of it failed", how, f.name))
	}
}

func (f *watchedFile) WriteAt(p []byte, off int64) (int, error) {
	f.used("write")
	return f.File.WriteAt(p, off)
}

func (f *watchedFile) Truncate(size int64) error {
	f.used("truncate")
	return f.File.Truncate(size)
}

func (f *watchedFile) WriteOut(off, n int64) error {
	f.used("write out")
	err := f.File.WriteOut(off, n)
	f.failed = f.failed || err != nil
	return err
}

func (f *watchedFile) Datasync() error {
	f.used("sync")
	err := f.File.Datasync()
	f.failed = f.failed || err != nil
	return err
}
