package engine

import (
	"fmt"
)

// What the files that an engine has open are for. Every part has a minimum, with which it works, and a
// size beyond which more is of no use.
const (
	// ownFiles are those that are always allowed for: the lock; the directories of data, backlogs, the
	// journal and one that replaces it; the tail and the prepared segment of both journals; what is
	// listed, or made complete; and of the recording side, a run and its copy.
	ownFiles = 1 + 4 + 4 + 1 + 2
	// minUnsynced and maxUnsynced bound the sealed segments of a journal that wait for a sync.
	minUnsynced, maxUnsynced = 2, 32
	// minRunFiles and maxRunFiles bound the runs that are open for writing, and those for reading.
	minRunFiles, maxRunFiles = 2, 64

	// MinFiles is how many descriptors an engine needs.
	MinFiles = ownFiles + 2*minUnsynced + 2*minRunFiles
	// DefaultFiles is how many an engine has use for.
	DefaultFiles = ownFiles + 2*maxUnsynced + 2*maxRunFiles
)

// fileShares is how an engine's descriptors are shared out. None of the numbers is ever exceeded.
type fileShares struct {
	unsynced int // sealed segments of one journal that wait for a sync; a move has two journals
	writers  int // runs open for writing, those included that are full and wait for a sync
	readers  int // runs open for reading
}

// shareFiles shares out n descriptors, of which there are at least MinFiles.
func shareFiles(n int) fileShares {
	spare := min(n, DefaultFiles) - MinFiles
	part := func(least, most int) int { return least + (most-least)*spare/(DefaultFiles-MinFiles) }
	return fileShares{
		unsynced: part(minUnsynced, maxUnsynced),
		writers:  part(minRunFiles, maxRunFiles),
		readers:  part(minRunFiles, maxRunFiles),
	}
}

// growing is how many runs may grow at a time: a quarter of the writers is for runs that are full, so
// that their sync does not keep the next run waiting.
func (f fileShares) growing() int { return max(f.writers-max(f.writers/4, 1), 1) }

// validateFiles checks Options.Files.
func validateFiles(n int) error {
	if n != 0 && n < MinFiles {
		return fmt.Errorf("%d files are too few: an engine needs %d", n, MinFiles)
	}
	return nil
}

// FileUse is how many files of a kind an engine has open, and may have.
type FileUse struct{ Open, Limit int64 }

// Files says what the engine's descriptors are used for.
type Files struct {
	Segments FileUse // of the journal: the tail, the next, and sealed ones that wait for a sync
	Writers  FileUse // runs of backlogs that are written, or wait for a sync
	Readers  FileUse // runs of backlogs that are read
}

// Files describes the engine's open files. Its directories, the lock, and files that are open for a
// moment are not among them.
func (e *Engine) Files() Files {
	defer contain()
	return Files{
		Segments: FileUse{int64(e.journal.OpenFiles()), int64(2 + e.files.unsynced)},
		Writers:  FileUse{e.spool.openWriters.Load(), int64(e.files.writers)},
		Readers:  FileUse{e.spool.openReaders.Load(), int64(e.files.readers)},
	}
}
