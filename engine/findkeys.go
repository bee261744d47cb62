package engine

import (
	"errors"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

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

// keyFile is a run of a queue, backlog or hidden, in which items may have keys.
type keyFile struct {
	runs.File
	keyed  bool  // the keys are in frames of their own
	first  int64 // before the frame at this offset there is none of these
	end    int64
	onDisk func(id uint64) bool   // the item of an id is on disk alone, and in this file if it has it
	each   func(func(Item)) error // reads the items that are
}

// indexRuns notes the keys of the items of q that are on disk alone, and reports whether a run may have keys. Of a
// run that has them in frames of their own it reads these, and of others all items.
func (s *spool) indexRuns(q *queue) (rich bool, err error) {
	files, err := s.keyFiles(q)
	if err != nil || len(files) == 0 {
		return false, err
	}
	read, err := s.loadKeys(q, files)
	if err != nil {
		return true, err
	}
	for i := range files {
		if read[i] {
			continue
		}
		if err := files[i].each(func(it Item) { q.noteNewest(&it) }); err != nil {
			return true, err
		}
	}
	return true, nil
}

// keyFiles returns the runs of q in which items may have keys, and notes which of a backlog these are.
func (s *spool) keyFiles(q *queue) (files []keyFile, err error) {
	add := func(f keyFile) (extended bool, err error) {
		if extended, f.keyed, err = s.reader.Extended(f.File); err == nil && extended {
			files = append(files, f)
		}
		return extended, err
	}
	if b := q.backlog; b != nil {
		lives := func(id uint64) bool { return id >= b.nextID && !b.gone.Has(id) }
		for _, r := range b.runs {
			r.extended, err = add(keyFile{
				File: r.File, first: segment.RunStart, end: r.recorded.End,
				onDisk: func(id uint64) bool { return r.recorded.Contains(id) && lives(id) },
				each: func(note func(Item)) error {
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
		_, err := add(keyFile{
			File: r.File, first: r.Index, end: r.End, onDisk: r.OnDisk,
			each: func(note func(Item)) error {
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

// errOtherSeed says that hashes of a file have another seed than those of the queue.
var errOtherSeed = errors.New("the keys in it are those of an earlier start of the queue")

// loadKeys fills the index of q, which has none, with what the frames of files have, the newest file first. It reports
// which files it has read: of the others, the items must be.
func (s *spool) loadKeys(q *queue, files []keyFile) (read []bool, err error) {
	k := keyLoad{s: s, q: q}
	for i := range files {
		if files[i].keyed {
			k.total += files[i].end
		}
	}
	read = make([]bool, len(files))
	for i := len(files) - 1; i >= 0; i-- {
		f := &files[i]
		if !f.keyed {
			continue
		}
		switch err := k.load(f); {
		case err == nil:
			read[i] = true
		case errors.Is(err, errOtherSeed), runs.IsDamage(err):
			s.e.log.Warn("keys of a backlog file cannot be used: reading them from its items",
				"queue", q.name, "file", f.Path, "err", err)
		default:
			return nil, err
		}
	}
	k.begin()
	if k.loader != nil {
		k.loader.End()
	}
	return read, nil
}

// keyLoad is an index that is being filled from frames. It concludes from the newest quarter of all bytes how many
// entries there will be: a single file may have far more than its share. To count them, it would read headers twice.
type keyLoad struct {
	s           *spool
	q           *queue
	total, seen int64            // bytes of all files, and of those that were read
	early       []keyindex.Entry // that there are before the loader
	loader      *keyindex.Loader
	frame       runs.KeyFrame
}

// load adds the entries of a file that are about items on disk alone.
func (k *keyLoad) load(f *keyFile) error {
	k.seen += f.end
	err := k.s.reader.EachKeys(f.File, f.first, f.end, &k.frame, func() error {
		x := k.q.index()
		if x.seed != k.frame.Seed {
			if k.loader != nil || len(k.early) > 0 {
				return errOtherSeed
			}
			x.seed = k.frame.Seed
		}
		for _, e := range k.frame.Entries {
			switch {
			case !f.onDisk(e.ID):
			case k.loader == nil:
				k.early = append(k.early, e)
			default:
				k.loader.Add(e)
			}
		}
		return nil
	})
	if err == nil && k.seen >= k.total/4 {
		k.begin()
	}
	return err
}

// begin makes the loader, if there are entries for it and it is not there yet.
func (k *keyLoad) begin() {
	if k.loader != nil || len(k.early) == 0 {
		return
	}
	n := float64(len(k.early)) * float64(k.total) / float64(k.seen)
	k.loader = k.q.index().Load(int(n))
	for _, e := range k.early {
		k.loader.Add(e)
	}
	k.early = nil
}
