package journal

import "github.com/kestrelmq/kestrel/segment"

// This file says whether the journal takes a put: whether it fails, or its disk is full.

const (
	// maxJournals is how many times its proper size the journal may take before it has outgrown
	// that for queues in read-behind. otherwiseFactor is how many times that it may take for other
	// queues.
	maxJournals     = 3
	otherwiseFactor = 2
)

// Admit returns why the journal takes no put of n bytes now, ErrFailed or ErrFull, or nil.
func (j *Journal) Admit(n int) error {
	if j.Failing() {
		return ErrFailed
	}
	if j.full.Load() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.room < int64(n)+removeReserve {
			return ErrFull
		}
	}
	return nil
}

// recycle makes a buffer that log has taken the spare one.
func (j *Journal) recycle(log *segment.Log, buf []byte) {
	room := log.Room()
	j.mu.Lock()
	if buf != nil && cap(buf) <= 2*MaxBatch {
		j.spare = buf[:0]
	}
	j.room = room - (int64(j.end) - int64(j.written.Load()))
	j.mu.Unlock()
}

// measureRoom takes note of how much log has room for.
func (j *Journal) measureRoom(log *segment.Log) { j.recycle(log, nil) }

// Full reports whether the disk has no room for the journal to grow.
func (j *Journal) Full() bool { return j.full.Load() }

// NoteFull notes that a write to the disk found no room. The next Prepare that finds room ends that.
func (j *Journal) NoteFull() { j.full.Store(true) }

// SetMost says how many bytes the journal should take at most, in segments of a size.
func (j *Journal) SetMost(size, segmentSize int64) {
	j.most.Store(maxJournals*size/segmentSize + 1)
}

// Outgrown reports whether the journal is much larger than it should be. A client that puts to a queue in read-behind,
// or to another one, should then wait. A journal that fails, or has no disk, is not waited for.
func (j *Journal) Outgrown(readBehind bool) bool {
	most := j.most.Load()
	if !readBehind {
		most *= otherwiseFactor
	}
	return int64(j.segment.Load()-j.oldest.Load()) > most && !j.Failing() && !j.full.Load()
}

// setOldest notes which segment is the oldest one. The goroutine that replaces the log calls it.
func (j *Journal) setOldest() { j.oldest.Store(j.log.Segments()[0].Number) }
