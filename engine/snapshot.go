package engine

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/journal"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
)

// Snapshot is what a data directory holds, read without changing anything in it. Its methods may
// not be called at the same time. Close it.
type Snapshot struct {
	Queues   []QueueSnapshot   // sorted by name
	Segments []segment.Segment // of the journal, oldest first
	// Tear is where the journal ends in a torn write, which Open would cut; nil if it ends cleanly.
	Tear *segment.Tear
	// Withheld are the queues that Open would not serve; Queues has the others.
	Withheld []WithheldQueue

	e    *Engine // without a journal
	lock *dirlock.Lock
}

// QueueSnapshot is a queue as Open would bring it back.
type QueueSnapshot struct {
	Name         string
	Created      Time
	NextID       uint64
	Items, Bytes int64 // those that are delayed or leased included
	// Delayed and Leased are how many of the items are hidden until they are due, and how many are leased.
	Delayed, Leased int64
	// Oldest and Newest are when its first and its last item were added; zero without items.
	Oldest, Newest Time
}

// Inspect reads a data directory as Open does, and agrees with it on what is there, but changes
// nothing. Of opts it heeds Dir, FS and Settings. It returns ErrLocked if a process uses the
// directory, a *segment.CorruptionError if the journal is damaged, and an error that wraps
// fs.ErrNotExist if there is none. While a Snapshot is open no process can use the directory.
func Inspect(opts Options) (*Snapshot, error) {
	s, err := inspect(opts)
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", opts.Dir, err)
	}
	return s, nil
}

func inspect(opts Options) (s *Snapshot, err error) {
	e, err := newEngine(opts)
	if err != nil {
		return nil, err
	}
	s = &Snapshot{e: e}
	if e.opts.FS == nil {
		if s.lock, err = dirlock.Share(e.opts.Dir); err != nil {
			return nil, err
		}
	}
	e.spool = newSpool(e, e.fs)
	r, err := e.findJournal()
	if err == nil {
		s.Segments, s.Tear, err = segment.Scan(e.fs, e.journals.Current(), r.frame)
	}
	if err == nil {
		_, _, err = r.finish()
		s.Withheld = e.withheld.queues
	}
	e.eachQueue(func(q *queue) {
		if err == nil {
			var found QueueSnapshot
			found, err = s.describe(q)
			s.Queues = append(s.Queues, found)
		}
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	slices.SortFunc(s.Queues, func(a, b QueueSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	return s, nil
}

// describe returns what q holds. Of a backlog it reads the first and the last items.
func (s *Snapshot) describe(q *queue) (QueueSnapshot, error) {
	d := QueueSnapshot{
		Name: q.name, Created: q.created, NextID: q.nextID, Items: q.items(), Bytes: q.bytes(),
	}
	if q.aside != nil {
		leased := q.aside.Tally(aside.Leased)
		d.Items, d.Bytes, d.Leased = d.Items+leased.Count, d.Bytes+leased.Bytes, leased.Count
		d.Delayed = q.aside.Tally(aside.Delayed).Count
	}
	err := s.each(q, func(it Item) bool {
		if d.Oldest == 0 {
			d.Oldest = it.Added
		}
		d.Newest = it.Added
		return q.backlog == nil
	})
	if err != nil || q.backlog == nil {
		return d, err
	}
	newest, err := s.e.spool.lastAdded(q.backlog)
	d.Newest = newest
	for _, part := range [...]*item.Window{&q.backlog.leaving, &q.backlog.recent} {
		part.Each(func(it Item) bool {
			d.Newest = it.Added
			return true
		})
	}
	return d, err
}

// Each calls f for the items of the queue called name, oldest first, until f returns false. Data is
// valid during the call. Each returns an error that wraps fs.ErrNotExist if there is no such queue,
// and a *segment.CorruptionError where its backlog cannot be read on.
func (s *Snapshot) Each(name string, f func(Item) bool) error {
	q := s.e.shardOf([]byte(name)).queues[name]
	if q == nil {
		return fmt.Errorf("queue %q: %w", name, fs.ErrNotExist)
	}
	return s.each(q, f)
}

// each is Each of q.
func (s *Snapshot) each(q *queue, f func(Item) bool) error {
	more, ids := true, slices.Sorted(q.asideIDs())
	each := func(it Item) bool {
		for ; more && len(ids) > 0 && ids[0] < it.ID; ids = ids[1:] {
			r, _ := q.aside.Find(ids[0])
			more = f(q.aside.Item(r))
		}
		more = more && (it.ID == q.nextID || f(it))
		return more
	}
	err := s.eachInLine(q, &more, each)
	if err == nil && more {
		each(Item{ID: q.nextID}) // none has that id: it brings those aside behind the last
	}
	return err
}

// eachInLine calls each for the items of q that are not aside as long as more is set.
func (s *Snapshot) eachInLine(q *queue, more *bool, each func(Item) bool) error {
	for r := q.returned.First(); r != nil && *more; r = r.link.Next() {
		each(r.item)
	}
	if *more {
		q.window.Each(each)
	}
	b := q.backlog
	if b == nil || !*more {
		return nil
	}
	if err := s.e.spool.eachOnDisk(b, each); err != nil || !*more {
		return err
	}
	if b.leaving.Each(each); *more {
		b.recent.Each(each)
	}
	return nil
}

// Close lets other processes use the directory again.
func (s *Snapshot) Close() error {
	s.e.spool.close()
	return s.lock.Release()
}

// JournalDir returns the path of the journal in a data directory, which need not exist.
func JournalDir(fs segment.FS, dataDir string) (string, error) {
	dirs, err := journal.FindDirs(fs, dataDir)
	if err != nil {
		return "", err
	}
	return dirs.Current(), nil
}
