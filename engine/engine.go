package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/accountname"
	"github.com/kestrelmq/kestrel/engine/internal/alarm"
	"github.com/kestrelmq/kestrel/engine/internal/alias"
	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/diskroom"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/openfiles"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/retain"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
	"github.com/kestrelmq/kestrel/segment"
)

// Engine is a set of durable queues in one data directory. Its methods may be called from any
// goroutine. Those that do not say otherwise neither wait for the disk nor for another client.
type Engine struct {
	// Immutable after Open.
	opts     Options
	files    openfiles.Shares
	log      *slog.Logger
	seed     uint64 // see shardOf
	shards   []shard
	arena    *item.Arena
	journal  *journal.Journal
	journals *journal.Dirs // owned by maintain after Open
	spool    *spool
	fs       segment.FS
	lock     *dirlock.Lock     // nil with a file system other than the operating system's
	dirs     *segment.HeldDirs // likewise
	recovery Recovery
	withheld withheld

	settings   atomic.Pointer[policy]
	memory     atomic.Int64  // bytes that queues, items, open reads and the buffers of clients take
	leased     atomic.Int64  // bytes of them that leases with a receipt take, about
	queueCount atomic.Int64  // queues that exist
	lastNumber atomic.Uint64 // number of the newest queue
	parents    atomic.Int64  // fanout parents, those of all shards
	created    atomic.Int64  // queues made
	notCreated atomic.Int64  // queues not made, because of a limit
	deletes    atomic.Int64  // queues deleted, expired ones included
	expires    atomic.Int64  // queues expired
	closed     atomic.Bool
	backing    retain.Files  // by a backup; taken with no shard or log locked
	disk       diskroom.Room // written by maintain
	pressed    chan struct{} // capacity 1: memory is short

	// Owned by maintain.
	checkpointed uint64 // segment in which the last checkpoint began
	debt         trim.Debt
	moveDelay    time.Duration
	nextMove     time.Time // not before
	leastFree    int64     // bytes of the disk since the journal found no room

	reloadMu sync.Mutex // one Reload at a time; taken with no other lock held

	accounts accountname.Table[*queue]

	aliases alias.Table

	metersMu sync.Mutex // guards the times of every Meter; taken last, and held for memory work only

	alarm    *alarm.Alarm[queue] // wakes queues in which something is due; its mutex is taken inside a shard's
	precise  alarm.Clock         // of delays and leases
	readBack Time                // how long before they are due delayed items are read back, in ms

	stop chan struct{} // closed by Close
	done sync.WaitGroup
}

// Recovery says what Open found in the data directory.
type Recovery struct {
	Queues  int
	Items   int64
	Journal segment.Recovery
	Took    time.Duration
}

// Open opens the data directory, making it if it is missing, and brings every queue back as it was.
// It waits for the disk. Open returns ErrLocked if another process uses the directory, and a
// *segment.CorruptionError, having changed nothing, if the journal is damaged.
func Open(opts Options) (*Engine, error) {
	e, err := open(opts)
	if err != nil {
		return nil, err
	}
	e.measureDisk()
	e.background(func() { e.journal.PrepareSegments(e.stop) })
	e.background(e.maintain)
	if !opts.Still {
		e.background(e.runAlarm)
	}
	e.background(func() { e.journal.SyncPeriodically(e.stop) })
	e.background(func() { e.spool.spills.Work(e.stop, e.spool.spill) })
	e.background(func() { e.spool.records.Work(e.stop, e.spool.recordAndThin) })
	e.background(func() { e.spool.fills.Work(e.stop, e.spool.fill) })
	e.background(func() { e.spool.hides.Work(e.stop, e.spool.hide) })
	return e, nil
}

// open is Open without the background work.
func open(opts Options) (*Engine, error) {
	e, err := newEngine(opts)
	if err != nil {
		return nil, err
	}
	if err := e.openDir(); err != nil {
		return nil, fmt.Errorf("open %s: %w", opts.Dir, err)
	}
	return e, nil
}

// newEngine returns an engine that has no queues and no journal yet.
func newEngine(opts Options) (*Engine, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("engine: bad options: %w", err)
	}
	e := &Engine{
		opts: opts, files: openfiles.Share(opts.Files), log: opts.Logger, seed: rand.Uint64(),
		shards: make([]shard, opts.Shards), stop: make(chan struct{}),
		pressed: make(chan struct{}, 1), alarm: alarm.New[queue](),
		precise: alarm.NewClock(),
	}
	e.disk.Least = opts.DiskReserve
	e.readBack, e.accounts.Yield = Time(opts.readBack.Milliseconds()), opts.yield
	e.aliases.Know(opts.Settings.Aliases, Now())
	if e.fs = opts.FS; e.fs == nil {
		e.dirs = segment.NewHeldDirs()
		e.fs = e.dirs
	}
	e.settings.Store(newPolicy(opts.Settings))
	e.arena = item.NewArena(opts.MemoryLimit)
	for i, free := range item.NewFreeLists(opts.Shards, opts.MemoryLimit) {
		sh := &e.shards[i]
		sh.queues = make(map[string]*queue)
		sh.families = make(map[string]*family)
		sh.timed = make(map[*queue]struct{})
		sh.accounts = &e.accounts
		sh.carried.L = &sh.mu
		sh.allParents = &e.parents
		sh.pool = item.Pool{Memory: &e.memory, Arena: e.arena, Free: free}
		sh.leased = &e.leased
	}
	return e, nil
}

// openDir locks the data directory and replays its journal.
func (e *Engine) openDir() (err error) {
	started := time.Now()
	if e.opts.FS == nil {
		if e.lock, err = dirlock.Make(e.opts.Dir); err != nil {
			return err
		}
	}
	e.spool = newSpool(e, e.fs)
	r, err := e.findJournal()
	if err == nil {
		e.spool.found, err = e.spool.dir.Numbers()
		e.spool.dir.Taken(e.spool.found...) // clean may not remove them all
	}
	if err != nil {
		return errors.Join(err, e.release())
	}
	if p := e.opts.Progress; p != nil {
		p.Begin(e.fs, e.journals.Current())
	}
	var queues int
	var items int64
	o := e.logOptions()
	o.Accept = func() (err error) { queues, items, err = r.finish(); return err }
	log, found, err := segment.Open(e.journals.Current(), o, r.frame)
	if err != nil {
		return errors.Join(err, e.release())
	}
	e.removeOtherJournals()
	if err := errors.Join(e.spool.clean(), e.leaveDirsOpen(e.opts.Dir, e.journals.Current(), e.spool.dir.Path)); err != nil {
		return errors.Join(err, log.Close(), e.release())
	}
	e.recovery = Recovery{Queues: queues, Items: items, Journal: found, Took: time.Since(started)}
	e.logWithheld()
	e.journal = journal.New(log, journal.Options{
		Log: e.log, Report: e.report, Committer: e.opts.committer, Account: e.Account,
	})
	e.journal.SetMost(e.opts.JournalSize, e.opts.SegmentSize)
	if err := e.dropUnjournaled(); err != nil {
		return errors.Join(err, log.Close(), e.release())
	}
	return nil
}

// findJournal finds the journal that counts and returns the revival of its queues.
func (e *Engine) findJournal() (*revival, error) {
	var err error
	if e.journals, err = journal.FindDirs(e.fs, e.opts.Dir); err != nil {
		return nil, err
	}
	return newRevival(e, nil), runs.CheckJournal(e.fs, e.spool.dir.Path, e.journals.Current())
}

// dropUnjournaled deletes queues that an earlier process journaled and this one does not. Otherwise their items would
// come back at some later start.
func (e *Engine) dropUnjournaled() error {
	var end LSN
	e.eachQueue(func(q *queue) {
		if q.opts.KeepJournal {
			return
		}
		e.log.Warn("queue has keep_journal = false: its items from the journal are deleted",
			"queue", q.name, "items", q.items())
		q.shard.mu.Lock()
		end = e.forget(q)
		q.shard.mu.Unlock()
		e.Delete(Now(), []byte(q.name))
	})
	return e.Commit(Ticket{Written: end, Synced: end})
}

// Recovery returns what Open found.
func (e *Engine) Recovery() Recovery { return e.recovery }

// Close ends every wait, drops what full queues still have to drop, syncs the rest, and closes the engine. It returns
// the error of that sync. Operations that run meanwhile, and later ones, return ErrClosed.
func (e *Engine) Close() error {
	defer contain()
	if e.closed.Swap(true) {
		return ErrClosed
	}
	close(e.stop)
	e.done.Wait()
	e.reloadMu.Lock() // a reload that has begun may write runs
	defer e.reloadMu.Unlock()
	e.eachQueue(func(q *queue) {
		processor.InPieces(&q.shard.mu, e.opts.yield, func() (more bool) {
			for range serveBatch {
				if more = q.endFirst(ErrClosed); !more {
					break
				}
			}
			return more
		})
	})
	e.spool.settleAll()
	e.spool.close()
	return errors.Join(e.journal.Close(), e.release())
}

// release lets go of the data directory.
func (e *Engine) release() error {
	if e.dirs == nil {
		return nil
	}
	return errors.Join(e.dirs.Close(), e.lock.Release())
}

// background runs f until Close.
func (e *Engine) background(f func()) {
	e.done.Add(1)
	go func() {
		defer e.done.Done()
		f()
	}()
}
