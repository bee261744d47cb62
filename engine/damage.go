package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/segment"
)

// Damage is what Examine found wrong with a data directory, and what Repair would make of it. Its
// methods may not be called at the same time. Close it.
type Damage struct {
	// Gaps are the places in the journal and in backlogs whose bytes are not what was written.
	Gaps []segment.Gap
	// Tear is where the journal ends in a torn write, which Open would cut and Repair cuts; nil if
	// it does not, or is damaged besides.
	Tear *segment.Tear
	// Losses are the items that cannot be had any more, by queue and id.
	Losses []Loss
	// Unclaimed are runs whose queue no record names. The record may have been in a gap.
	Unclaimed []UnclaimedRun
	// Renamed are queues whose name is lost; Dropped those of which a younger one has the name.
	Renamed, Dropped []string
	// Queues are the queues that Repair leaves, sorted by name.
	Queues []SalvagedQueue
	// Saved is the directory in which Repair has put copies of what it took away.
	Saved string
	saved []string // what is in it, directories first, and itself

	e    *Engine // without a journal
	lock *dirlock.Lock
	// queues are those that Repair leaves, and dropped those of Dropped, as they were made.
	queues, dropped []*salvagedQueue
}

// Loss is a range of ids of one queue of whose items some or all are lost.
type Loss struct {
	Queue           string
	FirstID, LastID uint64
	// Items is how many are lost. With AtMost, records of the range are lost too that may have
	// said that some of them were gone already. It is negative if even whether any is lost is not
	// known: the journal's front, in which most of them were, was dropped long ago.
	Items  int64
	AtMost bool
	// Bytes is what their bodies take, or negative if that is not known.
	Bytes int64
	// Path and Offset are where they were in a backlog; Path is "" for the journal.
	Path   string
	Offset int64
}

// UnclaimedRun is a run of a queue that is not known.
type UnclaimedRun struct {
	Path            string
	FirstID, LastID uint64 // zero if nothing in it can be read
	Items, Bytes    int64
}

// SalvagedQueue is a queue as Repair leaves it.
type SalvagedQueue struct {
	Name         string
	Items, Bytes int64
	NextID       uint64
}

// Sound reports whether there is nothing to repair.
func (d *Damage) Sound() bool {
	return d.Tear == nil && len(d.Gaps)+len(d.Renamed)+len(d.Dropped) == 0
}

// Examine reads all of a data directory, backlogs included, and reports what is damaged, and what of
// the queues can still be had; it changes nothing. Of opts it heeds Dir, FS, Settings and what says
// how journals and backlogs are written. It returns ErrLocked if a process uses the directory, an
// error that wraps fs.ErrNotExist if there is none, and that of a disk that cannot be read. A
// journal whose records are whole but make no sense together is a *segment.CorruptionError, and
// beyond repair. While a Damage is open no process can use the directory.
func Examine(opts Options) (*Damage, error) {
	d, err := examine(opts)
	if err != nil {
		return nil, fmt.Errorf("examine %s: %w", opts.Dir, err)
	}
	return d, nil
}

func examine(opts Options) (d *Damage, err error) {
	e, err := newEngine(opts)
	if err != nil {
		return nil, err
	}
	d = &Damage{e: e}
	if e.opts.FS == nil {
		if d.lock, err = dirlock.Hold(e.opts.Dir); err != nil {
			return nil, err
		}
	}
	e.spool = newSpool(e, e.fs)
	if err := d.examine(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Damage) examine() error {
	r, err := d.e.findJournal()
	if err == nil {
		err = d.e.spool.find()
	}
	if err != nil {
		return err
	}
	_, d.Tear, err = segment.Scan(d.e.fs, d.e.journals.Current(), nil)
	damaged := errors.Is(err, segment.ErrCorrupt)
	if err != nil && !damaged {
		return err
	}
	v := &salvage{d: d, damaged: damaged, runs: make(map[segment.RunID]*salvagedRun)}
	if err := v.scan(v.surveyFrame, func(segment.Gap) {}); err != nil {
		return err
	}
	if err := v.checkRuns(); err != nil {
		return err
	}
	r.salvage = v
	if err := v.scan(r.frame, v.gap); err != nil {
		return err
	}
	if err := v.finish(r); err != nil {
		return err
	}
	for _, q := range d.queues {
		d.Queues = append(d.Queues, SalvagedQueue{q.name, q.items, q.bytes, q.nextID})
	}
	slices.SortFunc(d.Queues, func(a, b SalvagedQueue) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// Close lets other processes use the directory.
func (d *Damage) Close() error {
	d.e.spool.close()
	return d.lock.Release()
}
