package segment

import (
	"errors"
	"fmt"
	"io/fs"
)

// This file has the log go on in the next segment, and drops the oldest ones.

// bytesWorthZeros says when the log writes new files over with zeros in advance. It does if a sync of the segment
// before covered at most so many bytes, on average. Zeros cost one pass over the file. Without them a sync costs a
// third more, however little it covers, because its blocks are only reserved.
const bytesWorthZeros = 32 << 10

// rotate seals the tail and goes on in the next segment. That has room for a frame of need bytes, and is of that
// version or a later one. A log goes back to an earlier version when it is opened. It first gets hold of that segment,
// so that a full disk leaves the tail as it was. The caller holds mu, and Prepare is not at work.
func (l *Log) rotate(need int64, version Version) error {
	size := l.opts.sizeFor(need)
	if n := l.next; n != nil && n.version < version && n.size == size && size == l.opts.SegmentSize && !l.tail.followed {
		l.useAgain(n) // a full disk may have no room for another one
	}
	if l.next == nil || l.next.size < size || l.next.version < version {
		p := l.planFor(l.tail.number+1, max(version, l.tail.version), size, false)
		f, name, err := l.makeFile(p)
		if err != nil {
			return err
		}
		if l.next != nil {
			l.next.file.Close() // its name is taken over by the other one
		}
		if l.next, err = l.nameSegment(p, f, name, nil); err != nil {
			return err
		}
	}
	if err := l.tail.seal(l.Watermark(), true); err != nil {
		return err
	}
	often := l.tailOftenSynced()
	// From here on the tail stays sealed, also if this fails: a link that says so may have been
	// written.
	if err := l.next.follow(l.tail.link(), l.Watermark()); err != nil {
		return err
	}
	l.sealed = append(l.sealed, l.tail.describe())
	l.unsynced = append(l.unsynced, l.tail)
	l.tail, l.next = l.next, nil
	l.oftenSynced, l.syncs = often, 0
	l.recorded = l.Watermark()
	return nil
}

// useAgain makes next, in which there is nothing, the first of the spares to be used. The caller holds mu.
func (l *Log) useAgain(next *segmentFile) {
	if spare := l.path(next.number, spareExt); l.rename(next.path, spare) == nil {
		l.spares = append(l.spares, spare)
	} // else another one takes over its name
	next.file.Close()
	l.next = nil
}

// tailOftenSynced reports whether syncs have covered little of the tail each. The caller holds mu.
func (l *Log) tailOftenSynced() bool { return l.syncs > 0 && l.tail.end/l.syncs <= bytesWorthZeros }

// sizeFor is the size of a segment that can hold a frame of need bytes beside its own frames.
func (o Options) sizeFor(need int64) int64 {
	own := segmentHeaderSize + frameSize(linkSize) + frameSize(trailerSize) + frameSize(0)
	return max(o.SegmentSize, own+need)
}

// Prepare makes the segment that will follow the tail, if there is none yet, so that Append does
// not have to. It waits for the disk; call it from a background goroutine whenever NeedsPrepare
// says so. When it fails, Append tries for itself.
func (l *Log) Prepare() error {
	l.mu.Lock()
	if err := l.usable(); err != nil || l.next != nil || l.preparing {
		l.mu.Unlock()
		return err
	}
	l.preparing = true
	p := l.planFor(l.tail.number+1, l.tail.version, l.opts.SegmentSize, l.oftenSynced || l.tailOftenSynced())
	l.mu.Unlock()

	next, err := l.makeSegment(p, nil)

	l.mu.Lock()
	defer l.mu.Unlock()
	l.preparing = false
	l.prepared.Broadcast()
	l.next = next
	return err
}

// NeedsPrepare reports whether the tail has no prepared successor.
func (l *Log) NeedsPrepare() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next == nil && !l.preparing && l.usable() == nil
}

// Room returns how many bytes of frames, their headers included, fit into the tail and its prepared
// successor. A frame is not split, so a large one may need more disk although Room is larger.
func (l *Log) Room() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := int64(0)
	if !l.tail.sealed {
		room = max(l.tail.room(), 0)
	}
	if l.next != nil {
		room += max(l.next.room()-frameSize(linkSize), 0)
	}
	return room
}

// DropBefore removes the sealed segments with numbers below number, oldest first, keeping up to
// Options.Spares of them as files to use again. A segment stays until it and the link of its
// successor are synced. DropBefore returns how many are gone.
//
// After an error that is not ErrPoisoned or ErrClosed the log is sound, and DropBefore may be called
// again: it goes on where it stopped.
func (l *Log) DropBefore(number uint64) (int, error) {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	for dropped := 0; ; dropped++ {
		oldest, err := l.droppable(number)
		if err != nil {
			return dropped, err
		}
		if oldest.Number == 0 {
			return dropped, l.removeUnneeded()
		}
		spare, err := l.drop(oldest)
		if err != nil {
			return dropped, fmt.Errorf("drop segment %d: %w", oldest.Number, err)
		}
		l.mu.Lock()
		l.sealed = l.sealed[1:]
		keep := oldest.Size == l.opts.SegmentSize && len(l.spares) < l.opts.Spares
		if keep {
			l.spares = append(l.spares, spare)
		}
		l.mu.Unlock()
		if !keep {
			l.unneeded(spare)
		}
	}
}

// droppable returns the oldest segment if it has a number below number and may go. The caller holds
// dropMu.
func (l *Log) droppable(number uint64) (oldest Segment, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return oldest, err
	}
	if len(l.sealed) == 0 || l.sealed[0].Number >= number {
		return oldest, nil
	}
	nextLink := l.sealed[0].End + Position(segmentHeaderSize+frameSize(linkSize))
	if nextLink > l.Watermark() {
		return oldest, nil
	}
	return l.sealed[0], nil
}

// TrimSpares removes spares that nobody has needed since the last call, down to keep of them. So it gives files back
// after a burst of segments. It waits for the disk. After an error, the next call tries again.
func (l *Log) TrimSpares(keep int) error {
	l.mu.Lock()
	n := max(min(l.idleSpares, len(l.spares)-keep), 0)
	idle := l.spares[:n:n] // planFor takes the last
	l.spares = l.spares[n:]
	l.idleSpares = len(l.spares)
	err := l.usable()
	l.mu.Unlock()
	l.unneeded(idle...)
	return errors.Join(err, l.removeUnneeded())
}

// drop takes one segment out of the log and makes that durable before anything else happens to the directory or the
// file (S6). It returns the path that the file has then. After a failed sync the new name may stay in doubt for good.
// So the next try changes it back first, and syncs a change of its own.
func (l *Log) drop(s Segment) (spare string, err error) {
	spare = l.path(s.Number, spareExt)
	if l.halfDropped == s.Number {
		if err := l.fs.Rename(spare, s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	l.halfDropped = s.Number
	return spare, l.rename(s.path, spare)
}
