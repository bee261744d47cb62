package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kestrelmq/kestrel/segment"
)

// The journal is in DATA/journal. A journal that replaces it, after a sync that failed, is in a
// directory of its own, DATA/journal.N. It counts from the moment at which it has a file called
// complete. The complete one with the highest N is the journal, and all others mean nothing.
const (
	dirName      = "journal"
	completeName = "complete"
)

// Dirs are the directories of journals in a data directory. One goroutine at a time uses it.
type Dirs struct {
	fs      segment.FS
	data    string
	current string // path of the journal that counts
	last    uint64 // the highest number that a directory has had
	left    bool   // a journal that was replaced could not be removed
	// doubtful is the path of a journal that the next start may choose, or not: Complete failed. "" if there is none.
	doubtful string
}

// FindDirs returns the directories of journals in a data directory, which need not exist.
func FindDirs(fsys segment.FS, data string) (*Dirs, error) {
	current, others, err := findDirs(fsys, data)
	if err != nil {
		return nil, err
	}
	return &Dirs{
		fs: fsys, data: data, current: dir(data, current), last: max(current, slices.Max(append(others, 0))),
	}, nil
}

// Current returns the path of the journal that counts, which need not exist.
func (d *Dirs) Current() string { return d.current }

// Next returns the path of a new journal, in which nothing is.
func (d *Dirs) Next() string {
	d.last++
	return dir(d.data, d.last)
}

// Complete makes the journal in dir, all of which is durable, the one that counts. After an error it does not take the
// place of the other one. If it MayCount even so, it must stay until Retract.
func (d *Dirs) Complete(dir string) error {
	f, err := d.fs.Create(path.Join(dir, completeName))
	if segment.OutOfFiles(err) || errors.Is(err, syscall.ENOSPC) {
		return err // not even begun
	}
	if d.doubtful = dir; err != nil {
		return err
	}
	if err := errors.Join(f.Close(), d.fs.SyncDir(dir)); err != nil {
		return err
	}
	d.current, d.doubtful = dir, ""
	return nil
}

// MayCount reports whether Complete of the journal in dir has failed such that the next start may choose it.
func (d *Dirs) MayCount(dir string) bool { return d.doubtful == dir }

// Retract sees to it that a journal which may count does not, and removes it. Those that fail one after the other would
// fill the disk. Nothing may have been acknowledged since that only that journal has.
func (d *Dirs) Retract() error {
	if d.doubtful == "" {
		return nil
	}
	if err := d.fs.Remove(path.Join(d.doubtful, completeName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.fs.SyncDir(d.doubtful); err != nil {
		return err
	}
	dir := d.doubtful
	d.doubtful = ""
	return d.Abandon(dir)
}

// Abandon removes a journal that does not count, and never will, if it is there.
func (d *Dirs) Abandon(dir string) error {
	names, err := d.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := d.fs.Remove(path.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := d.fs.Remove(dir); err != nil {
		return err
	}
	return d.fs.SyncDir(path.Dir(dir))
}

// RemoveOthers removes all journals but the one that counts.
func (d *Dirs) RemoveOthers() error {
	_, others, err := findDirs(d.fs, d.data)
	for _, n := range others {
		if other := dir(d.data, n); other != d.current {
			err = errors.Join(err, d.Abandon(other))
		}
	}
	d.left = err != nil
	return err
}

// OthersLeft reports whether the last RemoveOthers has failed, and should be tried again.
func (d *Dirs) OthersLeft() bool { return d.left }

// dir is the path of the journal that has replaced others n times.
func dir(data string, n uint64) string {
	if n == 0 {
		return path.Join(data, dirName)
	}
	return path.Join(data, fmt.Sprintf("%s.%d", dirName, n))
}

// dirNumber is the reverse of dir for a name in the data directory.
func dirNumber(name string) (n uint64, ok bool) {
	if name == dirName {
		return 0, true
	}
	digits, ok := strings.CutPrefix(name, dirName+".")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n > 0 && digits == strconv.FormatUint(n, 10)
}

// findDirs returns which journal of the data directory counts, and the others that are there.
func findDirs(fsys segment.FS, data string) (current uint64, others []uint64, err error) {
	names, err := fsys.List(data)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	for _, name := range names {
		n, ok := dirNumber(name)
		if !ok {
			continue
		}
		files, err := fsys.List(dir(data, n))
		if errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if others = append(others, n); slices.Contains(files, completeName) {
			current = max(current, n)
		}
	}
	return current, slices.DeleteFunc(others, func(n uint64) bool { return n == current }), nil
}
