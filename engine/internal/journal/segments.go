package journal

import (
	"errors"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/segment"
)

// This file has the segments of the journal: those in use, the next one that is prepared, and the old ones that go.

const (
	minPrepareDelay = 100 * time.Millisecond // from one try to make a segment to the next; doubled up to
	maxPrepareDelay = time.Minute
)

// current returns the log.
func (j *Journal) current() *segment.Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log
}

// Segment is the number of the segment written last: no later record is before it.
func (j *Journal) Segment() uint64 { return j.segment.Load() }

// Segments describes the segments of the log, the oldest first. There is at least one.
func (j *Journal) Segments() []segment.Segment { return j.current().Segments() }

// OpenFiles is how many files the log has open.
func (j *Journal) OpenFiles() int { return j.current().OpenFiles() }

// DropBefore removes the segments before number, and returns how many of them, the oldest first. It is not
// called beside Move.
func (j *Journal) DropBefore(number uint64) (int, error) {
	n, err := j.log.DropBefore(number)
	j.setOldest()
	if n > 0 {
		j.NoteRoom()
	}
	return n, err
}

// TrimSpares removes the files of dropped segments that are kept to be used again, but for as many as
// keep. It is not called beside Move.
func (j *Journal) TrimSpares(keep int) error { return j.log.TrimSpares(keep) }

// PrepareSegments makes, until stop is closed, the segment that the journal will need next, as soon as it has
// gone on to the one before. It needs a goroutine of its own: one that also waits for syncs would be late. Then the
// next writer, an event loop, makes the next segment.
func (j *Journal) PrepareSegments(stop <-chan struct{}) {
	for {
		j.Prepare()
		select {
		case <-stop:
			return
		case <-j.rotated:
		}
	}
}

// AskPrepare asks PrepareSegments for the next segment, if an earlier try has failed some time ago.
func (j *Journal) AskPrepare() {
	if !j.Prepared() && j.prepareIsDue() {
		signal(j.rotated)
	}
}

// prepareIsDue reports whether the last try to make a segment has succeeded, or is long enough ago for another. A
// segment that cannot be made costs a file, and a sync, each time.
func (j *Journal) prepareIsDue() bool {
	return int64(time.Since(j.epoch)) >= j.nextPrepare.Load()
}

// NoteRoom notes that the disk has more room than when a segment could not be made: the next try may come at
// once.
func (j *Journal) NoteRoom() { j.nextPrepare.Store(0) }

// paceRetries decides when a segment is tried again that could not be made.
func (j *Journal) paceRetries(err error) {
	if err == nil {
		j.prepareDelay = 0
		return
	}
	j.prepareDelay = min(max(2*j.prepareDelay, minPrepareDelay), maxPrepareDelay)
	j.nextPrepare.Store(int64(time.Since(j.epoch) + j.prepareDelay))
}

// Prepared reports whether the segment that the journal will need next is made.
func (j *Journal) Prepared() bool { return !j.current().NeedsPrepare() }

// Prepare makes the segment that the journal will need next. A full disk is remembered: puts are then
// refused before the room at hand is used up.
func (j *Journal) Prepare() {
	j.prepareMu.Lock()
	defer j.prepareMu.Unlock()
	log := j.current()
	err := log.Prepare()
	if log != j.current() {
		return // another log has come, and a segment been made for it
	}
	j.paceRetries(err)
	switch {
	case err == nil:
		if j.full.Swap(false) {
			j.opts.Log.Info("disk has room again: puts are accepted")
		}
	case errors.Is(err, syscall.ENOSPC):
		if !j.full.Swap(true) {
			j.opts.Log.Warn("disk is full: puts will be refused", "err", err)
		}
	case errors.Is(err, segment.ErrPoisoned): // who called the sync that failed says so
	case !j.Failing(): // else it is tried again and again
		j.opts.Report("journal: the next segment could not be made; trying again", err)
	}
	j.measureRoom(log)
}

// Retry tries again to write what could not be written, and to make the next segment. A segment that could
// not be made a moment ago is not tried again yet, nor is a write that needs it. A success ends the failure.
// It is not called beside Move.
func (j *Journal) Retry() {
	if prepared := j.Prepared(); !prepared && j.prepareIsDue() || prepared && !j.Failing() {
		j.Prepare()
	}
	if j.Prepared() || j.fits() {
		j.Write(j.End())
	}
}

// fits reports whether everything that gathers can be written to the segments that are made.
func (j *Journal) fits() bool {
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	waiting := int64(len(j.active))
	for _, frames := range [][]frame{j.pending, j.ended} {
		for _, f := range frames {
			waiting += int64(f.len())
		}
	}
	return waiting <= j.log.Room()
}

// Sealed signals that the log went on to another segment: SyncSealed has something to do.
func (j *Journal) Sealed() <-chan struct{} { return j.sealed }

// SyncSealed makes durable the segments that the journal has left. So a power cut loses the last segment at
// most, even if nobody syncs. It is not called beside Move.
func (j *Journal) SyncSealed() {
	if j.Failing() {
		return
	}
	began := time.Now()
	if err := j.log.SyncSealed(); err != nil {
		j.syncs.count(time.Since(began), err)
		j.failed(err) // Failure says why
	}
}

// Mark makes an idle journal say on disk how far it was synced; see [segment.Log.Mark]. It is not called
// beside Move.
func (j *Journal) Mark() {
	if j.Failing() {
		return
	}
	wrote, err := j.log.Mark()
	if wrote && err == nil {
		j.syncLog() // Failure says why it fails
	}
	j.opts.Report("journal: could not note how far it is synced; trying again", err)
}
