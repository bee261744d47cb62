package segmenttest

import (
	"errors"
	"io"
	iofs "io/fs"
	"maps"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kestrelmq/kestrel/segment"
)

// modelFile is a file of the model. Files are pointers: a handle follows its file through renames.
type modelFile struct{ data []byte }

// resize cuts or extends the file.
func (m *modelFile) resize(size int) {
	if size <= len(m.data) {
		m.data = m.data[:size:size]
		return
	}
	m.data = append(m.data, make([]byte, size-len(m.data))...)
}

func (m *modelFile) write(p []byte, off int) {
	if len(p) > 0 && off+len(p) > len(m.data) {
		m.resize(off + len(p))
	}
	copy(m.data[min(off, len(m.data)):], p)
}

type modelHandle struct {
	h segment.File
	m *modelFile
}

var modelDirs = []string{"a", "b"}

// modelRun drives an FS and a plain map side by side.
type modelRun struct {
	fs      *FS
	files   map[string]*modelFile
	handles []modelHandle
}

func drawPath(t *rapid.T, label string) string {
	dir := rapid.SampledFrom(modelDirs).Draw(t, label+" directory")
	return path.Join(dir, rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, label+" name"))
}

func (r *modelRun) drawHandle(t *rapid.T) modelHandle {
	if len(r.handles) == 0 {
		t.Skip("no file is open")
	}
	return rapid.SampledFrom(r.handles).Draw(t, "handle")
}

func (r *modelRun) create(t *rapid.T) {
	name := drawPath(t, "create")
	h, err := r.fs.Create(name)
	if _, exists := r.files[name]; exists {
		if !errors.Is(err, iofs.ErrExist) {
			t.Fatalf("Create(%s) = %v, want ErrExist", name, err)
		}
		return
	}
	check(t, err)
	r.files[name] = &modelFile{}
	r.handles = append(r.handles, modelHandle{h, r.files[name]})
}

func (r *modelRun) open(t *rapid.T) {
	name := drawPath(t, "open")
	h, err := r.fs.Open(name)
	m, exists := r.files[name]
	if !exists {
		if !errors.Is(err, iofs.ErrNotExist) {
			t.Fatalf("Open(%s) = %v, want ErrNotExist", name, err)
		}
		return
	}
	check(t, err)
	r.handles = append(r.handles, modelHandle{h, m})
}

func (r *modelRun) rename(t *rapid.T) {
	from, to := drawPath(t, "from"), drawPath(t, "to")
	err := r.fs.Rename(from, to)
	m, exists := r.files[from]
	if !exists {
		if !errors.Is(err, iofs.ErrNotExist) {
			t.Fatalf("Rename(%s, %s) = %v, want ErrNotExist", from, to, err)
		}
		return
	}
	check(t, err)
	delete(r.files, from)
	r.files[to] = m
}

func (r *modelRun) remove(t *rapid.T) {
	name := drawPath(t, "remove")
	err := r.fs.Remove(name)
	if _, exists := r.files[name]; !exists {
		if !errors.Is(err, iofs.ErrNotExist) {
			t.Fatalf("Remove(%s) = %v, want ErrNotExist", name, err)
		}
		return
	}
	check(t, err)
	delete(r.files, name)
}

func (r *modelRun) write(t *rapid.T) {
	mh := r.drawHandle(t)
	p := make([]byte, rapid.IntRange(0, 2*pageSize).Draw(t, "size"))
	for i := range p {
		p[i] = byte(len(r.handles) + i)
	}
	if rapid.Bool().Draw(t, "zeros") {
		clear(p)
	}
	off := rapid.IntRange(0, 3*pageSize).Draw(t, "offset")
	write(t, mh.h, string(p), int64(off))
	mh.m.write(p, off)
}

func (r *modelRun) resize(t *rapid.T) {
	mh := r.drawHandle(t)
	size := rapid.IntRange(0, 4*pageSize).Draw(t, "size")
	if rapid.Bool().Draw(t, "allocate") {
		check(t, mh.h.Allocate(int64(size)))
		mh.m.resize(max(size, len(mh.m.data)))
		return
	}
	check(t, mh.h.Truncate(int64(size)))
	mh.m.resize(size)
}

func (r *modelRun) read(t *rapid.T) {
	mh := r.drawHandle(t)
	p := make([]byte, rapid.IntRange(1, 2*pageSize).Draw(t, "size"))
	off := rapid.IntRange(0, 4*pageSize).Draw(t, "offset")
	want := mh.m.data[min(off, len(mh.m.data)):]
	want = want[:min(len(want), len(p))]
	n, err := mh.h.ReadAt(p, int64(off))
	var wantErr error
	if len(want) < len(p) {
		wantErr = io.EOF
	}
	if string(p[:n]) != string(want) || err != wantErr {
		t.Fatalf("ReadAt(%d bytes, %d) = %d bytes, %v, want %d, %v",
			len(p), off, n, err, len(want), wantErr)
	}
	if size, err := mh.h.Size(); size != int64(len(mh.m.data)) || err != nil {
		t.Fatalf("Size = %d, %v, want %d", size, err, len(mh.m.data))
	}
}

func (r *modelRun) sync(t *rapid.T) { // changes nothing that shows
	if rapid.Bool().Draw(t, "directory") {
		check(t, r.fs.SyncDir(rapid.SampledFrom(modelDirs).Draw(t, "which")))
		return
	}
	check(t, r.drawHandle(t).h.Datasync())
}

func (r *modelRun) close(t *rapid.T) {
	mh := r.drawHandle(t)
	check(t, mh.h.Close())
	i := slices.Index(r.handles, mh)
	r.handles = slices.Delete(r.handles, i, i+1)
}

// crash goes on with an image that must have everything.
func (r *modelRun) crash(t *rapid.T) {
	if rapid.Bool().Draw(t, "kill") {
		r.fs = r.fs.Kill()
	} else {
		r.fs = r.fs.PowerCut(CutOptions{Mode: Keep})
	}
	r.handles = nil
}

func (r *modelRun) check(t *rapid.T) {
	want := make(map[string]string)
	sizes := make(map[*modelFile]int64) // of files that have a name or a handle
	for name, m := range r.files {
		want[name] = string(m.data)
		sizes[m] = int64(len(m.data))
	}
	for _, mh := range r.handles {
		sizes[mh.m] = int64(len(mh.m.data))
	}
	if got := dump(t, r.fs); !maps.Equal(got, want) {
		t.Fatalf("files %s, want %s", show(got), show(want))
	}
	var used int64
	for _, size := range sizes {
		used += size
	}
	if r.fs.used != used || len(r.fs.OpenFiles()) != len(r.handles) {
		t.Fatalf("used %d, %d open, want %d and %d",
			r.fs.used, len(r.fs.OpenFiles()), used, len(r.handles))
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &modelRun{fs: New(), files: make(map[string]*modelFile)}
		for _, dir := range modelDirs {
			check(t, r.fs.MkdirAll(dir))
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": r.create, "open": r.open, "rename": r.rename, "remove": r.remove,
			"write": r.write, "resize": r.resize, "read": r.read, "sync": r.sync,
			"close": r.close, "crash": r.crash, "": r.check,
		})
	})
}
