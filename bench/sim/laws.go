package main

import "time"

const (
	restTime = 15 * time.Second // in which a server comes to rest
	lookTime = 11 * time.Second // in which it must not do anything then
	// looks is how many of them there are at most: items may expire, and open reads time out.
	looks = 16
	// memorySlack is what a server may take beyond its memory limit, in bytes: what one turn of each
	// loop adds before it looks, and chunks of 256 KiB that a limit of 256 KiB is small beside.
	memorySlack = 1 << 20
	// restCalls is how many calls that change something it may make until it is at rest.
	restCalls = 20_000
	// lookCalls is how many it may make while everything is taken out of it.
	lookCalls = 100_000
	// requestSize is what a request may take of the journal, beside items, in bytes.
	requestSize = 400
)

// mostJournal is how many bytes the server may have written to journals for what was asked: four times
// that, and what it rewrites because of the sizes that the journal may have.
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

// rest lets a server come to rest that nobody uses any more, and checks that it does, that it has not
// written out of proportion, and that what it would leave behind now is whole.
func (w *world) rest() {
	w.disk.rest(restCalls)
	time.Sleep(restTime)
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
	if w.failed() {
		return
	}
	found, err := w.contents(w.fs.Kill())
	if err != nil {
		w.ledger.report("start", "on a copy of a server at rest: %v", err)
		return
	}
	w.ledger.examine(found, crash{at: time.Now(), live: true})
}
