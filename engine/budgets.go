package engine

import (
	"fmt"
	"os"

	"github.com/kestrelmq/kestrel/engine/internal/machine"
	"github.com/kestrelmq/kestrel/engine/internal/openfiles"
)

// Account counts n bytes against the engine's memory limit that the caller has taken, or given back if n is negative.
// Event loops account for the buffers of their clients so: there is one ledger for items, open reads and connections.
// What is taken is taken; it is the puts that come later that are refused.
func (e *Engine) Account(n int64) { e.memory.Add(n) }

// MemoryLimit is how many bytes items, open reads and what is accounted for may take.
func (e *Engine) MemoryLimit() int64 { return e.opts.MemoryLimit }

// MemoryLeft is how many bytes are left of the memory limit; it may be negative.
func (e *Engine) MemoryLeft() int64 { return e.opts.MemoryLimit - e.memory.Load() }

// DefaultMemoryLimit is a quarter of the memory of the machine, or of the process's control groups
// if they allow less, but at least 16 MiB. It is 1 GiB if neither can be read.
func DefaultMemoryLimit() int64 { return max(machine.Memory(os.DirFS("/"))/4, 16<<20) }

// memoryPressing reports whether so much memory is in use that queues must spill what they hold.
func (e *Engine) memoryPressing() bool { return e.memory.Load() > e.opts.MemoryLimit/4*3 }

// memoryShort reports whether so much memory is in use that queues in read-behind read back only
// what somebody asks for.
func (e *Engine) memoryShort() bool { return e.memory.Load() > e.opts.MemoryLimit/2 }

const (
	// MinFiles is how many descriptors an engine needs.
	MinFiles = openfiles.Min
	// DefaultFiles is how many an engine has use for.
	DefaultFiles = openfiles.Most
)

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
		Segments: FileUse{int64(e.journal.OpenFiles()), int64(2 + e.files.Unsynced)},
		Writers:  FileUse{e.spool.openWriters.Load(), int64(e.files.Writers)},
		Readers:  FileUse{e.spool.reader.Open(), int64(e.files.Readers)},
	}
}

const (
	// The reserve of the disk is a twentieth of it, at least minReserve, but no more than a tenth.
	reserveShare    = 20
	maxReserveShare = 10
	minReserve      = 1 << 30 // bytes
)

// diskSpace is a file system that knows how much room it has; segment.OS does.
type diskSpace interface {
	// Space returns how many bytes of the disk that dir is on are free, and how many there are.
	Space(dir string) (free, total int64, err error)
}

// measureDisk refuses puts while the disk has less room than the reserve, and takes them again when
// it has an eighth more. What gets and confirms write fits into the reserve.
func (e *Engine) measureDisk() {
	disk, ok := e.spool.fs.(diskSpace)
	if !ok {
		return
	}
	free, total, err := disk.Space(e.opts.Dir)
	if err != nil {
		e.report("disk: its free space could not be measured; trying again", err)
		return
	}
	e.spool.diskSize.Store(total)
	e.diskFree.Store(free + 1)
	e.noteRoom(free)
	reserve := e.reserve(total)
	switch low := e.lowDisk.Load(); {
	case !low && free < reserve:
		e.lowDisk.Store(true)
		e.log.Warn("disk has less room than its reserve: puts are refused",
			"free_bytes", free, "reserve_bytes", reserve)
	case low && free >= reserve+reserve/8:
		e.lowDisk.Store(false)
		e.log.Info("disk has room again: puts are accepted", "free_bytes", free)
	}
}

// noteRoom has the journal try at once to grow on a disk that was full and has room for a segment more than it had. By
// itself the journal tries ever more seldom.
func (e *Engine) noteRoom(free int64) {
	switch {
	case !e.journal.Full() || free < e.leastFree:
		e.leastFree = free
	case free >= e.leastFree+e.opts.SegmentSize:
		e.leastFree = free
		e.journal.NoteRoom()
	}
}

// reserve is how many bytes puts leave free of a disk of total bytes.
func (e *Engine) reserve(total int64) int64 {
	if e.opts.DiskReserve > 0 {
		return e.opts.DiskReserve
	}
	return min(max(total/reserveShare, minReserve), total/maxReserveShare)
}
