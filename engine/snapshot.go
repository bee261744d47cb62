package engine

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/kestrelmq/kestrel/segment"
)

// Snapshot is what a data directory holds, read without changing anything in it. Its methods may
// not be called at the same time. Close it.
type Snapshot struct {
	Queues   []QueueSnapshot   // sorted by name
	Segments []segment.Segment // of the journal, oldest first
	// Tear is where the journal ends in a torn write, which Open would cut; nil if it ends cleanly.
	Tear *segment.Tear

	e    *Engine // without a journal
	lock *dirLock
}

// QueueSnapshot is a queue as Open would bring it back.
type QueueSnapshot struct {
	Name         string
	Created      Time
	NextID       uint64
	Items, Bytes int64
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
	fs := e.opts.FS
	if fs == nil {
		fs = segment.OS{}
		if s.lock, err = shareDir(e.opts.Dir); err != nil {
			return nil, err
		}
	}
	r := newReplay(e)
	s.Segments, s.Tear, err = segment.Scan(fs, path.Join(e.opts.Dir, "journal"), r.frame)
	if err == nil {
		_, _, err = r.finish()
	}
	if err != nil {
		s.lock.release()
		return nil, err
	}
	e.eachQueue(func(q *queue) { s.Queues = append(s.Queues, q.snapshot()) })
	slices.SortFunc(s.Queues, func(a, b QueueSnapshot) int { return cmp.Compare(a.Name, b.Name) })
	return s, nil
}

func (q *queue) snapshot() QueueSnapshot {
	s := QueueSnapshot{
		Name: q.name, Created: q.created, NextID: q.nextID, Items: q.items(), Bytes: q.bytes(),
	}
	q.window.each(func(it Item) bool {
		if s.Oldest == 0 {
			s.Oldest = it.Added
		}
		s.Newest = it.Added
		return true
	})
	return s
}

// Each calls f for the items of the queue called name, oldest first, until f returns false. Data is
// valid during the call. Each reports false if there is no such queue.
func (s *Snapshot) Each(name string, f func(Item) bool) bool {
	q := s.e.shardOf([]byte(name)).queues[name]
	if q == nil {
		return false
	}
	q.window.each(f)
	return true
}

// Close lets other processes use the directory again.
func (s *Snapshot) Close() error { return s.lock.release() }
