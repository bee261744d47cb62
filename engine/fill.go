package engine

import (
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// fill reads the next frames of q's backlog into its window, as many as have room there. It reads at least one item if
// the window is empty. Before that it does what others have left to the reading side: freeHead and unhide.
func (s *spool) fill(q *queue) {
	if s.freeHead(q) {
		s.fills.Add(q) // others have their turn first
		return
	}
	s.unhide(q)
	s.readMu.Lock()
	defer s.readMu.Unlock()
	q.shard.mu.Lock()
	if q.backlog != nil {
		q.backlog.queuedFill = false
	}
	q.shard.mu.Unlock()
	for s.fillFrame(q) {
	}
}

// freeHead removes expired items from the head of q, if a fetch has left that to it, and reports whether
// there are more. When there are none it serves the waiters. It also goes on with what q owes, see settleOn, and with
// moves of q that others have left.
func (s *spool) freeHead(q *queue) (more bool) {
	sh, now := q.shard, s.now()
	sh.mu.Lock()
	if q.sweeping {
		if more = !s.e.swept(q, now); !more {
			q.sweeping = false
			s.e.serveMore(q, now)
		}
	}
	more = s.e.settleOn(q, now) || more
	q.pickUpMoves()
	s.e.unlock(sh, now)
	return more
}

// settleOn has the background settle what a piece has left, and reports whether there is more. When there is none it
// serves the waiters. The caller holds the shard's mutex.
func (e *Engine) settleOn(q *queue, now Time) (more bool) {
	if !q.settling {
		return false
	}
	if e.settle(q, now); !q.settling {
		e.serveWaiters(q, now)
	}
	return q.settling
}

// bring has what is next behind q's window, which is empty, come into it: read from the disk, or taken back before it
// is written. It waits for the disk, and returns why nothing can be read: ErrClosed once the spool is closed.
func (s *spool) bring(q *queue) error {
	q.shard.mu.Lock()
	var failed error
	written := false
	if b := q.backlog; b != nil {
		failed, written = b.failed, b.onDisk > 0
	}
	q.shard.mu.Unlock()
	switch {
	case failed != nil:
		return failed
	case !written:
		s.writeMu.Lock() // a write may be under way
		defer s.writeMu.Unlock()
		s.takeBack(q, true)
		return nil
	}
	s.readMu.Lock()
	defer s.readMu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.fillFrame(q)
	return nil
}

// fillFrame reads one frame, and reports whether there may be room for another. The caller holds readMu.
func (s *spool) fillFrame(q *queue) (more bool) {
	sh := q.shard
	sh.mu.Lock()
	b := q.backlog
	if b == nil || b.onDisk == 0 || b.failed != nil || s.windowRoom(q) < 0 {
		sh.mu.Unlock()
		return false
	}
	if b.next.ID > b.next.Run.written.LastID { // no item is left in the run: its file may be gone
		b.next = b.next.Next(b.runs)
		sh.mu.Unlock()
		return true
	}
	start, epoch, end := b.next, b.epoch, b.next.Run.written.End
	sh.mu.Unlock()
	at := start // b.next may go elsewhere meanwhile: the window may be unloaded

	began := time.Now()
	frame, tag, err := s.reader.Seek(at.Run.File, at.Offset, at.ID, end)
	if err != nil {
		return s.failed(q, b, epoch, err)
	}
	sh.mu.Lock()
	if b.epoch != epoch || b.next != start {
		sh.mu.Unlock()
		return true
	}
	if frame.Size == 0 { // the run ends here
		b.next = at.Next(b.runs)
		sh.mu.Unlock()
		return true
	}
	at.Offset = frame.Offset
	if q.window.Count > 0 && tag.Bytes > s.windowRoom(q) {
		sh.mu.Unlock()
		return false
	}
	c := sh.pool.Take(0, frame.Size)
	sh.mu.Unlock()

	body, n, err := s.reader.Body(at.Run.File, frame, tag, c.Buf[:0])
	if err == nil && cap(body) != cap(c.Buf) {
		body = append(c.Buf[:0], body...) // decompression chose memory of its own
	}

	if err == nil {
		s.stats.took(&s.stats.fills, began)
	}
	left := false
	for more := true; more; {
		now := s.now()
		sh.mu.Lock()
		if err != nil || b.epoch != epoch || b.next != start {
			sh.pool.Give(c)
			sh.mu.Unlock()
			if err != nil {
				return s.failed(q, b, epoch, err)
			}
			return true
		}
		c.Buf, c.Tally = body, n
		b.next.Offset = at.Offset
		more = s.e.takeIn(q, c, tag, frame.Next)
		start = b.next
		left = s.e.arrived(q, now)
		s.e.unlock(sh, now)
		s.logState(q, left)
	}
	return !left
}

// windowRoom is how many bytes of items to read into the window of a queue in read-behind. If it is negative, the window
// needs none now.
func (s *spool) windowRoom(q *queue) int64 {
	if q.window.Count == 0 {
		return max(q.frontLimit(), 0)
	}
	if s.e.memoryShort() {
		return -1
	}
	return q.fillLimit() - q.window.Bytes - 1
}

// takePiece is how many items of a frame in which some are gone come into the window before the shard is unlocked.
const takePiece = 1024

// takeIn puts the items of the frame at b.next, whose images are in c, into the window. It takes all that live if they
// have room, and else some: then the frame is read once more for the others. It reports whether there is another piece,
// for which it leaves c to the caller. The caller holds the shard's mutex.
func (e *Engine) takeIn(q *queue, c *item.Chunk, tag runs.Tag, next int64) (more bool) {
	b := q.backlog
	whole := b.next.ID <= tag.FirstID && b.gone.Count(tag.IDs()) == 0 &&
		(q.window.Count == 0 && tag.Count == 1 || q.window.Bytes+tag.Bytes <= q.frontLimit())
	if whole {
		c.FirstID, c.LastID = tag.FirstID, tag.LastID
		b.took(tag.Count, tag.Bytes, tag.LastID)
		q.window.Attach(c)
		b.next.Pass(tag, next)
		return false
	}
	seen := 0
	done := item.EachImage(c.Buf, tag.FirstID, func(it Item) bool {
		if it.ID < b.next.ID {
			return true
		}
		if seen++; seen > takePiece {
			b.next.ID, more = it.ID, true
			return false
		}
		if b.gone.Has(it.ID) {
			q.passGone(it)
			return true
		}
		n := int64(len(it.Data))
		if q.window.Count > 0 && q.window.Bytes+n > q.frontLimit() {
			return false
		}
		q.window.Push(&q.shard.pool, &it, q.opts.MaxMemorySize)
		b.took(1, n, it.ID)
		b.next.ID = it.ID + 1
		return true
	})
	if done {
		b.next.Pass(tag, next)
	}
	if !more {
		q.shard.pool.Give(c)
	}
	return more
}

// passGone accounts for an item on disk that is gone, or aside.
func (q *queue) passGone(it Item) {
	b := q.backlog
	if b.unsized.Has(it.ID) {
		b.unsized.Remove(it.ID)
		b.bytes -= int64(len(it.Data))
	}
	if it.HasKey() && q.locate(it.ID).where == nowhere {
		q.leaves(&it)
	}
}

// took accounts for items that came back from disk, the last of them with that id.
func (b *backlog) took(count, bytes int64, lastID uint64) {
	b.count -= count
	b.onDisk -= count
	b.bytes -= bytes
	b.nextID = lastID + 1
}

// failed notes that q's backlog cannot be read, and ends the waits for it.
func (s *spool) failed(q *queue, b *backlog, epoch uint64, err error) bool {
	q.shard.mu.Lock()
	if b.epoch != epoch {
		q.shard.mu.Unlock()
		return true
	}
	b.failed = fmt.Errorf("%w: %w", ErrBacklog, err)
	q.counters.readErrors++
	now := s.now()
	if err := q.failure(); err != nil {
		q.hearing, q.heard = q.watchers.Len(), err
		s.e.serveMore(q, now)
	}
	s.e.unlock(q.shard, now)
	s.e.log.Error("backlog could not be read: fetches from the queue fail",
		"queue", q.name, "err", err)
	return false
}

// settleAll drops what puts to full queues had to drop and found on disk alone, because after a restart nobody would
// know of it. Nothing else runs any more. Expired items that a sweep owes stay: nobody is served those. It waits for
// the disk.
func (s *spool) settleAll() {
	var owing []*queue
	s.each(func(q *queue, b *backlog) {
		if b.overfull {
			owing = append(owing, q)
		}
	})
	for _, q := range owing {
		for s.settleMore(q) {
			if err := s.bring(q); err != nil {
				s.e.log.Error("old items could not be discarded: the queue stays over its limits", "queue", q.name, "err", err)
				break
			}
		}
	}
}

// settleMore settles what can be settled, and reports whether more is owed for want of room.
func (s *spool) settleMore(q *queue) (more bool) {
	for pieces := true; pieces; {
		now := s.now()
		q.shard.mu.Lock()
		s.e.settle(q, now)
		pieces = q.settling
		more = q.backlog != nil && q.backlog.overfull
		s.e.unlock(q.shard, now)
	}
	return more
}
