package segment

import (
	"errors"
	"fmt"
)

// bytesWorthZeros is how many bytes of a segment a sync covers, on average, at most, for new files
// behind it to be written over with zeros in advance: a sync on blocks that are only reserved costs
// a third more, whatever it covers, zeros cost one pass over the file.
const bytesWorthZeros = 32 << 10

// rotate seals the tail and goes on in the next segment, which has room for a frame of need bytes.
// It first gets hold of that segment, so that a full disk leaves the tail as it was. The caller
// holds mu, and Prepare is not at work.
func (l *Log) rotate(need int64) error {
	size := l.opts.sizeFor(need)
	if l.next != nil && l.next.size < size {
		l.next.file.Close() // its name is taken over by the larger one
		l.next = nil
	}
	if l.next == nil {
		next, err := l.makeSegment(l.planFor(l.tail.number+1, size, false), nil)
		if err != nil {
			return err
		}
		l.next = next
	}
	if err := l.tail.seal(l.Watermark()); err != nil {
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

// tailOftenSynced reports whether syncs have covered little of the tail each. The caller holds mu.
func (l *Log) tailOftenSynced() bool { return l.syncs > 0 && l.tail.end/l.syncs <= bytesWorthZeros }

// sizeFor is the size of a segment that can hold a frame of need bytes beside its own frames.
func (o Options) sizeFor(need int64) int64 {
	own := segmentHeaderSize + frameSize(linkSize) + frameSize(trailerSize) + endMarkSize
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
	p := l.planFor(l.tail.number+1, l.opts.SegmentSize, l.oftenSynced || l.tailOftenSynced())
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
// After an error that is not ErrPoisoned or ErrClosed no segment is dropped any more until the log
// is opened again, because what the directory holds on disk is not known; those that remain are
// still part of the log.
func (l *Log) DropBefore(number uint64) (int, error) {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	for dropped := 0; ; dropped++ {
		oldest, keep, err := l.droppable(number)
		if err != nil || oldest.Number == 0 {
			return dropped, err
		}
		spare, err := l.drop(oldest, keep)
		if err != nil {
			l.dropErr = fmt.Errorf("drop segment %d: %w", oldest.Number, err)
			return dropped, l.dropErr
		}
		l.mu.Lock()
		l.sealed = l.sealed[1:]
		if keep {
			l.spares = append(l.spares, spare)
		}
		l.mu.Unlock()
	}
}

// droppable returns the oldest segment if it has a number below number and may go, and whether its
// file is worth keeping. The caller holds dropMu.
func (l *Log) droppable(number uint64) (oldest Segment, keep bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return oldest, false, err
	}
	if l.dropErr != nil {
		return oldest, false, l.dropErr
	}
	if len(l.sealed) == 0 || l.sealed[0].Number >= number {
		return oldest, false, nil
	}
	nextLink := l.sealed[0].End + Position(segmentHeaderSize+frameSize(linkSize))
	if nextLink > l.Watermark() {
		return oldest, false, nil
	}
	oldest = l.sealed[0]
	return oldest, oldest.Size == l.opts.SegmentSize && len(l.spares) < l.opts.Spares, nil
}

// TrimSpares removes spares, down to keep of them, as far as none was needed of those since it was
// called last: after a burst of segments their files are given back. It waits for the disk.
func (l *Log) TrimSpares(keep int) error {
	l.mu.Lock()
	n := max(min(l.idleSpares, len(l.spares)-keep), 0)
	idle := l.spares[:n:n] // planFor takes the last
	l.spares = l.spares[n:]
	l.idleSpares = len(l.spares)
	err := l.usable()
	l.mu.Unlock()
	for _, name := range idle {
		err = errors.Join(err, l.unlink(name)) // if it fails the file stays until the next open
	}
	return err
}

// drop takes one segment out of the log and makes that durable before anything else happens to the
// directory or the file (S6). It returns the path of the file if it was kept.
func (l *Log) drop(s Segment, keep bool) (spare string, err error) {
	if !keep {
		return "", l.unlink(s.path)
	}
	spare = l.path(s.Number, spareExt)
	return spare, l.rename(s.path, spare)
}
