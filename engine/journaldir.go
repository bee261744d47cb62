package engine

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

// The journal is in DATA/journal. One that replaces it, after a sync that failed, is in a directory
// of its own, DATA/journal.N, and counts from the moment that it has a file called complete: the
// complete one with the highest N is the journal, and all others mean nothing.
const (
	journalName  = "journal"
	completeName = "complete"
)

// journalDir is the path of the journal that has replaced others n times.
func journalDir(dataDir string, n uint64) string {
	if n == 0 {
		return path.Join(dataDir, journalName)
	}
	return path.Join(dataDir, fmt.Sprintf("%s.%d", journalName, n))
}

// journalNumber is the reverse of journalDir for a name in the data directory.
func journalNumber(name string) (n uint64, ok bool) {
	if name == journalName {
		return 0, true
	}
	digits, ok := strings.CutPrefix(name, journalName+".")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && n > 0 && digits == strconv.FormatUint(n, 10)
}

// JournalDir returns the path of the journal in a data directory, which need not exist.
func JournalDir(fs segment.FS, dataDir string) (string, error) {
	n, _, err := findJournals(fs, dataDir)
	return journalDir(dataDir, n), err
}

// findJournals returns which journal of the data directory counts, and the others that are there.
func findJournals(fsys segment.FS, dataDir string) (current uint64, others []uint64, err error) {
	names, err := fsys.List(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	for _, name := range names {
		n, ok := journalNumber(name)
		if !ok {
			continue
		}
		files, err := fsys.List(journalDir(dataDir, n))
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

// completeJournal makes the journal in dir, all of which is durable, the one that counts.
func completeJournal(fsys segment.FS, dir string) error {
	f, err := fsys.Create(path.Join(dir, completeName))
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), fsys.SyncDir(dir))
}

// removeJournal removes a journal that does not count, and never will, if it is there.
func removeJournal(fsys segment.FS, dir string) error {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fsys.Remove(path.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := fsys.Remove(dir); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(dir))
}
