package runs

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// newRuns returns a directory with a run of each number.
func newRuns(t *testing.T, numbers ...uint64) (*segmenttest.FS, *Dir) {
	t.Helper()
	fsys := segmenttest.New()
	d := &Dir{FS: fsys, Path: "backlog"}
	if err := fsys.MkdirAll(d.Path); err != nil {
		t.Fatal(err)
	}
	for _, number := range numbers {
		d.Last.Store(number - 1)
		if _, err := d.Make(segment.Cached, nil, writeOne); err != nil {
			t.Fatal(err)
		}
	}
	return fsys, d
}

// writeOne writes a frame.
func writeOne(w *segment.RunWriter) error {
	b := NewBatcher(segment.CodecNone)
	defer b.Close()
	_, _, err := b.Write(w, nil, []*item.Chunk{chunkOf(1)}, nil, nil)
	return err
}

// TestDirNumbers looks at a directory with files of other names, and draws numbers that none of the runs has.
func TestDirNumbers(t *testing.T) {
	fsys, d := newRuns(t, 3, 1)
	f, err := fsys.Create(d.Path + "/7.run")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Numbers(); err != nil || !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("the runs are %d, %v", got, err)
	}
	d.Taken(3, 1)
	d.Taken(2)
	if m, err := d.Make(segment.Cached, nil, writeOne); err != nil || m.ID.Number != 4 || m.File != d.File(m.ID) {
		t.Errorf("the next run is %v, %v", m, err)
	}
	if got, err := (&Dir{FS: fsys, Path: "none"}).Numbers(); err != nil || got != nil {
		t.Errorf("of a directory that is not there, the runs are %d, %v", got, err)
	}
}

// TestDirMakeFails leaves no file of a run that could not be written, or synced.
func TestDirMakeFails(t *testing.T) {
	fsys, d := newRuns(t)
	failed := errors.New("failed")
	if _, err := d.Make(segment.Cached, nil, func(*segment.RunWriter) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a run that cannot be written: %v", err)
	}
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpSyncDir {
			return segmenttest.Fault{Err: syscall.EIO}
		}
		return segmenttest.Fault{}
	})
	if _, err := d.Make(segment.Cached, nil, writeOne); !errors.Is(err, syscall.EIO) {
		t.Errorf("a run that cannot be synced: %v", err)
	}
	if got, err := d.Numbers(); err != nil || got != nil || d.Last.Load() != 2 {
		t.Errorf("the runs %d are left, %v, and %d numbers were drawn", got, err, d.Last.Load())
	}
}

// TestDirNameInDoubt syncs no run whose name an earlier sync of the directory may have lost.
func TestDirNameInDoubt(t *testing.T) {
	fsys, d := newRuns(t)
	w, born, err := d.Create(segment.Cached)
	if err == nil {
		err = writeOne(w)
	}
	if err != nil || d.InDoubt(born) {
		t.Fatal(err)
	}
	fsys.SetFault(func(segmenttest.Op) segmenttest.Fault { return segmenttest.Fault{Err: syscall.EMFILE} })
	if err := d.SyncNames(); !errors.Is(err, syscall.EMFILE) || d.InDoubt(born) {
		t.Errorf("a directory that was not synced: %v", err)
	}
	fsys.SetFault(func(segmenttest.Op) segmenttest.Fault { return segmenttest.Fault{Err: syscall.EIO} })
	if err := d.SyncNames(); !errors.Is(err, syscall.EIO) || d.Lost() != 1 {
		t.Errorf("%d syncs have failed: %v", d.Lost(), err)
	}
	fsys.SetFault(nil)
	if err := d.Sync(w, d.InDoubt(born)); !errors.Is(err, errNameInDoubt) {
		t.Errorf("a run from before that: %v", err)
	}
	if err := d.Sync(w, false); err != nil {
		t.Errorf("a run whose name is durable: %v", err)
	}
	if _, err := d.Make(segment.Cached, nil, writeOne); err != nil {
		t.Errorf("a run made since: %v", err)
	}
}

// TestDirRemoveAll removes runs but for some, and says how many there were.
func TestDirRemoveAll(t *testing.T) {
	fsys, d := newRuns(t, 1, 2, 3, 4)
	size, err := d.Size(Path(d.Path, 2))
	if err != nil || size == 0 {
		t.Fatal(size, err)
	}
	fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpRemove && op.Path == Path(d.Path, 1) {
			return segmenttest.Fault{Err: syscall.EIO}
		}
		return segmenttest.Fault{}
	})
	removed, err := d.RemoveAll([]uint64{1, 2, 3, 4}, func(number uint64) bool { return number == 3 })
	if want := (Removed{Files: 2, Bytes: 2 * size, First: Path(d.Path, 2)}); removed != want || !errors.Is(err, syscall.EIO) {
		t.Errorf("removed %+v, %v, want %+v", removed, err, want)
	}
	if got, _ := d.Numbers(); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("the runs %d are left", got)
	}
	if err := d.Remove(Path(d.Path, 2)); err != nil {
		t.Errorf("a run that is not there: %v", err)
	}
}
