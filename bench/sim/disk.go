package main

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// errDead is what every call returns once the process that uses the disk counts as dead.
var errDead = errors.New("sim: the process is dead")

// Latency says how long a kind of calls takes, in virtual time: anything up to Usual, and in one of
// OneIn calls up to Rare.
type Latency struct {
	Usual time.Duration
	Rare  time.Duration `json:",omitempty"`
	OneIn int           `json:",omitempty"`
}

func (l Latency) draw(rng *rand.Rand) time.Duration {
	d := l.Usual
	if l.OneIn > 0 && rng.IntN(l.OneIn) == 0 {
		d = l.Rare
	}
	if d <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(d)))
}

// Speed is how fast a disk is.
type Speed struct{ JournalWrite, JournalSync, RunWrite, RunSync, Read, Names Latency }

// Fault has some calls fail: those of Kind on files of Class, Count of them from the Nth of a phase on.
type Fault struct {
	Class     string // "journal", "run", or "" for both and what is neither
	Kind      segmenttest.OpKind
	Nth       int
	Count     int
	Errno     syscall.Errno
	KeepDirty bool
}

// disk is a segment.FS whose calls take time and fail as a phase of a script says. Its calls may be
// made by any goroutine; sleeping calls hold nothing that others wait for.
type disk struct {
	*segmenttest.FS
	speed Speed

	mu     sync.Mutex
	rng    *rand.Rand // guarded by mu
	faults []Fault    // guarded by mu
	seen   []int      // calls that each fault has matched; guarded by mu
	dead   bool       // guarded by mu
	mild   bool       // what a failed sync covered stays to be synced; guarded by mu
	calm   bool       // nothing fails and nothing takes time; guarded by mu

	fired      int       // faults that came; guarded by mu
	returned   int       // faults that have come to their callers; guarded by mu
	returnedAt time.Time // the last of them did; guarded by mu
	calls      int64     // that change something; guarded by mu
	journaled  int64     // bytes written to journals; guarded by mu
	spilled    int64     // bytes written to runs; guarded by mu
	size       int64     // bytes; 0: as many as anybody wants
	opens      int       // files open now; guarded by mu
	maxOpens   int       // most at any time; guarded by mu
	lastOps    []string  // what changed something last; guarded by mu

	traced      func(string, ...any) // takes every call that changes something; nil if nobody wants to know
	mostJournal func() int64         // bytes that may be written to journals; nil if any number may
	mostCalls   int64                // at rest; zero if any number may
	runaway     bool                 // more was done than may be: the disk has stopped; guarded by mu
}

func newDisk(fs *segmenttest.FS, speed Speed, seed uint64, faults []Fault) *disk {
	return &disk{
		FS: fs, speed: speed, rng: rand.New(rand.NewPCG(seed, 1)), faults: faults, seen: make([]int, len(faults)),
	}
}

func class(path string) string {
	switch {
	case strings.HasSuffix(path, ".run"):
		return "run"
	case strings.Contains(path, "backlog"):
		return "run"
	case strings.Contains(path, "journal"):
		return "journal"
	}
	return ""
}

// call makes a call: it takes its time before, or behind, or both, and may fail instead. What a failing
// call does nevertheless is up to the FS, by the hook that begin returns.
func (d *disk) call(kind segmenttest.OpKind, path string, size int, do func() error) error {
	d.mu.Lock()
	if d.dead {
		d.mu.Unlock()
		return errDead
	}
	var before, behind time.Duration
	if !d.calm {
		took := d.latency(kind, path).draw(d.rng)
		before = took
		switch d.rng.IntN(3) {
		case 0:
			before = 0
		case 1:
			before = took / 2
		}
		behind = took - before
	}
	d.mu.Unlock()
	if before > 0 {
		time.Sleep(before)
	}
	d.mu.Lock()
	if d.dead {
		d.mu.Unlock()
		return errDead
	}
	flt := d.fault(kind, path)
	if kind.Mutates() || kind == segmenttest.OpWriteOut {
		d.calls++
		if d.lastOps = append(d.lastOps, kind.String()+" "+path); len(d.lastOps) > 40 {
			d.lastOps = d.lastOps[20:]
		}
	}
	if d.mostCalls > 0 && d.calls > d.mostCalls || d.mostJournal != nil && d.journaled > d.mostJournal() {
		d.runaway, d.dead = true, true
		d.mu.Unlock()
		return errDead
	}
	if kind == segmenttest.OpWriteAt {
		if class(path) == "run" {
			d.spilled += int64(size)
		} else {
			d.journaled += int64(size)
		}
	}
	// The FS asks its hook at once, under this lock, so that it is about this call.
	d.FS.SetFault(func(segmenttest.Op) segmenttest.Fault { return flt })
	err := do()
	d.FS.SetFault(nil)
	if full := flt.Err == nil && errors.Is(err, syscall.ENOSPC); full { // that is a fault too
		d.fired++
		flt.Err = err
	}
	d.mu.Unlock()
	if d.traced != nil && kind != segmenttest.OpReadAt {
		d.traced("%s %v %s %d: %v", since(time.Now()), kind, path, size, err)
	}
	if behind == 0 && flt.Err == nil {
		return err
	}
	time.Sleep(behind)
	d.mu.Lock()
	defer d.mu.Unlock()
	if flt.Err != nil { // now the caller learns of it
		d.returned++
		d.returnedAt = time.Now()
	}
	if d.dead {
		return errDead
	}
	return err
}

// fault decides how a call fails, if it does. The caller holds mu.
func (d *disk) fault(kind segmenttest.OpKind, path string) (flt segmenttest.Fault) {
	if d.calm {
		return flt
	}
	for i, f := range d.faults {
		if f.Kind != kind || f.Class != "" && f.Class != class(path) {
			continue
		}
		d.seen[i]++
		if n := d.seen[i]; n >= f.Nth && n < f.Nth+f.Count && flt.Err == nil {
			flt = segmenttest.Fault{Err: f.Errno, KeepDirty: f.KeepDirty || d.mild}
			if kind == segmenttest.OpWriteAt && f.KeepDirty {
				flt.Bytes = 100
			}
			d.fired++
		}
	}
	return flt
}

func (d *disk) latency(kind segmenttest.OpKind, path string) Latency {
	run := class(path) == "run"
	switch kind {
	case segmenttest.OpWriteAt, segmenttest.OpAllocate, segmenttest.OpTruncate:
		if run {
			return d.speed.RunWrite
		}
		return d.speed.JournalWrite
	case segmenttest.OpDatasync, segmenttest.OpWriteOut:
		if run {
			return d.speed.RunSync
		}
		return d.speed.JournalSync
	case segmenttest.OpReadAt:
		return d.speed.Read
	case segmenttest.OpSize, segmenttest.OpClose:
		return Latency{}
	}
	return d.speed.Names
}

// Space has the engine know how much room there is.
func (d *disk) Space(string) (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size == 0 || d.calm {
		return 1 << 40, 1 << 41, nil
	}
	return max(d.size-d.FS.Used(), 0), d.size, nil
}

// starting says whether a process is starting. What it fails to sync is then not lost: the next process
// could not know of it, and neither could anybody else.
func (d *disk) starting(is bool) {
	d.mu.Lock()
	d.mild = is
	d.mu.Unlock()
}

// kill has every call from now on fail and change nothing.
func (d *disk) kill() {
	d.mu.Lock()
	d.dead = true
	d.mu.Unlock()
}

// rest has nothing fail, or take time, from now on. If calls is not zero, the disk stops after so many
// that change something: without any time, what never ends would never let any pass.
func (d *disk) rest(calls int64) {
	d.mu.Lock()
	d.calm = true
	d.FS.DiskFull(-1)
	if calls > 0 {
		d.mostCalls = d.calls + calls
	}
	d.mu.Unlock()
}

// ranAway reports whether the disk has stopped because too much was asked of it.
func (d *disk) ranAway() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runaway
}

// faultsFired returns how many faults have come.
func (d *disk) faultsFired() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fired
}

// faultsReported returns how many faults have come to their callers, and when the last one did.
func (d *disk) faultsReported() (int, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.returned, d.returnedAt
}

// written returns the bytes written to journals and to runs, and how many calls have changed anything.
func (d *disk) written() (journal, runs, calls int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.journaled, d.spilled, d.calls
}

// Create implements segment.FS; the others likewise.
func (d *disk) Create(path string) (segment.File, error) {
	return d.open(segmenttest.OpCreate, path, d.FS.Create)
}

func (d *disk) Open(path string) (segment.File, error) {
	return d.open(segmenttest.OpOpen, path, d.FS.Open)
}

func (d *disk) OpenReadOnly(path string) (segment.File, error) {
	return d.open(segmenttest.OpOpenReadOnly, path, d.FS.OpenReadOnly)
}

func (d *disk) open(
	kind segmenttest.OpKind, path string, open func(string) (segment.File, error),
) (f segment.File, err error) {
	err = d.call(kind, path, 0, func() error {
		if f, err = open(path); err == nil {
			d.opens++
			d.maxOpens = max(d.maxOpens, d.opens)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &diskFile{f, d, path}, nil
}

func (d *disk) Rename(from, to string) error {
	return d.call(segmenttest.OpRename, from, 0, func() error { return d.FS.Rename(from, to) })
}

func (d *disk) Remove(path string) error {
	return d.call(segmenttest.OpRemove, path, 0, func() error { return d.FS.Remove(path) })
}

func (d *disk) List(dir string) (names []string, err error) {
	err = d.call(segmenttest.OpList, dir, 0, func() error {
		names, err = d.FS.List(dir)
		return err
	})
	return names, err
}

func (d *disk) MkdirAll(dir string) error {
	return d.call(segmenttest.OpMkdirAll, dir, 0, func() error { return d.FS.MkdirAll(dir) })
}

func (d *disk) SyncDir(dir string) error {
	return d.call(segmenttest.OpSyncDir, dir, 0, func() error { return d.FS.SyncDir(dir) })
}

// Uncached implements segment.UncachedFS: calls take as long, and fail as often.
func (d *disk) Uncached() segment.FS { return uncached{d, d.FS.Uncached()} }

type uncached struct {
	*disk
	blocks segment.FS
}

func (u uncached) Create(path string) (segment.File, error) {
	return u.open(segmenttest.OpCreate, path, u.blocks.Create)
}

func (u uncached) Open(path string) (segment.File, error) {
	return u.open(segmenttest.OpOpen, path, u.blocks.Open)
}

func (u uncached) OpenReadOnly(path string) (segment.File, error) {
	return u.open(segmenttest.OpOpenReadOnly, path, u.blocks.OpenReadOnly)
}

type diskFile struct {
	segment.File
	disk *disk
	path string
}

func (f *diskFile) ReadAt(p []byte, off int64) (n int, err error) {
	e := f.disk.call(segmenttest.OpReadAt, f.path, len(p), func() error {
		n, err = f.File.ReadAt(p, off)
		return err
	})
	return n, e
}

func (f *diskFile) WriteAt(p []byte, off int64) (n int, err error) {
	e := f.disk.call(segmenttest.OpWriteAt, f.path, len(p), func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, e
}

func (f *diskFile) Allocate(size int64) error {
	return f.disk.call(segmenttest.OpAllocate, f.path, 0, func() error { return f.File.Allocate(size) })
}

func (f *diskFile) Truncate(size int64) error {
	return f.disk.call(segmenttest.OpTruncate, f.path, 0, func() error { return f.File.Truncate(size) })
}

func (f *diskFile) WriteOut(off, n int64) error {
	return f.disk.call(segmenttest.OpWriteOut, f.path, 0, func() error { return f.File.WriteOut(off, n) })
}

func (f *diskFile) Datasync() error {
	return f.disk.call(segmenttest.OpDatasync, f.path, 0, f.File.Datasync)
}

func (f *diskFile) Close() error {
	f.disk.mu.Lock()
	f.disk.opens--
	f.disk.mu.Unlock()
	return f.File.Close()
}
