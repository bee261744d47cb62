package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
	"github.com/kestrelmq/kestrel/engine/internal/replay"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// revival brings queues back at a start: replay says what the journal has of each, and the runs that it names are
// looked at.
type revival struct {
	*replay.Replay
	e    *Engine
	pool item.Pool // of windows while they belong to no shard
}

// newRevival returns a revival for an engine without queues. salvage is nil unless the journal is damaged.
func newRevival(e *Engine, salvage *repair.Salvage) *revival {
	r := &revival{e: e}
	r.pool = item.Pool{Memory: &e.memory, Arena: e.arena, Free: item.NewFreeLists(1, e.opts.MemoryLimit)[0]}
	r.Replay = replay.New(replay.Options{Pool: &r.pool, ValidateName: ValidateName, Salvage: salvage})
	return r
}

// frame takes in one frame of the journal.
func (r *revival) frame(f segment.Frame) error {
	if p := r.e.opts.Progress; p != nil {
		p.At(f)
	}
	return r.Frame(f)
}

// finish puts the queues into the engine's shards and returns the number of queues and items.
func (r *revival) finish() (queues int, items int64, err error) {
	lastQueue, lastRun := r.LastNumbers()
	r.e.lastNumber.Store(lastQueue)
	r.e.spool.dir.Taken(lastRun)
	all := r.Queues()
	twice := replay.NamedTwice(all)
	for i, q := range all {
		all[i] = nil // a start should not keep two of each of a hundred thousand queues
		if !q.Named {
			if n := q.Items(); n > 0 {
				return 0, 0, r.corrupt("queue %d has %d items but no name", q.Number, n)
			}
			continue // deleted, and all that is left are removes
		}
		sh := r.e.shardOf([]byte(q.Name))
		if twice[q.Name] {
			r.withhold(q, nil, r.corrupt("queue %q exists twice", q.Name))
			continue
		}
		live, err := r.bringBack(q, sh)
		if err != nil && withholds(err) {
			r.withhold(q, live, err)
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("queue %q: %w", q.Name, err)
		}
		sh.add(live)
		queues++
		items += live.items() + live.leased()
	}
	r.e.queueCount.Store(int64(queues))
	r.e.created.Store(int64(queues))
	return queues, items, nil
}

// bringBack makes a live queue of a replayed one. With an error, the queue that it returns is not whole.
func (r *revival) bringBack(q *replay.Queue, sh *shard) (*queue, error) {
	opts := r.e.settings.Load().shared(q.Name)
	live := &queue{name: q.Name, number: q.Number, shard: sh, created: q.Created, opts: opts, nextID: q.NextID}
	m, err := marks.Open(r.e.spool.reader, r.e.spool.dir, q.Marked)
	if err != nil {
		return live, err
	}
	if m != nil {
		q.Gone.AddAll(&m.IDs)
	}
	q.Compact(&r.pool, opts.MaxMemorySize)
	if len(q.Changed) > 0 {
		if err := r.setAside(live, q); err != nil {
			return live, err
		}
	}
	if err := r.restoreHidden(live, q); err != nil {
		return live, err
	}
	live.spilled = len(q.Runs) > 0
	if err := r.restore(live, q); err != nil {
		return live, err
	}
	if m != nil {
		if live.backlog == nil { // the file is dropped from there
			live.backlog = &backlog{}
			r.e.spool.queues.Add(live)
		}
		live.backlog.marks = m
	}
	live.segments = q.Segments
	if err := r.e.indexKeys(live, q.Keys); err != nil {
		return live, err
	}
	live.counters.replayed = live.items() + live.leased()
	live.trimSegments()
	r.e.shrink(live)
	return live, nil
}

// setAside moves the items that are not in line from what was replayed to its items aside.
func (r *revival) setAside(live *queue, q *replay.Queue) error {
	err := q.TakeChanged(&r.pool, live.opts.MaxMemorySize, func(it Item, seg uint64, c record.Change) {
		it = it.Apart()
		r.e.setAside(live, &it, seg, entryOf(c))
	})
	if err != nil {
		return r.corrupt("%v", err)
	}
	return nil
}

// restoreHidden brings back the hidden runs in which something lives. It returns a *segment.CorruptionError if
// one is not what the journal says. Of a run it reads the index, and a few frames.
func (r *revival) restoreHidden(live *queue, q *replay.Queue) error {
	s := r.e.spool
	for _, h := range q.Hidden {
		if h.Live.Len() == 0 {
			continue
		}
		run, err := s.hiddenReader.Open(s.dir.File(h.Run), h.State, h.Live)
		if err != nil {
			return err
		}
		live.itemsAside().hidden.Add(run)
		s.registerHidden(live)
	}
	if live.aside != nil {
		r.e.setAlarm(live)
	}
	return nil
}

// corrupt is the error of a journal whose records do not fit together.
func (r *revival) corrupt(format string, args ...any) error {
	return &segment.CorruptionError{
		Path: r.e.journals.Current(), Reason: fmt.Sprintf(format, args...),
	}
}

// restore gives q what is in line, and makes its backlog of its runs. It returns a *segment.CorruptionError if a run is
// not what the journal says.
func (r *revival) restore(q *queue, from *replay.Queue) error {
	s := r.e.spool
	l, err := from.Restore(&r.pool, q.opts.MaxMemorySize, s.reader, s.dir, func(number uint64) bool {
		_, found := slices.BinarySearch(s.found, number)
		return found
	})
	if q.window = l.Window; err != nil || !l.HasRuns() {
		return err
	}
	b := &backlog{
		recent: l.Recent, count: l.InRuns.Count, bytes: l.InRuns.Bytes, onDisk: l.InRuns.Count, nextID: l.First,
		gone: l.Gone, oldest: l.Oldest,
	}
	for _, p := range l.Spent {
		b.spent = append(b.spent, &run{File: p.File, written: p.State, recorded: p.State})
	}
	for _, p := range l.Runs {
		b.runs = append(b.runs, &run{File: p.File, written: p.State, recorded: p.State})
	}
	q.backlog = b
	s.queues.Add(q)
	if len(b.runs) == 0 {
		return nil
	}
	b.inReadBehind, b.next = true, runs.At(b.runs[0], l.First)
	q.writtenTo, q.spilledTo = l.LastID(), l.LastID()
	for _, it := range l.Open { // by their ids among the others that are not in line
		r.e.setAside(q, &it.Item, it.Segment, aside.Entry{State: aside.Restored})
	}
	if b.count == 0 {
		r.e.leaveReadBehind(q)
		r.e.retire(q)
	}
	return nil
}

// eachOnDisk calls f for the items of a backlog that are on disk alone, oldest first, until f returns false. Each frame
// has memory of its own.
func (s *spool) eachOnDisk(b *backlog, f func(Item) bool) error {
	chain := make([]runs.Part, len(b.runs))
	for i, r := range b.runs {
		chain[i] = runs.Part{File: r.File, State: r.written}
	}
	return s.reader.EachFrom(chain, b.next.ID, b.onDisk, &b.gone, f)
}

// clean removes the files that no queue's backlog has, and logs how many there were. An earlier process had not
// recorded them, or had no time to remove them. One that cannot be removed keeps its number.
func (s *spool) clean() error {
	if err := s.fs.MkdirAll(s.dir.Path); err != nil {
		return fmt.Errorf("make directory of backlogs: %w", err)
	}
	owned := make(map[uint64]bool)
	for _, q := range s.queues.All(s.e.opts.yield) {
		for _, r := range slices.Concat(q.backlog.runs, q.backlog.spent) {
			owned[r.ID.Number] = true
		}
		if m := q.backlog.marks; m != nil {
			owned[m.ID.Number] = true
		}
	}
	for _, q := range s.hiders.All(s.e.opts.yield) {
		for _, r := range q.aside.hidden.Runs() {
			owned[r.ID.Number] = true
		}
	}
	removed, failed := s.dir.RemoveAll(s.found, func(number uint64) bool { return owned[number] || s.e.withheld.runs[number] })
	s.found = nil
	s.e.report("backlog: files that belong to no queue could not be removed; the next start tries again", failed)
	if removed.Files > 0 {
		s.e.log.Info("removed backlog files that belong to no queue",
			"files", removed.Files, "bytes", removed.Bytes, "first", removed.First,
			"why", "the journal does not name them: they were not recorded before the process ended,"+
				" or nothing of them was left, or their queue was deleted or keeps no journal")
	}
	return nil
}

// indexKeys makes the index of a queue that has just been brought back. inJournal says that its items that are in
// memory may have keys.
func (e *Engine) indexKeys(q *queue, inJournal bool) error {
	inRuns, err := e.spool.indexRuns(q)
	if err != nil || !inJournal && !inRuns {
		return err
	}
	note := func(it Item) bool {
		q.noteNewest(&it)
		return true
	}
	q.window.Each(note)
	if q.backlog != nil {
		q.backlog.recent.Each(note)
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		note(q.aside.Item(r))
	}
	for r := q.returned.First(); r != nil; r = r.link.Next() {
		note(r.item)
	}
	return nil
}

// indexRuns notes the keys of the items of q that are on disk alone, and reports whether a run may have keys.
func (s *spool) indexRuns(q *queue) (rich bool, err error) {
	files, err := s.keyFiles(q)
	if err != nil || len(files) == 0 {
		return false, err
	}
	return true, s.reader.IndexKeys(files, q.index, func(f runs.File, err error) {
		s.e.log.Warn("keys of a backlog file cannot be used: reading them from its items",
			"queue", q.name, "file", f.Path, "err", err)
	})
}

// keyFiles returns the runs of q in which items may have keys, and notes which of a backlog these are.
func (s *spool) keyFiles(q *queue) (files []runs.KeyFile, err error) {
	add := func(f runs.KeyFile) (extended bool, err error) {
		if extended, f.Keyed, err = s.reader.Extended(f.File); err == nil && extended {
			files = append(files, f)
		}
		return extended, err
	}
	if b := q.backlog; b != nil {
		lives := func(id uint64) bool { return id >= b.nextID && !b.gone.Has(id) }
		for _, r := range b.runs {
			r.extended, err = add(runs.KeyFile{
				File: r.File, First: segment.RunStart, End: r.recorded.End,
				OnDisk: func(id uint64) bool { return r.recorded.Contains(id) && lives(id) },
				Each: func(note func(Item)) error {
					return s.reader.Each(r.File, r.recorded.End, func(it Item) {
						if lives(it.ID) {
							note(it)
						}
					})
				},
			})
			if err != nil {
				return nil, err
			}
		}
	}
	if q.aside == nil {
		return files, nil
	}
	for _, r := range q.aside.hidden.Runs() {
		_, err := add(runs.KeyFile{
			File: r.File, First: r.Index, End: r.End, OnDisk: r.OnDisk,
			Each: func(note func(Item)) error {
				return s.eachIn(r, r.Next(), func(e hidden.Entry) bool {
					if r.OnDisk(e.ID) {
						note(e.Item)
					}
					return true
				})
			},
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// withholds reports whether an error that kept a queue from being brought back is about that queue
// alone. What the process lacks is not: another start may have it.
func withholds(err error) bool {
	return !segment.OutOfFiles(err) && !errors.Is(err, syscall.ENOMEM)
}

// withhold leaves a queue out, because of err, and gives back what there is of the live one, which may be nil.
func (r *revival) withhold(q *replay.Queue, live *queue, err error) {
	w, s := &r.e.withheld, r.e.spool
	q.Window.Clear(&r.pool)
	if live != nil {
		r.giveUp(live)
	}
	if w.names == nil {
		w.names, w.runs = make(map[string]error), make(map[uint64]bool)
	}
	for id := range q.Files {
		s.reader.Forget(s.dir.File(id))
		w.runs[id.Number] = true
	}
	if w.oldest == 0 || q.Oldest < w.oldest {
		w.oldest = q.Oldest
	}
	reason := fmt.Errorf("%w: queue %q: %w", ErrWithheld, q.Name, err)
	w.names[q.Name] = reason
	r.e.shardOf([]byte(q.Name)).withholdChild(q.Name, reason)
	w.queues = append(w.queues, WithheldQueue{q.Name, q.Number, reason})
	slices.SortFunc(w.queues, func(a, b WithheldQueue) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number))
	})
}

// giveUp gives back what a queue holds that nobody has seen.
func (r *revival) giveUp(q *queue) {
	if q.backlog != nil {
		r.e.spool.queues.Remove(q)
		q.backlog = nil
	}
	q.window.Clear(&r.pool)
	if q.aside == nil {
		return
	}
	r.e.clearAlarm(q)
	for q.aside.Len() > 0 {
		q.dropAside(aside.Ref(q.aside.Len() - 1))
	}
	q.aside.Clear()
	q.aside.hidden.DropIf(func(*hidden.Run) bool { return true })
	r.e.spool.hiders.Remove(q)
	q.aside = nil
}

// maxWithheldLines is how many queues that are withheld the log names one by one.
const maxWithheldLines = 20

// logWithheld logs what is not served, and what to do.
func (e *Engine) logWithheld() {
	const advice = "put a good copy of the file in its place and start again; or stop the server:" +
		" 'kestrel journal repair' says what is lost, and with --apply saves the rest"
	all := e.withheld.queues
	for i, q := range all {
		if i == maxWithheldLines {
			e.log.Error("more queues are withheld", "queues", len(all)-i, "repair", advice)
			return
		}
		e.log.Error("queue is withheld: the server refuses its requests and leaves its files alone",
			"queue", q.Name, "number", q.Number, "err", q.Reason, "repair", advice)
	}
}

// Progress shows other goroutines how far Open or Inspect has come with the journal, or Examine with all files. The
// zero value is ready; each is for one of them.
type Progress = replay.Progress
