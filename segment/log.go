package segment

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
)

// This file has the log: appends, syncs and what it has of segments.

// DefaultSegmentSize is the size, in bytes, of a segment unless Options say otherwise.
const DefaultSegmentSize = 64 << 20

// Options configure a [Log]. The zero value is usable.
type Options struct {
	// FS is the file system the log lives on; nil means OS.
	FS FS
	// SegmentSize is the number of bytes reserved for a segment; 0 means DefaultSegmentSize. A
	// frame that does not fit gets a segment of its own size.
	SegmentSize int64
	// Spares is how many dropped segments at most stay to be used again. Their blocks are already written, so syncing
	// them changes no metadata. 0 keeps none. See TrimSpares.
	Spares int
	// MaxUnsynced is how many sealed segments may wait for a sync; each is an open file. Append syncs
	// them itself before it seals one more. 0 means any number.
	MaxUnsynced int
	// Accept, if it is not nil, is called by Open when every frame has been visited, and nothing
	// has been changed. After an error of it, which Open returns, nothing is.
	Accept func() error

	newID func() uint64 // returns the id of a segment; nil means a random one
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = OS{}
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = DefaultSegmentSize
	}
	o.SegmentSize = o.sizeFor(frameSize(0)) // what is smaller cannot hold anything
	if o.newID == nil {
		o.newID = randomID
	}
	return o
}

// Log is an append-only sequence of frames in the segments of one directory. Its methods may be
// called from any goroutine. Append and Sync run side by side; two Appends, or two Syncs, take
// turns.
type Log struct {
	// Immutable after Open.
	dir  string
	opts Options
	fs   FS

	watermark atomic.Uint64 // position up to which everything is durable; written under mu

	dropMu      sync.Mutex // one DropBefore at a time; taken before syncMu and mu
	halfDropped uint64     // the segment dropped last, or not quite; guarded by dropMu

	syncMu     sync.Mutex // one Sync at a time; taken before mu
	writtenOut Position   // how far writeOut has come; guarded by syncMu

	mu       sync.Mutex // held across WriteAt, and across making a segment if none is prepared
	prepared *sync.Cond // signals that preparing went false
	// Guarded by mu.
	tail        *segmentFile
	next        *segmentFile   // prepared to follow tail; nil if there is none
	preparing   bool           // Prepare is making next, without holding mu
	sealed      []Segment      // oldest first
	unsynced    []*segmentFile // sealed, but not synced to the end; oldest first; still open
	spares      []string       // paths of files to use again, the one dropped last at the end
	idleSpares  int            // the fewest of them since the last TrimSpares
	syncs       int64          // since the tail became the tail
	oftenSynced bool           // the tail before was, or there is none to tell
	batchEnd    Position       // behind the last batch
	recorded    Position       // the highest watermark a frame carries
	poison      error          // wraps ErrPoisoned; nil while the log is sound
	closed      bool

	// dirMu is held across the change of a name and the SyncDir behind it. A sync that fails for another goroutine's
	// change must not pass for a success here. Taken last.
	dirMu    sync.Mutex
	unwanted []string // paths of files that are still to be removed; guarded by dirMu
}

// Segment describes one segment of a log.
type Segment struct {
	Number uint64
	Base   Position // of the first byte
	End    Position // behind the last frame
	Size   int64    // bytes of disk it occupies
	path   string
}

// Appended says where a frame went.
type Appended struct {
	Segment uint64   // number of the segment that holds it
	End     Position // position behind it; durable once Watermark reaches it
}

// Append writes one frame. buf holds FrameHeaderSize bytes of room, whose content does not matter, and then the
// payload. Append fills the header in, may grow buf by padding, and returns it for use again. When Append returns the
// frame survives the death of the process; Sync makes it durable.
//
// After an error the log is as it was. Append may be called again with the same or another frame, unless the error is
// ErrPoisoned or ErrClosed. Append waits for the disk only as a write to the page cache does, with two exceptions. It
// makes a segment when none is prepared, see Prepare, and it syncs when Options.MaxUnsynced segments wait for that.
func (l *Log) Append(buf []byte) (Appended, []byte, error) { return l.AppendAs(Version1, buf) }

// AppendAs is Append of a frame that needs a segment of that version, or of a later one. The first
// such frame goes to a segment of its own, and all later frames go to segments of that version.
func (l *Log) AppendAs(version Version, buf []byte) (Appended, []byte, error) {
	n := len(buf)
	if err := checkPayloadSize(n - FrameHeaderSize); err != nil {
		return Appended{}, buf, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.makeRoom(frameSize(int64(n-FrameHeaderSize)), version); err != nil {
		return Appended{}, buf, err
	}
	watermark := l.Watermark()
	buf, err := l.tail.write(KindBatch, buf, watermark)
	if err != nil {
		return Appended{}, buf[:n], err
	}
	l.batchEnd = l.tail.position()
	l.recorded = watermark
	return Appended{l.tail.number, l.batchEnd}, buf, nil
}

func checkPayloadSize(n int) error {
	switch {
	case n < 0:
		panic(fmt.Sprintf("segment: Append of a buffer that lacks %d bytes of header room", -n))
	case n > MaxPayloadSize:
		return fmt.Errorf("append %d bytes: %w", n, ErrTooLarge)
	}
	return nil
}

// makeRoom makes the tail one that takes a frame of need bytes and of that version. The caller holds mu,
// which is given up while a segment is being prepared.
func (l *Log) makeRoom(need int64, version Version) error {
	for {
		if err := l.usable(); err != nil {
			return err
		}
		if !l.tail.sealed && need <= l.tail.room() && version <= l.tail.version {
			return nil
		}
		if l.preparing {
			l.prepared.Wait()
			continue
		}
		if n := l.opts.MaxUnsynced; n > 0 && len(l.unsynced) >= n {
			if err := l.syncUnsynced(); err != nil {
				return err
			}
			continue
		}
		if err := l.rotate(need, version); err != nil {
			return err
		}
	}
}

// syncUnsynced is SyncSealed for a caller that holds mu, which is given up meanwhile.
func (l *Log) syncUnsynced() error {
	l.mu.Unlock()
	defer l.mu.Lock()
	return l.SyncSealed()
}

// OpenFiles returns how many files the log has open: the tail, the one prepared to follow it, and sealed
// ones that are not synced.
func (l *Log) OpenFiles() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.unsynced)
	for _, s := range []*segmentFile{l.tail, l.next} {
		if s != nil {
			n++
		}
	}
	return n
}

// Sync makes every frame durable whose Append returned before Sync was called, and returns the new
// watermark. If it fails the log is poisoned: the error, and that of every later call that writes,
// wraps ErrPoisoned.
func (l *Log) Sync() (Position, error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	err := l.usable()
	tail, end := l.tail, l.tail.position()
	unsynced := l.unsynced
	l.mu.Unlock()
	if err != nil || end == l.Watermark() {
		return l.Watermark(), err
	}
	err = syncInOrder(unsynced, tail)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.syncs++
	return l.synced(len(unsynced), end, err)
}

// SyncSealed is Sync for the segments that are sealed. It makes them durable without touching the tail, so that a log
// that nobody syncs does not leave it all to the next Open. Call it from a background goroutine after the log went on
// to another segment.
func (l *Log) SyncSealed() error {
	l.mu.Lock()
	sealed := l.tail.base
	l.mu.Unlock()
	if err := l.writeOut(sealed); err != nil {
		return err
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	err, unsynced := l.usable(), l.unsynced
	for n := len(unsynced); n > 0 && unsynced[n-1].position() > sealed; n-- {
		unsynced = unsynced[:n-1] // was sealed meanwhile, and is for the next call
	}
	l.mu.Unlock()
	if err != nil || len(unsynced) == 0 {
		return err
	}
	err = syncInOrder(unsynced, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.synced(len(unsynced), unsynced[len(unsynced)-1].position(), err)
	return err
}

// syncInOrder syncs sealed segments, oldest first, and then the tail, if it is not nil (S4).
func syncInOrder(sealed []*segmentFile, tail *segmentFile) error {
	for _, s := range sealed {
		if err := s.datasync(); err != nil {
			return err
		}
	}
	if tail == nil {
		return nil
	}
	return tail.datasync()
}

// synced takes note of how the sync of the first n unsynced segments, and of what else lies before
// end, went. The caller holds syncMu and mu.
func (l *Log) synced(n int, end Position, err error) (Position, error) {
	if err != nil {
		l.poison = fmt.Errorf("%w: %w", ErrPoisoned, err)
		return l.Watermark(), l.poison
	}
	for _, s := range l.unsynced[:n] {
		s.file.Close() // synced and never written again: an error of close has nothing to lose
	}
	l.unsynced = l.unsynced[n:]
	l.watermark.Store(max(l.watermark.Load(), uint64(end)))
	return l.Watermark(), nil
}

// Mark writes an empty frame if the last batches are durable but no frame on disk says so yet.
// Damage to them could else be taken for a torn tail. Call it when the log has been idle for a
// while, and Sync afterwards. It reports whether it wrote.
func (l *Log) Mark() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return false, err
	}
	watermark := l.Watermark()
	if l.recorded >= l.batchEnd || watermark < l.batchEnd {
		return false, nil
	}
	if l.tail.sealed || l.tail.room() < frameSize(0) {
		return false, nil // the next segment will say so
	}
	if err := l.tail.writePayload(KindMark, nil, watermark); err != nil {
		return false, err
	}
	l.recorded = watermark
	return true, nil
}

// Watermark returns the position up to which everything is durable.
func (l *Log) Watermark() Position { return Position(l.watermark.Load()) }

// Segments returns the segments of the log, oldest first; the last is the tail.
func (l *Log) Segments() []Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append([]Segment(nil), l.sealed...)
	return append(all, l.tail.describe())
}

// Close syncs and seals the log and closes its files, so that the next Open takes any bad frame for
// damage. The log is closed even if Close returns an error; it wraps ErrPoisoned if what was
// appended last may not be durable.
func (l *Log) Close() error {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.closed = true // an Append that waits for Prepare gives up
	for l.preparing {
		l.prepared.Wait()
	}
	err := l.poison
	if err == nil {
		_, err = l.synced(len(l.unsynced), l.tail.position(), syncInOrder(l.unsynced, l.tail))
	}
	if err == nil {
		err = l.finish()
	}
	for _, s := range append(l.unsynced, l.tail, l.next) {
		if s != nil {
			s.file.Close()
		}
	}
	return err
}

// finish ends a log whose frames are durable such that none of them can be taken for a torn tail.
// The caller holds mu.
func (l *Log) finish() error {
	switch {
	case !l.tail.sealed && (l.tail.frames > 1 || l.recorded < l.batchEnd):
		return l.tail.finish()
	case !l.tail.sealed:
		return nil // it holds its link only, and that says so
	}
	if err := l.rotate(0, Version1); err != nil { // an earlier try got no further than sealing
		return fmt.Errorf("finish log: %w", err)
	}
	return syncInOrder(l.unsynced, l.tail)
}

// usable returns why the log cannot be written, or nil. The caller holds mu.
func (l *Log) usable() error {
	if l.closed {
		return ErrClosed
	}
	return l.poison
}

func randomID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

func (l *Log) path(number uint64, ext string) string {
	return path.Join(l.dir, fileName(number, ext))
}
