package engine

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
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
	Oldest, Newest Time // of those that are not in hidden runs
}

// Inspect reads a data directory as Open does, and agrees with it on what is there, but changes nothing. Of opts it
// heeds Dir, FS, Settings and Progress. It returns ErrLocked if a process uses the directory, and a
// *segment.CorruptionError if the journal is damaged. Without a journal the error wraps fs.ErrNotExist. While a
// Snapshot is open no process can use the directory.
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
	if p := e.opts.Progress; err == nil && p != nil {
		p.Begin(e.fs, e.journals.Current())
	}
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
		d.Delayed = q.aside.Tally(aside.Delayed).Count + q.hiddenDisk().Count
	}
	err := s.eachShown(q, func(it Item, _ Standing) bool {
		if d.Oldest == 0 {
			d.Oldest = it.Added
		}
		d.Newest = it.Added
		return q.backlog == nil
	})
	if err != nil || q.backlog == nil {
		return d, err
	}
	newest, err := s.lastAdded(q.backlog)
	d.Newest = newest
	for _, part := range [...]*item.Window{&q.backlog.leaving, &q.backlog.recent} {
		part.Each(func(it Item) bool {
			d.Newest = it.Added
			return true
		})
	}
	return d, err
}

// lastAdded returns when the last item of a backlog's runs was added.
func (s *Snapshot) lastAdded(b *backlog) (Time, error) {
	if len(b.runs) == 0 {
		return 0, nil
	}
	last := b.runs[len(b.runs)-1]
	return s.e.spool.reader.LastAdded(last.File, last.recorded.End)
}

// Each calls f for the items of the queue called name, oldest first, until f returns false. Delayed items in
// hidden runs come behind the others, those of one run after those of another. Data is valid during the call. Each
// returns an error that wraps fs.ErrNotExist if there is no such queue,
// and a *segment.CorruptionError where its backlog cannot be read on.
func (s *Snapshot) Each(name string, f func(Item) bool) error {
	return s.EachStanding(name, func(it Item, _ Standing) bool { return f(it) })
}

// EachStanding is Each that says too how an item stands. Of several items of one key, all but one of which have
// expired, that one has the key here.
func (s *Snapshot) EachStanding(name string, f func(Item, Standing) bool) error {
	q := s.e.shardOf([]byte(name)).queues[name]
	if q == nil {
		return fmt.Errorf("queue %q: %w", name, fs.ErrNotExist)
	}
	more := true
	each := func(it Item, stands Standing) bool {
		if it.HasKey() && !q.isOfKey(&it) {
			it = it.With(nil, nil, string(it.Origin()), it.Why())
		}
		more = f(it, stands)
		return more
	}
	err := s.eachShown(q, each)
	if err != nil || !more || q.aside == nil {
		return err
	}
	return s.e.spool.hiddenReader.EachOnDisk(&q.aside.hidden.Set, func(e hidden.Entry) bool {
		return each(e.Item, Standing{Due: e.Due, Count: e.Count})
	})
}

// eachShown calls f for what is not in hidden runs.
func (s *Snapshot) eachShown(q *queue, f func(Item, Standing) bool) error {
	more, ids := true, slices.Sorted(q.asideIDs())
	each := func(it Item) bool {
		for ; more && len(ids) > 0 && ids[0] < it.ID; ids = ids[1:] {
			r, _ := q.aside.Find(ids[0])
			entry := q.aside.Get(r)
			more = f(q.aside.Item(r), Standing{Due: entry.Due, Token: entry.Token, Count: entry.Count})
		}
		more = more && (it.ID == q.nextID || f(it, Standing{}))
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
func JournalDir(fsys segment.FS, dataDir string) (string, error) {
	dirs, err := journal.FindDirs(fsys, dataDir)
	if err != nil {
		return "", err
	}
	return dirs.Current(), nil
}

// Create makes the queue called name if it does not exist. It returns ErrClosed, ErrTooManyQueues,
// ErrTooManyChildren or ErrBadName.
func (e *Engine) Create(now Time, name []byte) (Ticket, error) {
	defer contain()
	if e.closed.Load() {
		return Ticket{}, ErrClosed
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, t, err := e.findOrCreate(sh, now, name)
	return t, err
}

// Restore appends an item to the queue called name as another store had it. The item keeps its time added, expiry,
// key, origin, and how it stands. It gives it the queue's next id. It copies Data. Unlike Put it heeds no option of
// the queue, neither limits nor white list, and passes the item on to no other queue. An alias's name is a queue's
// here, and the fanout children have items of their own. If another item has the key or the receipt already, that item keeps
// it. The ticket is that of a Put.
//
// It returns ErrItemTooLarge, ErrOutOfMemory, ErrOutOfDisk, ErrJournal, ErrClosed,
// ErrTooManyQueues, ErrTooManyChildren or ErrBadName, having added nothing.
func (e *Engine) Restore(now Time, name []byte, it Item, stands Standing) (Ticket, error) {
	defer contain()
	if err := e.admit(len(it.Data)); err != nil {
		return Ticket{}, err
	}
	it = it.Apart() // it is the caller's
	sh := e.shardOf(name)
	p := PutRequest{Data: it.Data, Flags: it.Flags, Expiry: it.Expiry}
	more := !it.IsPlain() || !stands.IsZero()
	var large *largePut
	if it.HasOwnMemory() {
		if more {
			sh.mu.Lock()
			p.Extra = sh.queues[string(name)].extraOf(now, &it, string(it.Origin()), it.Why())
			sh.mu.Unlock()
		}
		large = e.image(&p, p.large(it.Added, 1))
		defer e.dropLarge(large)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q, made, err := e.findOrCreate(sh, now, name)
	if err != nil {
		return made, err
	}
	sh.targets, sh.large = append(sh.targets[:0], q), large
	defer func() { sh.large = nil }()
	sh.puts++
	if more {
		p.Extra = q.restored(now, &it, stands)
	}
	s := Stored{Ticket: made}
	e.add(sh, now, &p, it.Added, record.Destination{}, &s)
	return s.Ticket, nil
}

// restored is what it, as another store had it, has in q beside its body.
func (q *queue) restored(now Time, it *Item, stands Standing) *PutExtra {
	x := q.extraOf(now, it, string(it.Origin()), it.Why())
	x.stands = stands
	if stands.Token != 0 {
		if _, taken := q.itemsAside().FindToken(stands.Token); taken {
			x.stands.Token = q.newToken()
		}
	}
	return x
}

// NextID returns the id that the next item of the queue called name will have, 1 if it does not
// exist. Ids rise by one for each item, so it shows how many were added.
func (e *Engine) NextID(name []byte) uint64 {
	defer contain()
	sh, q := e.lockQueue(name)
	defer sh.mu.Unlock()
	if q != nil {
		return q.nextID
	}
	return 1
}

// Damage is what Examine found wrong with a data directory, and what its Repair would make of it. Its
// methods may not be called at the same time. Close it.
type Damage = repair.Damage

// Loss is a range of ids of one queue of whose items some or all are lost.
type Loss = repair.Loss

// StrayRun is a run of a queue that is not known.
type StrayRun = repair.StrayRun

// SalvagedQueue is a queue as Repair leaves it.
type SalvagedQueue = repair.SalvagedQueue

// Examine reads all of a data directory, backlogs included. It reports the damage and what is left of the queues, and
// changes nothing. Of opts it heeds Dir, FS, Settings, Progress and what says how journals and backlogs are written.
// It returns ErrLocked if a process uses the directory, and the error of a disk that cannot be read. Without a
// journal the error wraps fs.ErrNotExist. A journal whose records are whole but make no sense together is a
// *segment.CorruptionError, and beyond repair. While a Damage is open no process can use the directory.
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
		FS: e.fs, Dir: e.opts.Dir, Runs: e.spool.dir.Path, Locks: e.opts.FS == nil,
		Log: e.logOptions(), Compression: e.opts.BacklogCompression, Report: e.report,
		Expect: e.opts.Progress.Expect, Read: e.opts.Progress.Add,
	}, func(dirs *journal.Dirs, s *repair.Salvage) repair.Replay {
		e.journals = dirs
		return salvageReplay{newRevival(e, s), see}
	})
	if err != nil {
		return nil, fmt.Errorf("examine %s: %w", opts.Dir, err)
	}
	return d, nil
}

// salvageReplay is the replay of a journal that may be damaged.
type salvageReplay struct {
	*revival
	see func(*repair.Queue)
}

// Queues returns what the replay knows of each queue, in the order of their numbers.
func (r salvageReplay) Queues() []*repair.Queue {
	queues := r.Salvaged()
	if r.see != nil {
		for _, q := range queues {
			r.see(q)
		}
	}
	return queues
}
