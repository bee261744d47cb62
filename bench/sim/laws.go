package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

const (
	restTime = 15 * time.Second // in which a server comes to rest
	lookTime = 11 * time.Second // in which it must not do anything then
	// looks is how many of them there are at most: items may expire, and open reads time out.
	looks = 16
	// memorySlack is what a server may take beyond its memory limit, in bytes. One turn of each loop adds some before
	// the loop looks, and each connection has a reply. A chunk has 256 KiB, and so may the limit.
	memorySlack = 2 << 20
	// restCalls is how many calls that change something it may make until it is at rest.
	restCalls = 20_000
	// lookCalls is how many it may make while everything is taken out of it.
	lookCalls = 100_000
	// requestSize is what a request may take of the journal, beside items, in bytes.
	requestSize = 400
)

// mostJournal is how many bytes the server may have written to journals for what was asked. That is four times as much,
// and what it rewrites because of the sizes that the journal may have.
func (w *world) mostJournal() int64 {
	c := w.script.Config
	asked := w.ledger.offered() - w.putBefore + (w.ops.Load()-w.opsBefore)*requestSize
	return 4*asked + 16*c.JournalSize + 16*c.SegmentSize + 1<<20
}

// checkWrites checks that no more was written.
func (w *world) checkWrites() {
	if journal, _, _ := w.disk.written(); w.disk.ranAway() && len(w.problems()) == 0 {
		w.ledger.report("writes", "%d bytes were written to journals for %d requests with %d bytes", journal,
			w.ops.Load()-w.opsBefore, w.ledger.offered()-w.putBefore)
	}
}

// checkMemory checks that the server keeps no more than it may.
func (w *world) checkMemory() {
	s := w.engine.Stats()
	if s.MemoryBytes > s.MemoryLimit+s.MemoryLimit/4+memorySlack {
		w.ledger.report("memory", "%d bytes of %d are taken at %s", s.MemoryBytes, s.MemoryLimit, since(time.Now()))
	}
}

// checkConnections checks that the server has no more connections than it may.
func (w *world) checkConnections() {
	if n, most := w.server.Connections(), w.server.MaxConnections(); n > int64(most) {
		w.ledger.report("connections", "%d connections are open, of %d", n, most)
	}
}

// idleTimeout is after what time a server ends connections of idle clients, if it does. Hardly any is idle for as long
// while a process lives, until it comes to rest.
const idleTimeout = 25 * time.Second

// checkIdle waits until the connections of idle clients must have ended, if the server does that, and checks it.
func (w *world) checkIdle() {
	limit := w.script.Config.ClientTimeout
	if limit == 0 {
		return
	}
	time.Sleep(limit + time.Second)
	if n := w.server.Connections(); n > 0 {
		w.ledger.report("idle clients", "%d connections are open, and nobody has asked for anything for %v", n, limit)
	}
}

// rest lets a server come to rest that nobody uses any more. It checks that the server rests, and has not written
// out of proportion. What it would leave behind now must be whole.
func (w *world) rest(p Phase, clients <-chan struct{}, hangUp func()) {
	w.disk.rest(restCalls)
	time.Sleep(restTime)
	w.checkIdle()
	w.leave(p, clients, hangUp)
	for look := 1; ; look++ {
		journal, runs, calls := w.disk.written()
		time.Sleep(lookTime)
		journal2, runs2, calls2 := w.disk.written()
		if calls2 == calls && !w.disk.ranAway() {
			break
		}
		if look == looks || w.disk.ranAway() {
			w.disk.mu.Lock()
			last := w.disk.lastOps
			w.disk.mu.Unlock()
			w.ledger.report("idle", "%d calls in %s at rest, which wrote %d bytes to journals and %d to runs: %v",
				calls2-calls, lookTime, journal2-journal, runs2-runs, last[max(len(last)-8, 0):])
			break
		}
	}
	if err := w.engine.Verify(); err != nil {
		w.ledger.report("verify", "at rest: %v", err)
	}
	if h := w.engine.Health(); w.script.Config.DiskSize > 0 && len(p.Faults) == 0 && h != (engine.Health{}) {
		w.ledger.report("health", "a disk that was full has room again, and the server says %+v", h)
	}
	if w.failed() {
		return
	}
	found, err := w.contents(w.fs.Kill(), true)
	if err != nil {
		w.ledger.report("start", "on a copy of a server at rest: %v", err)
		return
	}
	w.ledger.examine(found, crash{at: time.Now(), live: true})
}

// leave has all clients hang up, half of the time, and checks that what they had open is back.
func (w *world) leave(p Phase, clients <-chan struct{}, hangUp func()) {
	select {
	case <-clients:
	default:
		return
	}
	if p.Cut.Seed%2 == 0 {
		return
	}
	hangUp()
	time.Sleep(lostTime)
	for _, q := range w.engine.Queues(engine.Now()) {
		if open := q.OpenReads - q.Leased; open > 0 {
			w.ledger.report("left", "%d items of %s are open, and all clients have gone", open, q.Name)
		}
	}
}

// lookAtDamage turns a bit of a file of what a process has left, in a copy, and starts a server on it. That may
// refuse to start, or withhold a queue; what it hands out must be whole.
func (w *world) lookAtDamage(i int) {
	rng := rand.New(rand.NewPCG(w.script.Seed, uint64(i)<<8|3))
	if rng.IntN(damageEvery) > 0 {
		return
	}
	fs := w.fs.Kill()
	files := slices.DeleteFunc(fs.Paths(), func(path string) bool {
		return !strings.HasSuffix(path, ".seg") && !strings.HasSuffix(path, ".run")
	})
	if len(files) == 0 {
		return
	}
	path := files[rng.IntN(len(files))]
	b, err := fs.Bytes(path)
	at := slices.IndexFunc(b, func(c byte) bool { return c != 0 })
	if err != nil || at < 0 {
		return
	}
	for range 50 {
		if n := rng.IntN(len(b)); b[n] != 0 {
			at = n
			break
		}
	}
	if err := fs.FlipBit(path, int64(at), uint(rng.IntN(8))); err != nil {
		panic(err)
	}
	d := newDisk(fs, Speed{}, 0, nil)
	d.rest(lookCalls)
	e, err := engine.Open(w.options(d))
	if err != nil {
		return
	}
	defer e.Close()
	w.ledger.mu.Lock()
	w.ledger.frozen = false
	w.ledger.mu.Unlock()
	for _, q := range e.Queues(engine.Now()) {
		all, err := takeAll(e, d, q.Name)
		for _, h := range all {
			w.ledger.mu.Lock()
			w.ledger.number(q.Name, h.data)
			w.ledger.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// damageEvery is how many processes leave what is looked at damaged once, on average.
const damageEvery = 4
