package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// savedName is how the directories begin that hold what repairs took away. One has a file of unfinishedName until all of
// its repair is ready: what was copied to it is still in its place.
const savedName, unfinishedName = "damaged", "unfinished"

// Repair writes what is left: damaged backlogs to new runs, and the state of all queues to a new journal. That
// replaces the old one in one step. First it copies the old journal, and the runs that it replaces or that belong to
// no queue, to a directory of their own, Saved. It waits for the disk. After an error either the old journal counts
// or the new one, never a part of either. If the old one counts, Repair has removed the files that it made.
func (d *Damage) Repair() error {
	if err := d.repair(); err != nil {
		return fmt.Errorf("repair %s: %w", d.place.Dir, err)
	}
	return nil
}

func (d *Damage) repair() (err error) {
	if d.lock == nil && d.place.Locks {
		if d.lock, err = dirlock.Make(d.place.Dir); err != nil {
			return err
		}
	}
	w := &runRepair{d: d, coder: segment.NewCoder(d.place.Compression)}
	defer w.coder.Close()
	if err := errors.Join(d.removeUnfinished(), d.journals.RemoveOthers()); err != nil {
		return err
	}
	dir, replaced, err := d.prepareRepair(w)
	if err == nil {
		err = d.finishCopies()
	}
	if err != nil {
		return errors.Join(err, d.undo(w, dir))
	}
	if err := d.journals.Complete(dir); err != nil {
		if d.journals.MayCount(dir) {
			return err
		}
		return errors.Join(err, d.undo(w, dir))
	}
	d.place.Report("journal: those that were replaced could not be removed; trying again", d.journals.RemoveOthers())
	return d.removeReplaced(replaced)
}

// prepareRepair does all of a repair that changes nothing yet. It returns the directory of the new
// journal and the runs that are of no use when that counts.
func (d *Damage) prepareRepair(w *runRepair) (dir string, replaced []string, err error) {
	dir = d.journals.Next()
	if err := d.saveCopies(); err != nil {
		return dir, nil, fmt.Errorf("copy what is replaced: %w", err)
	}
	for _, q := range d.queues {
		files, err := w.repair(q)
		if err != nil {
			return dir, nil, fmt.Errorf("queue %q: %w", q.Name, err)
		}
		replaced = append(append(replaced, files...), q.lostRuns...)
		for _, h := range q.damaged {
			replaced = append(replaced, h.path)
		}
		if q.marks != "" { // the new journal has records that say the same
			replaced = append(replaced, q.marks)
		}
	}
	return dir, replaced, d.writeJournal(dir)
}

// undo removes what a repair that failed has made.
func (d *Damage) undo(w *runRepair, dir string) error {
	err := d.journals.Abandon(dir)
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
	return errors.Join(err, d.place.FS.SyncDir(d.place.Dir))
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
	for _, u := range d.Stray {
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
	if err := d.place.FS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeUnfinished removes the copies of repairs that were killed before they changed anything.
func (d *Damage) removeUnfinished() error {
	names, err := d.place.FS.List(d.place.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := path.Join(d.place.Dir, name)
		if !strings.HasPrefix(name, savedName+".") {
			continue
		}
		left, err := d.place.FS.List(dir)
		if errors.Is(err, syscall.ENOTDIR) || err == nil && len(left) > 0 && !slices.Contains(left, unfinishedName) {
			continue
		}
		if err == nil {
			err = d.removeCopies(dir, left)
		}
		if err != nil {
			return err
		}
	}
	return d.place.FS.SyncDir(d.place.Dir)
}

// removeCopies removes a directory of copies that has these names, the one that says so last.
func (d *Damage) removeCopies(dir string, names []string) error {
	for _, name := range names {
		if name == unfinishedName {
			continue
		}
		sub := path.Join(dir, name)
		files, err := d.place.FS.List(sub)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := d.place.FS.Remove(path.Join(sub, file)); err != nil {
				return err
			}
		}
		if err := d.place.FS.Remove(sub); err != nil {
			return err
		}
	}
	return errors.Join(d.removeFile(path.Join(dir, unfinishedName)), d.place.FS.Remove(dir))
}

// beginCopies makes the directory of the copies, which says that it is unfinished.
func (d *Damage) beginCopies() error {
	if err := d.place.FS.MkdirAll(d.Saved); err != nil {
		return err
	}
	unfinished := path.Join(d.Saved, unfinishedName)
	d.saved = []string{d.Saved, unfinished}
	f, err := d.place.FS.Create(unfinished)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), d.place.FS.SyncDir(d.Saved))
}

// finishCopies has the copies stay: the originals are to go.
func (d *Damage) finishCopies() error {
	return errors.Join(d.removeFile(path.Join(d.Saved, unfinishedName)), d.place.FS.SyncDir(d.Saved))
}

// saveCopies copies what the repair takes away: the journal, and runs.
func (d *Damage) saveCopies() error {
	names, err := d.place.FS.List(d.place.Dir)
	if err != nil {
		return err
	}
	n := 1
	for slices.Contains(names, fmt.Sprintf("%s.%d", savedName, n)) {
		n++
	}
	d.Saved = path.Join(d.place.Dir, fmt.Sprintf("%s.%d", savedName, n))
	files, err := d.place.FS.List(d.journals.Current())
	if err != nil {
		return err
	}
	var from []string
	for _, name := range files {
		if !strings.HasSuffix(name, ".spare") && !strings.HasSuffix(name, ".new") { // mean nothing
			from = append(from, path.Join(d.journals.Current(), name))
		}
	}
	for _, q := range d.queues {
		for _, r := range q.live {
			if len(r.gaps) > 0 {
				from = append(from, r.path)
				d.place.Expect(d.sizeOf(r.path)) // it is read again, to be written anew
			}
		}
		for _, h := range q.damaged {
			from = append(from, h.path)
		}
		from = append(from, q.lostRuns...)
		if q.marks != "" {
			from = append(from, q.marks)
		}
	}
	for _, q := range d.dropped { // no start will find them needed
		for _, r := range q.live {
			from = append(from, r.path)
		}
		for _, h := range q.Hidden {
			from = append(from, runs.Path(d.place.Runs, h.ID.Number))
		}
		for _, h := range q.damaged {
			from = append(from, h.path)
		}
		from = append(from, q.lostRuns...)
		if q.marks != "" {
			from = append(from, q.marks)
		}
	}
	for _, u := range d.Stray {
		from = append(from, u.Path)
	}
	slices.Sort(from)
	from = slices.Compact(from)
	for _, name := range from {
		d.place.Expect(d.sizeOf(name))
	}
	if err := d.beginCopies(); err != nil {
		return err
	}
	for _, name := range from {
		if err := d.saveCopy(name); err != nil {
			return err
		}
		d.place.Read(d.sizeOf(name))
	}
	return nil
}

// saveCopy copies a file to the directory in Saved that is called as its own is.
func (d *Damage) saveCopy(name string) error {
	dir := path.Join(d.Saved, path.Base(path.Dir(name)))
	if !slices.Contains(d.saved, dir) {
		if err := d.place.FS.MkdirAll(dir); err != nil {
			return err
		}
		d.saved = append(d.saved, dir)
	}
	to := path.Join(dir, path.Base(name))
	err := segment.CopyFile(d.place.FS, name, to)
	if errors.Is(err, fs.ErrNotExist) { // that is what is wrong with it
		return nil
	}
	if err != nil {
		return err
	}
	d.saved = append(d.saved, to)
	return d.place.FS.SyncDir(dir)
}
