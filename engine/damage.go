package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
	"github.com/kestrelmq/kestrel/segment"
)

// Damage is what Examine found wrong with a data directory, and what its Repair would make of it. Its
// methods may not be called at the same time. Close it.
type Damage = repair.Damage

// Loss is a range of ids of one queue of whose items some or all are lost.
type Loss = repair.Loss

// UnclaimedRun is a run of a queue that is not known.
type UnclaimedRun = repair.UnclaimedRun

// SalvagedQueue is a queue as Repair leaves it.
type SalvagedQueue = repair.SalvagedQueue

// Examine reads all of a data directory, backlogs included, and reports what is damaged, and what of
// the queues can still be had; it changes nothing. Of opts it heeds Dir, FS, Settings and what says
// how journals and backlogs are written. It returns ErrLocked if a process uses the directory, an
// error that wraps fs.ErrNotExist if there is none, and that of a disk that cannot be read. A
// journal whose records are whole but make no sense together is a *segment.CorruptionError, and
// beyond repair. While a Damage is open no process can use the directory.
func Examine(opts Options) (*Damage, error) { return examine(opts, nil) }

// examine is Examine that shows a test, if see is not nil, every queue that a repair is to leave.
func examine(opts Options, see func(*repair.Queue)) (*Damage, error) {
	e, err := newEngine(opts)
	if err != nil {
		return nil, fmt.Errorf("examine %s: %w", opts.Dir, err)
	}
	e.spool = newSpool(e, e.fs)
	defer e.spool.close()
	d, err := repair.Examine(repair.Place{
		FS: e.fs, Dir: e.opts.Dir, Runs: e.spool.dir, Locks: e.opts.FS == nil,
		Log: e.logOptions(), Compression: e.opts.BacklogCompression, Report: e.report,
	}, func(dirs *journal.Dirs, s *repair.Salvage) repair.Replay {
		e.journals = dirs
		r := newReplay(e)
		r.salvage = s
		return salvageReplay{r, see}
	})
	if err != nil {
		return nil, fmt.Errorf("examine %s: %w", opts.Dir, err)
	}
	return d, nil
}

// salvageReplay is the replay of a journal that may be damaged.
type salvageReplay struct {
	*replay
	see func(*repair.Queue)
}

// Frame takes in one frame of the journal.
func (r salvageReplay) Frame(f segment.Frame) error { return r.frame(f) }

// Queues returns what the replay knows of each queue, in the order of their numbers.
func (r salvageReplay) Queues() (queues []*repair.Queue) {
	for _, number := range slices.Sorted(maps.Keys(r.queues)) {
		q := r.queues[number]
		q.compact(&r.pool)
		found := &repair.Queue{
			Number: number, Name: q.name, Named: q.named, Created: q.created, NextID: q.nextID,
			Gone: q.gone, Kept: make(map[uint64]Item, len(q.kept)), Window: &q.window, Changed: q.changed,
			Traces: q.traces,
		}
		for id, it := range q.kept {
			found.Kept[id] = it.Item
		}
		for _, run := range q.runs {
			found.Runs = append(found.Runs, run.id)
		}
		if r.see != nil {
			r.see(found)
		}
		queues = append(queues, found)
	}
	return queues
}
