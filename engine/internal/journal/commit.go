package journal

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/segment"
)

// Write hands the log every record up to upTo, and of those behind, up to MaxBatch bytes. So a caller with a small record
// does not write the large item that another one has recorded behind it. What is written survives the death of the
// process. An error wraps ErrFailed or is ErrClosed.
func (j *Journal) Write(upTo LSN) error {
	if j.written.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	if j.written.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	j.writing.Store(uint64(upTo))
	if len(j.pending) > 0 {
		// If a write has failed, what has gathered since gathers on: a buffer for each caller would take memory.
		if err := j.writePending(upTo); err != nil || j.written.Load() >= uint64(upTo) {
			return err
		}
	}
	j.taken = j.takeBuffers()
	return j.writePending(upTo)
}

// takeBuffers moves what has gathered to pending, which is empty, and returns the LSN behind it. The caller
// holds writeMu.
func (j *Journal) takeBuffers() LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endFrame()
	j.pending, j.ended = j.ended, j.pending
	return j.end
}

// writePending writes the buffers in pending, as far as Write says. After an error they stay there, to be tried again by
// the next write. The caller holds writeMu.
func (j *Journal) writePending(upTo LSN) (err error) {
	done, behind := 0, 0
	for ; done < len(j.pending); done++ {
		f := &j.pending[done]
		if j.written.Load() >= uint64(upTo) {
			if behind += f.len(); behind > MaxBatch {
				break
			}
		}
		var (
			at    segment.Appended
			grown []byte
		)
		if at, grown, err = j.to.AppendAs(f.version, f.whole()); err != nil {
			break
		}
		if at.Segment != j.segment.Load() {
			j.segment.Store(at.Segment)
			signal(j.rotated)
			signal(j.sealed)
		}
		f.done(j.opts.account)
		if f.shared != nil {
			grown = nil // a queue has what is in it
		}
		j.written.Store(uint64(f.end))
		j.recycle(j.log, grown)
	}
	left := copy(j.pending, j.pending[done:])
	clear(j.pending[left:])
	if j.pending = j.pending[:left]; err != nil {
		return j.failed(err)
	}
	if left == 0 && j.written.Load() != uint64(j.taken) {
		j.written.Store(uint64(j.taken))
	}
	if j.Failing() {
		j.failure.Store(nil)
	}
	return nil
}

// failed words an error of the log, and has puts refused until a write succeeds.
func (j *Journal) failed(err error) error {
	if errors.Is(err, segment.ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, syscall.ENOSPC) {
		j.full.Store(true)
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	if was := j.failure.Load(); was == nil || errors.Is(*was, ErrFull) {
		j.failure.Store(&err) // a full disk that gets in the way of mending it is not the reason
	}
	return err
}

// Failure is why the last write or sync failed, and puts are refused; nil if it did not.
func (j *Journal) Failure() error {
	if err := j.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Failing reports whether the last write or sync failed.
func (j *Journal) Failing() bool { return j.failure.Load() != nil }

// Sync makes every record appended so far durable, unless those up to upTo are already. An error wraps
// ErrFailed or is ErrClosed.
func (j *Journal) Sync(upTo LSN) error {
	if j.synced.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	if j.synced.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	due := j.dueAt.Swap(0)
	err := j.Write(j.End())
	if err != nil {
		j.syncBy(due) // what could not be written is still due, and may have been looked for meanwhile
	}
	// What had been written before is synced all the same: it may have been acknowledged.
	if written := j.written.Load(); written > j.synced.Load() {
		if err := j.syncLog(); err != nil {
			return err
		}
		j.synced.Store(written)
		if due != 0 {
			j.syncs.countLate(time.Since(j.epoch) - time.Duration(due))
		}
	}
	if j.synced.Load() >= uint64(upTo) {
		return nil
	}
	return err
}

// syncBy asks for a sync by a time, in ns since epoch; zero asks for none.
func (j *Journal) syncBy(at int64) {
	for {
		due := j.dueAt.Load()
		if at == 0 || due != 0 && due <= at {
			return
		}
		if j.dueAt.CompareAndSwap(due, at) {
			signal(j.due)
			return
		}
	}
}

// WriteOut has the disk take what has been appended, a little at a time, before a sync that nobody
// waits for.
func (j *Journal) WriteOut() error {
	if err := j.Write(j.End()); err != nil {
		return err
	}
	if err := j.log.WriteOut(); err != nil {
		return j.failed(err)
	}
	return nil
}

// Commit waits until t is good. All calls that wait at the same time share one write and one sync. An
// error wraps ErrFailed, and means that it is not known whether those operations survive, or is ErrClosed.
func (j *Journal) Commit(t Ticket) error {
	if t.Synced > 0 {
		if err := j.Sync(t.Synced); err != nil {
			return err
		}
	}
	return j.Write(t.Written)
}

// Committed reports whether Commit of t would return nil at once.
func (j *Journal) Committed(t Ticket) bool {
	return j.written.Load() >= uint64(t.Written) && j.synced.Load() >= uint64(t.Synced)
}

// Unwritten is how many bytes of records Commit of t would write at least, or wait for while another call writes them. If
// it would sync, that is all there are.
func (j *Journal) Unwritten(t Ticket) int64 {
	end, written := uint64(t.Written), j.written.Load()
	if j.synced.Load() < uint64(t.Synced) {
		end = uint64(j.End())
	}
	if end <= written {
		return 0
	}
	return int64(max(end, j.writing.Load()) - written)
}

// Close writes and syncs what has been appended, and closes the log. It returns the error of either.
func (j *Journal) Close() error {
	err := j.Write(j.End())
	return errors.Join(err, j.log.Close())
}

// signal wakes the reader of a channel of capacity 1; a wake-up that is still pending is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
