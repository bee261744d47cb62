package repair

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// A Replay makes queues of a journal, as a start does. Examine first gives it the frames of the journal,
// oldest first, and then asks once for the queues, in the order of their numbers.
type Replay interface {
	Frame(segment.Frame) error
	Queues() []*Queue
}

// Examine reads all of a data directory, backlogs included. It reports what is damaged, and what of the queues can
// still be had. It changes nothing. start returns the replay of the journals' directory, which reports to the
// Salvage. Examine returns an error that wraps dirlock.ErrLocked if a process uses the directory, and one that wraps
// fs.ErrNotExist if there is none. Otherwise it returns the error of a disk that cannot be read. A journal whose
// records are whole but make no sense together is a *segment.CorruptionError, and beyond repair. While a Damage is
// open no process can use the directory.
func Examine(p Place, start func(*journal.Dirs, *Salvage) Replay) (d *Damage, err error) {
	d = &Damage{place: p}
	if p.Locks {
		if d.lock, err = dirlock.Hold(p.Dir); err != nil {
			return nil, err
		}
	}
	if err := d.examine(start); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Damage) examine(start func(*journal.Dirs, *Salvage) Replay) (err error) {
	if d.journals, err = journal.FindDirs(d.place.FS, d.place.Dir); err != nil {
		return err
	}
	if err := runs.CheckJournal(d.place.FS, d.place.Runs, d.journals.Current()); err != nil {
		return err
	}
	if err := d.expect(); err != nil {
		return err
	}
	_, d.Tear, err = segment.Scan(d.place.FS, d.journals.Current(), d.counted(nil))
	d.passed()
	damaged := errors.Is(err, segment.ErrCorrupt)
	if err != nil && !damaged {
		return err
	}
	v := &Salvage{
		d: d, damaged: damaged, runs: make(map[segment.RunID]*run), hidden: make(map[segment.RunID]*hiddenRun),
		marks: make(map[uint64]bool),
	}
	if err := v.scan(v.surveyFrame, func(segment.Gap) {}); err != nil {
		return err
	}
	if err := errors.Join(v.checkRuns(), v.checkHidden()); err != nil {
		return err
	}
	r := start(d.journals, v)
	if err := v.scan(r.Frame, v.gap); err != nil {
		return err
	}
	if err := v.finish(r.Queues()); err != nil {
		return err
	}
	for _, q := range d.queues {
		d.Queues = append(d.Queues, SalvagedQueue{q.Name, q.items, q.bytes, q.NextID})
	}
	slices.SortFunc(d.Queues, func(a, b SalvagedQueue) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// passes is how often examine reads the journal: to find damage, to find runs, and to replay it.
const passes = 3

// expect says how much there is to read. What is missing or damaged is left to examine to report.
func (d *Damage) expect() error {
	var total int64
	segments, err := segment.List(d.place.FS, d.journals.Current())
	if err != nil && !errors.Is(err, segment.ErrCorrupt) {
		return err
	}
	for _, s := range segments {
		d.pass.size += s.Size
	}
	total += passes * d.pass.size
	names, err := d.place.FS.List(d.place.Runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		total += d.sizeOf(path.Join(d.place.Runs, name))
	}
	d.place.Expect(total)
	return nil
}
