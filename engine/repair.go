package engine

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// savedName is how the directories begin that hold what repairs took away.
const savedName = "damaged"

// Repair writes what can be had: backlogs that are damaged to new runs, and the state of all queues
// to a new journal, which becomes the journal in one step. Before, it copies the old journal, and
// the runs that it replaces or that nobody claims, to a directory of their own, Saved. It waits for
// the disk. After an error the old journal counts still, or the new one; never a part of either. If it
// is the old one, nothing of what the repair has made is left to take room.
func (d *Damage) Repair() error {
	if err := d.repair(); err != nil {
		return fmt.Errorf("repair %s: %w", d.e.opts.Dir, err)
	}
	return nil
}

func (d *Damage) repair() (err error) {
	if d.lock == nil && d.e.opts.FS == nil {
		if d.lock, err = dirlock.Make(d.e.opts.Dir); err != nil {
			return err
		}
	}
	w := &runRepair{s: d.e.spool, coder: segment.NewCoder(d.e.opts.BacklogCompression)}
	defer w.coder.Close()
	dir, replaced, err := d.prepareRepair(w)
	if err != nil {
		return errors.Join(err, d.undo(w, dir))
	}
	if err := d.e.journals.Complete(dir); err != nil {
		return err // it may count all the same
	}
	d.e.removeOtherJournals()
	return d.removeReplaced(replaced)
}

// prepareRepair does all of a repair that changes nothing yet. It returns the directory of the new
// journal and the runs that are of no use when that counts.
func (d *Damage) prepareRepair(w *runRepair) (dir string, replaced []string, err error) {
	dir = d.e.journals.Next()
	if err := d.saveCopies(); err != nil {
		return dir, nil, fmt.Errorf("keep copies: %w", err)
	}
	for _, q := range d.queues {
		files, err := w.repair(q)
		if err != nil {
			return dir, nil, fmt.Errorf("queue %q: %w", q.name, err)
		}
		replaced = append(replaced, files...)
	}
	return dir, replaced, d.writeJournal(dir)
}

// undo removes what a repair that failed has made.
func (d *Damage) undo(w *runRepair, dir string) error {
	err := d.e.journals.Abandon(dir)
	for _, name := range w.files {
		err = errors.Join(err, d.removeFile(name))
	}
	if len(d.saved) == 0 {
		return err
	}
	for _, name := range slices.Backward(d.saved) { // directories come before what is in them
		err = errors.Join(err, d.removeFile(name))
	}
	d.Saved, d.saved = "", nil
	return errors.Join(err, d.e.fs.SyncDir(d.e.opts.Dir))
}

// removeReplaced removes runs that are of no use any more. A file may hold another run by now, which
// has the number of one that is long gone: earlier versions gave numbers again.
func (d *Damage) removeReplaced(replaced []string) error {
	used := make(map[string]bool)
	for _, q := range d.queues {
		for _, r := range q.live {
			used[r.path] = true
		}
	}
	for _, u := range d.Unclaimed {
		replaced = append(replaced, u.Path)
	}
	for _, name := range replaced {
		if used[name] {
			continue
		}
		if err := d.removeFile(name); err != nil {
			return err
		}
	}
	return nil
}

// removeFile removes a file, or an empty directory, if it is there.
func (d *Damage) removeFile(name string) error {
	if err := d.e.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// saveCopies copies what the repair takes away: the journal, and runs.
func (d *Damage) saveCopies() error {
	names, err := d.e.fs.List(d.e.opts.Dir)
	if err != nil {
		return err
	}
	n := 1
	for slices.Contains(names, fmt.Sprintf("%s.%d", savedName, n)) {
		n++
	}
	d.Saved = path.Join(d.e.opts.Dir, fmt.Sprintf("%s.%d", savedName, n))
	files, err := d.e.fs.List(d.e.journals.Current())
	if err != nil {
		return err
	}
	var from []string
	for _, name := range files {
		if !strings.HasSuffix(name, ".spare") && !strings.HasSuffix(name, ".new") { // mean nothing
			from = append(from, path.Join(d.e.journals.Current(), name))
		}
	}
	for _, q := range d.queues {
		for _, r := range q.live {
			if len(r.gaps) > 0 {
				from = append(from, r.path)
			}
		}
	}
	for _, q := range d.dropped { // no start will find them needed
		for _, r := range q.live {
			from = append(from, r.path)
		}
	}
	for _, u := range d.Unclaimed {
		from = append(from, u.Path)
	}
	slices.Sort(from)
	d.saved = []string{d.Saved}
	for _, name := range slices.Compact(from) {
		if err := d.saveCopy(name); err != nil {
			return err
		}
	}
	return nil
}

// saveCopy copies a file to the directory in Saved that is called as its own is.
func (d *Damage) saveCopy(name string) error {
	dir := path.Join(d.Saved, path.Base(path.Dir(name)))
	if !slices.Contains(d.saved, dir) {
		if err := d.e.fs.MkdirAll(dir); err != nil {
			return err
		}
		d.saved = append(d.saved, dir)
	}
	to := path.Join(dir, path.Base(name))
	err := segment.CopyFile(d.e.fs, name, to)
	if errors.Is(err, fs.ErrNotExist) { // that is what is wrong with it
		return nil
	}
	if err != nil {
		return err
	}
	d.saved = append(d.saved, to)
	return d.e.fs.SyncDir(dir)
}

// writeJournal makes a journal in dir that says what the queues are, and makes it durable.
func (d *Damage) writeJournal(dir string) (err error) {
	log, _, err := segment.Open(dir, d.e.logOptions(), noFrame)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	buf := make([]byte, segment.FrameHeaderSize, 2*journal.MaxBatch)
	flush := func(least int) error {
		if len(buf) <= max(least, segment.FrameHeaderSize) {
			return nil
		}
		_, grown, err := log.Append(buf)
		if buf = make([]byte, segment.FrameHeaderSize, 2*journal.MaxBatch); grown != nil {
			buf = grown[:segment.FrameHeaderSize]
		}
		return err
	}
	batch := int(min(journal.MaxBatch, d.e.opts.SegmentSize/4))
	for _, q := range d.queues {
		q.eachRecord(func(encode func([]byte) []byte) {
			if buf = encode(buf); err == nil {
				err = flush(batch)
			}
		})
	}
	if err == nil {
		err = flush(0)
	}
	if err == nil {
		_, err = log.Sync()
	}
	return err
}

// eachRecord calls write with a function that encodes a record, for each record of q.
func (q *salvagedQueue) eachRecord(write func(encode func([]byte) []byte)) {
	name := func(nextID uint64) {
		write(func(b []byte) []byte { return record.AppendQueue(b, q.number, nextID, q.created, q.name) })
	}
	name(1)
	last := uint64(0) // of the runs
	for _, r := range q.live {
		last = max(last, r.recorded.LastID)
		write(func(b []byte) []byte { return record.AppendSpill(b, q.number, r.id, r.recorded) })
	}
	for _, ids := range q.gone.Within(idset.Between(1, last)) {
		for first := ids.First; first <= ids.Last; {
			more := min(ids.Last-first, math.MaxUint32)
			write(func(b []byte) []byte { return record.AppendRemove(b, q.number, first, uint32(more)) })
			first += more + 1
		}
	}
	kept := slices.Sorted(maps.Keys(q.kept))
	early, _ := slices.BinarySearch(kept, last+1)
	for _, id := range kept[:early] {
		write(func(b []byte) []byte { return record.AppendKeep(b, q.number, q.kept[id].Item) })
	}
	put := func(it Item) {
		write(func(b []byte) []byte {
			return record.AppendPut(b, record.Destination{Queue: q.number, Item: it.ID}, it)
		})
	}
	late := kept[early:]
	q.window.Each(func(it Item) bool {
		for len(late) > 0 && late[0] < it.ID {
			put(q.kept[late[0]].Item)
			late = late[1:]
		}
		put(it)
		return true
	})
	for _, id := range late {
		put(q.kept[id].Item)
	}
	name(q.nextID)
}

// runRepair writes what lives of damaged runs to new ones.
type runRepair struct {
	s     *spool
	coder *segment.Coder
	made  []liveRun
	files []string // made, for all queues

	// Of the run being written:
	run    *segment.RunWriter
	state  runs.State
	buf    []byte // images of a frame
	tag    runs.Tag
	others idset.Set // of the queue's other runs
}

// repair replaces the runs of q that have gaps, and returns the files that are of no use then.
func (w *runRepair) repair(q *salvagedQueue) (replaced []string, err error) {
	var whole []liveRun
	w.others, w.made = nil, nil
	for _, r := range q.live {
		if len(r.gaps) == 0 {
			whole = append(whole, r)
			w.others = append(w.others, r.recorded.IDs())
		}
	}
	for _, r := range q.live {
		if len(r.gaps) == 0 {
			continue
		}
		if err := w.rewrite(q, &r); err != nil {
			return replaced, err
		}
		for _, ids := range r.lostOf(q) { // or a start would look for them
			q.gone = q.gone.Add(ids)
		}
		replaced = append(replaced, r.path)
	}
	q.live = append(whole, w.made...)
	slices.SortFunc(q.live, func(a, b liveRun) int { return cmp.Compare(a.first, b.first) })
	return replaced, nil
}

// rewrite writes what lives of r, and what was saved of it, in the order of ids.
func (w *runRepair) rewrite(q *salvagedQueue, r *liveRun) error {
	var saved []uint64
	for id := range q.saved {
		if r.lives(id) && r.lost.Has(id) {
			saved = append(saved, id)
		}
	}
	slices.Sort(saved)
	savedBelow := func(id uint64) (err error) {
		for len(saved) > 0 && saved[0] < id && err == nil {
			it := q.saved[saved[0]]
			it.ID = saved[0]
			err = w.add(it)
			saved = saved[1:]
		}
		return err
	}
	v := &salvage{d: &Damage{e: w.s.e}}
	_, err := v.eachFrame(r.salvagedRun, func(_ segment.RunFrame, tag runs.Tag, body []byte) (err error) {
		item.EachImage(body, tag.FirstID, func(it Item) bool {
			if err = savedBelow(it.ID); err == nil && r.lives(it.ID) {
				err = w.add(it)
			}
			return err == nil
		})
		return err
	})
	if err == nil {
		err = savedBelow(math.MaxUint64)
	}
	return errors.Join(err, w.end(err == nil))
}

// add puts an item behind the others.
func (w *runRepair) add(it Item) error {
	between := func(ids idset.Range) bool { return w.tag.LastID < ids.First && ids.First < it.ID }
	if w.run != nil && slices.ContainsFunc(w.others, between) {
		// A run that reached across another one would hide it.
		if err := w.end(true); err != nil {
			return err
		}
	}
	if w.run == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if len(w.buf) > 0 && len(w.buf)+item.ImageSize(it) > item.MaxChunkSize {
		w.frame()
		if w.run.Buffered() >= spillBatch {
			if err := w.run.Write(); err != nil {
				return err
			}
		}
	}
	switch {
	case len(w.buf) == 0:
		w.tag = runs.Tag{FirstID: it.ID}
	case it.ID > w.tag.LastID+1:
		w.buf = binary.AppendUvarint(append(w.buf, item.GapFormat), it.ID-w.tag.LastID-1)
	}
	w.buf = item.AppendImage(w.buf, it)
	w.tag.LastID = it.ID
	w.tag.Count++
	w.tag.Bytes += int64(len(it.Data))
	return nil
}

// begin makes a run.
func (w *runRepair) begin() (err error) {
	if err := w.s.makeDir(); err != nil {
		return err
	}
	number := w.s.lastRun.Add(1)
	w.state, w.tag = runs.State{}, runs.Tag{}
	w.run, err = segment.CreateRun(w.s.fs, runs.Path(w.s.dir, number), number, segment.Cached)
	if err == nil {
		w.files = append(w.files, w.run.Path())
	}
	return err
}

// frame makes a frame of what has gathered.
func (w *runRepair) frame() {
	w.run.Add(w.coder, w.tag.Encode(), w.buf)
	w.state.Add(w.tag)
	w.buf = w.buf[:0]
}

// end makes the run that is being written durable, if there is one and it is to be kept.
func (w *runRepair) end(keep bool) (err error) {
	if w.run == nil {
		return nil
	}
	if keep {
		w.frame()
		if err = w.run.Write(); err == nil {
			err = w.run.Sync()
		}
		w.state.End = w.run.End()
		made := &salvagedRun{run: run{
			path: w.run.Path(), id: w.run.ID(), written: w.state, recorded: w.state,
		}}
		w.made = append(w.made, liveRun{salvagedRun: made, first: w.state.FirstID})
	}
	err = errors.Join(err, w.run.Close())
	w.run, w.buf = nil, w.buf[:0]
	return err
}
