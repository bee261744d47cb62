package journal

import (
	"errors"

	"github.com/kestrelmq/kestrel/segment"
)

// A sync that fails poisons the log: the kernel may have dropped what it could not write, and says
// so once. Nothing more is acknowledged from it. What is live is in memory, so it is written to a
// new log, and that one takes the place of the old.
//
// From the start of the move on, records of the old log's queues are left out. What they say is in the queues when
// these enter the new log. Each enters as a whole, under its lock and with a new number. Until the new log counts, no
// ticket becomes good and puts are refused. So a crash may find either log: both have all that was acknowledged.

// Poisoned reports whether the log has failed for good: Move has to replace it.
func (j *Journal) Poisoned() bool { return errors.Is(j.Failure(), segment.ErrPoisoned) }

// A Move is the replacement of a log that is under way. One goroutine uses it.
type Move struct {
	j     *Journal
	log   *segment.Log
	to    Committer
	batch int // bytes that gather before they are written
}

// Move begins to replace the log by another one, into which the caller then enters every queue. It drops what was
// recorded and not written, and from now on leaves out the records of queues with numbers below first. It calls
// firstNumber with the buffer locked. firstNumber returns first: no queue has that number, or a higher one, yet.
// Nothing is written or synced until End succeeds; if it does not, the next Move begins anew, with another log. Drain
// writes batches of at least so many bytes.
func (j *Journal) Move(log *segment.Log, batch int, firstNumber func() uint64) (m *Move, first uint64) {
	m = &Move{j: j, log: log, to: j.opts.committer(log), batch: batch}
	j.writeMu.Lock() // nobody is writing, and nobody will
	defer j.writeMu.Unlock()
	j.replacing.Store(true)
	j.pending = j.forget(j.pending)
	segments := log.Segments()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = j.forget(j.ended)
	j.swap()
	j.version = segment.Version1
	// A queue with this number or a higher one will be recorded behind this point.
	j.first = firstNumber()
	j.segment.Store(segments[len(segments)-1].Number)
	return m, j.first
}

// forget gives up frames, and returns an empty slice to use again.
func (j *Journal) forget(frames []frame) []frame {
	for _, f := range frames {
		f.done(j.opts.account)
	}
	clear(frames)
	return frames[:0]
}

// Drain has the new log take what has gathered, if that is enough to be worth it.
func (m *Move) Drain() error {
	_, err := m.drain(m.batch)
	return err
}

// drain has the new log take what has gathered, if it is least bytes or more, and returns the LSN behind
// it.
func (m *Move) drain(least int) (end LSN, err error) {
	j := m.j
	j.mu.Lock()
	gathered := len(j.active) - segment.FrameHeaderSize
	for _, f := range j.ended {
		gathered += f.len()
	}
	if end = j.end; gathered == 0 || gathered < least {
		j.mu.Unlock()
		return end, nil
	}
	j.endFrame()
	frames := j.ended
	j.ended = nil
	j.mu.Unlock()
	defer func() { j.forget(frames) }()
	for _, f := range frames {
		at, _, err := m.to.AppendAs(f.version, f.whole())
		if err != nil {
			return end, err
		}
		j.segment.Store(at.Segment)
	}
	return end, nil
}

// End makes what the new log holds durable, calls complete, and puts the new log in place of the old one. It returns
// the old one, and the caller must close it. It calls complete while nothing is written.
func (m *Move) End(complete func() error) (old *segment.Log, err error) {
	j := m.j
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	end, err := m.drain(0)
	if err != nil {
		return nil, err
	}
	if _, err := m.to.Sync(); err != nil {
		return nil, err
	}
	if err := complete(); err != nil {
		return nil, err
	}
	j.mu.Lock()
	old, j.log, j.to = j.log, m.log, m.to
	j.mu.Unlock()
	j.written.Store(uint64(end))
	j.synced.Store(uint64(end))
	j.setOldest()
	j.replacing.Store(false)
	j.failure.Store(nil)
	return old, nil
}

// refusal is why nothing is written or synced while the log is being replaced; nil if it is not.
func (j *Journal) refusal() error {
	if !j.replacing.Load() {
		return nil
	}
	return j.Failure() // nil: the move has ended
}
