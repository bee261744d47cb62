package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/segment"
)

// Dir is the directory of all runs. It gives each a number that no other run has or had, and knows which names a power
// cut may lose. Its methods may be called from any goroutine; they may wait for the disk.
type Dir struct {
	FS   segment.FS
	Path string
	Last atomic.Uint64 // number of the newest run

	// lost is how many syncs of the directory have failed. Each may have lost the name of any run that had been made
	// before and was not durable.
	lost atomic.Uint64
}

// Birth is when a run was made, as far as it matters for its name.
type Birth uint64

// Taken keeps new runs off numbers that files have, or that records of the journal have, even those of deleted queues.
// Otherwise a repair would mistake a new run for what is left of an old one. No run is made meanwhile.
func (d *Dir) Taken(numbers ...uint64) {
	for _, number := range numbers {
		d.Last.Store(max(d.Last.Load(), number))
	}
}

// File is the run of an identity.
func (d *Dir) File(id segment.RunID) File { return File{Path: Path(d.Path, id.Number), ID: id} }

// Numbers returns the numbers of the runs that are there, ascending.
func (d *Dir) Numbers() (numbers []uint64, err error) {
	names, err := d.FS.List(d.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if number, ok := ParseName(name); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// Create makes the file of a run that has the next number.
func (d *Dir) Create(mode segment.IO) (*segment.RunWriter, Birth, error) {
	return d.CreateAs(d.Last.Add(1), mode)
}

// CreateAs is Create with a number that was drawn before.
func (d *Dir) CreateAs(number uint64, mode segment.IO) (*segment.RunWriter, Birth, error) {
	born := Birth(d.lost.Load())
	w, err := segment.CreateRun(d.FS, Path(d.Path, number), number, mode)
	return w, born, err
}

// Made is a run that Make has made.
type Made struct {
	File
	Birth
	End int64 // of what is written, all of which is durable
}

// Make makes a run of what write writes to it, and syncs and closes it. It locks syncing for the sync, unless that is
// nil. After an error there is no file.
func (d *Dir) Make(mode segment.IO, syncing sync.Locker, write func(*segment.RunWriter) error) (m Made, err error) {
	w, born, err := d.Create(mode)
	if err != nil {
		return m, err
	}
	if err = write(w); err == nil {
		if syncing != nil {
			syncing.Lock()
		}
		err = d.Sync(w, d.InDoubt(born))
		if syncing != nil {
			syncing.Unlock()
		}
	}
	m = Made{File{w.Path(), w.ID()}, born, w.End()}
	if err := errors.Join(err, w.Close()); err != nil {
		return m, errors.Join(err, d.Remove(m.Path))
	}
	return m, nil
}

// errNameInDoubt is why a run is not synced whose name may not last.
var errNameInDoubt = errors.New("an earlier sync of the directory of backlogs failed, so a power cut may lose the name of this file")

// InDoubt reports whether a power cut may lose the name of a run that is not durable yet, whatever is synced from now
// on. Then a sync of the directory has failed since the file was made.
func (d *Dir) InDoubt(born Birth) bool { return uint64(born) != d.lost.Load() }

// Lost is how many syncs of the directory have failed.
func (d *Dir) Lost() uint64 { return d.lost.Load() }

// Sync syncs what was written to a run, whose name may be in doubt. One goroutine at a time may sync.
func (d *Dir) Sync(w *segment.RunWriter, inDoubt bool) error {
	if inDoubt {
		return errNameInDoubt
	}
	err := w.Sync()
	if errors.Is(err, segment.ErrNames) {
		d.noteLost(err)
	}
	return err
}

// SyncNames syncs the names of all runs. One goroutine at a time may sync.
func (d *Dir) SyncNames() error {
	err := d.FS.SyncDir(d.Path)
	d.noteLost(err)
	return err
}

// noteLost notes that a sync of the directory may have failed.
func (d *Dir) noteLost(err error) {
	if err != nil && !segment.OutOfFiles(err) {
		d.lost.Add(1)
	}
}

// Remove deletes the file of a run, if it is there. A power cut may bring its name back; a start then deletes it again.
func (d *Dir) Remove(name string) error {
	if err := d.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove backlog file: %w", err)
	}
	return nil
}

// Removed says which files RemoveAll has removed.
type Removed struct {
	Files, Bytes int64
	First        string // the path of one of them; "" without any
}

// RemoveAll removes the runs of numbers, but for those of which keep says so. One that cannot be removed stays; the
// error says why.
func (d *Dir) RemoveAll(numbers []uint64, keep func(number uint64) bool) (r Removed, failed error) {
	for _, number := range numbers {
		if keep(number) {
			continue
		}
		name := Path(d.Path, number)
		bytes, _ := d.Size(name) // a figure for the log
		if err := d.FS.Remove(name); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if r.Files++; r.Files == 1 {
			r.First = name
		}
		r.Bytes += bytes
	}
	return r, failed
}

// Size is how many bytes a file has.
func (d *Dir) Size(name string) (int64, error) {
	f, err := d.FS.OpenReadOnly(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Size()
}
