package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

var (
	// ErrBackupRuns means that there is a backup already: one at a time.
	ErrBackupRuns = errors.New("another backup is running: wait for its end")
	// ErrBackupDisk means that the disk has less room than its reserve. A backup retains files that the
	// server would remove, and the room is needed more.
	ErrBackupDisk = errors.New("the disk of the data directory is nearly full, and a backup keeps files there" +
		" that the server would remove: make room, and try again")
)

// backupPiece is how many bytes of a file are read at a time. They are read past the page cache. The kernel would
// fill that in bursts, and the syncs of clients would wait behind these. It would also drop what others have read.
const backupPiece = 64 << 10

// BackupFile is one file of a backup.
type BackupFile struct {
	// Name is its path in the data directory that the backup is restored as.
	Name string
	Size int64 // bytes
	// Key is 0 if other bytes may come to stand in the file. Else no two files with different bytes
	// have the same key; see [BackupKey].
	Key uint64

	path    string
	segment uint64 // its number; 0 of a run
}

// BackupKey returns the key of a file that begins with the bytes of head, segment.HeadSize of them.
func BackupKey(name string, size int64, head []byte) uint64 {
	sum := segment.NewSum()
	io.WriteString(sum, name)
	sum.Write(binary.LittleEndian.AppendUint64([]byte{0}, uint64(size)))
	sum.Write(head)
	return max(sum.Sum64(), 1)
}

// Backup is the state of an engine at the moment when it began, as files that are still to be copied.
// One goroutine uses it. Close it: until then the engine retains files that it would remove.
type Backup struct {
	// Files are those to copy, in this order.
	Files []BackupFile
	// Withheld are the names of queues that the engine does not serve, because their files are damaged. The
	// backup has these files as they are.
	Withheld []string

	e      *Engine
	sealed *journal.Sealed
	buf    []byte
}

// BeginBackup begins a backup. What was acknowledged before is in it, and nothing that is put or removed afterwards. It
// waits for the disk. It returns ErrBackupRuns, ErrBackupDisk, ErrClosed, or why the journal or a file cannot be used.
func (e *Engine) BeginBackup() (*Backup, error) {
	defer contain()
	if e.closed.Load() {
		return nil, ErrClosed
	}
	if e.lowDisk.Load() {
		return nil, ErrBackupDisk
	}
	b := &Backup{e: e}
	if !e.backing.begin() {
		return nil, ErrBackupRuns
	}
	e.spool.recordMu.Lock() // a removal of runs under way is in the journal before that is sealed
	e.backing.runs.Store(true)
	e.spool.recordMu.Unlock()
	err := b.begin()
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("begin backup: %w", err)
	}
	return b, nil
}

func (b *Backup) begin() (err error) {
	e := b.e
	if b.sealed, err = e.journal.Seal(); err != nil {
		return err
	}
	for _, s := range b.sealed.Segments {
		b.Files = append(b.Files, BackupFile{
			Name: path.Join("journal", s.Name()), Size: int64(s.End - s.Base), Key: 1, path: s.Path(), segment: s.Number,
		})
	}
	for _, q := range e.withheld.queues {
		b.Withheld = append(b.Withheld, q.Name)
	}
	if len(b.sealed.Segments) > 0 { // else the journal speaks of no run, and without one it would be missing beside them
		err = b.addRuns()
	}
	if err != nil {
		return err
	}
	for i := range b.Files {
		if f := &b.Files[i]; f.Key != 0 {
			if err := b.setKey(f); err != nil {
				return err
			}
		}
	}
	b.retainFrom(0)
	return nil
}

// addRuns lists the runs. Every run that the sealed journal speaks of is still there. What it says of one
// lies in the part that is recorded by now, which does not change. Nothing is known of runs of queues that are
// withheld. All others are not in the journal yet, and may go again.
func (b *Backup) addRuns() error {
	e := b.e
	recorded := make(map[uint64]int64)
	e.spool.each(func(_ *queue, backlog *backlog) {
		for _, r := range slices.Concat(backlog.runs, backlog.spent) {
			recorded[r.ID.Number] = r.recorded.End
		}
		for _, m := range append(slices.Clone(backlog.spentMarks), backlog.marks) {
			if m != nil {
				recorded[m.ID.Number] = m.end
			}
		}
	})
	e.spool.eachHidden(func(_ *queue, h *hiddenRuns) {
		for _, r := range h.Runs() {
			if !r.IsWriting() {
				recorded[r.ID.Number] = r.End
			}
		}
	})
	e.spool.mu.Lock()
	for _, f := range e.spool.spent {
		recorded[f.ID.Number] = 0
	}
	e.spool.mu.Unlock()
	numbers, err := e.spool.dir.Numbers()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		f := BackupFile{Name: runs.Path("backlog", number), path: runs.Path(e.spool.dir.Path, number)}
		size, known := recorded[number]
		if !known && !e.withheld.runs[number] {
			continue
		}
		if f.Size = size; f.Size > 0 {
			f.Key = 1
		} else if f.Size, err = e.spool.dir.Size(f.path); errors.Is(err, fs.ErrNotExist) {
			continue // the journal never spoke of it
		} else if err != nil {
			return err
		}
		b.Files = append(b.Files, f)
	}
	return nil
}

func (b *Backup) setKey(f *BackupFile) error {
	file, err := b.e.fs.OpenReadOnly(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	var head [segment.HeadSize]byte
	if n, err := file.ReadAt(head[:], 0); n < len(head) {
		return fmt.Errorf("read the header of %s: %w", f.path, segment.Cause(err))
	}
	f.Key = BackupKey(f.Name, f.Size, head[:])
	return nil
}

// Copy writes the bytes of Files[i] to w. The slices that w gets are good during the call.
func (b *Backup) Copy(ctx context.Context, i int, w io.Writer) error {
	f := b.Files[i]
	err := b.copy(ctx, f, w)
	if lost := b.Check(); lost != nil { // and that is why
		return lost
	}
	if err != nil {
		return fmt.Errorf("back up %s: %w", f.path, err)
	}
	return nil
}

func (b *Backup) copy(ctx context.Context, f BackupFile, w io.Writer) error {
	file, err := segment.Uncached(b.e.fs).OpenReadOnly(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if b.buf == nil {
		b.buf = segment.BlockBuffer(backupPiece)[:backupPiece]
	}
	for off := int64(0); off < f.Size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.e.lowDisk.Load() {
			return ErrBackupDisk
		}
		p := b.buf[:min(int64(len(b.buf)), f.Size-off)]
		if n, err := file.ReadAt(b.buf[:segment.WholeBlocks(len(p))], off); n < len(p) {
			return fmt.Errorf("read %d bytes at offset %d: %w", len(p), off, segment.Cause(err))
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		off += int64(len(p))
		processor.Yield()
	}
	return nil
}

// Done lets the engine remove the files up to Files[i], when nothing else needs them.
func (b *Backup) Done(i int) { b.retainFrom(i + 1) }

// retainFrom retains the segments among Files[i:], which come before the runs.
func (b *Backup) retainFrom(i int) {
	var oldest uint64
	if i < len(b.Files) {
		oldest = b.Files[i].segment
	}
	b.e.backing.retainSegments(oldest)
}

// Check returns an error if the copy may not have all that was acknowledged. Then the engine was closed, or a sync
// failed and the journal moves to other files. Try another backup then.
func (b *Backup) Check() error {
	if b.e.closed.Load() {
		return ErrClosed
	}
	if err := b.sealed.Check(); err != nil {
		return fmt.Errorf("the journal changed under the backup: try again: %w", err)
	}
	return nil
}

// Close lets the engine remove what it retained.
func (b *Backup) Close() {
	g := &b.e.backing
	g.mu.Lock()
	defer g.mu.Unlock()
	g.oldest.Store(0)
	g.runs.Store(false)
	g.running = false
}

// backing is what a backup retains.
type backing struct {
	mu      sync.Mutex // held while segments are dropped; no shard or log is locked before
	running bool       // guarded by mu
	// oldest is the first segment that is not copied yet, 0 if all are. Written with mu held.
	oldest atomic.Uint64
	// runs says that no run may be removed. Set with recordMu of the spool held.
	runs atomic.Bool
}

// segments returns up to where segments may be dropped that are not needed before needed. The caller holds mu.
func (b *backing) segments(needed uint64) uint64 {
	if n := b.oldest.Load(); n > 0 {
		return min(needed, n)
	}
	return needed
}

// segmentsTo is segments for a caller that has not locked mu.
func (b *backing) segmentsTo(needed uint64) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.segments(needed)
}

func (b *backing) retainsSegments() bool { return b.oldest.Load() > 0 }

// retainSegments retains the segments from oldest on; 0 retains none.
func (b *backing) retainSegments(oldest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.oldest.Store(oldest)
}

// begin retains every segment from now on. It reports false if another backup does already.
func (b *backing) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return false
	}
	b.running = true
	b.oldest.Store(1)
	return true
}
