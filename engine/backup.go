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

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/retain"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// This file begins a backup of a running engine, says which files it has, and retains them until it is over.

var (
	// ErrBackupRuns means that there is a backup already: one at a time.
	ErrBackupRuns = errors.New("another backup is running: wait for its end")
	// ErrBackupDisk means that the disk has less room than its reserve. A backup retains files that the
	// server would remove, and the room is needed more.
	ErrBackupDisk = errors.New("the disk of the data directory is nearly full, and a backup keeps files there" +
		" that the server would remove: make room, and try again")
)

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
	files  retain.Copier
}

// BeginBackup begins a backup. What was acknowledged before is in it, and nothing that is put or removed afterwards. It
// waits for the disk. It returns ErrBackupRuns, ErrBackupDisk, ErrClosed, or why the journal or a file cannot be used.
func (e *Engine) BeginBackup() (*Backup, error) {
	defer contain()
	if e.closed.Load() {
		return nil, ErrClosed
	}
	if e.disk.Low.Load() {
		return nil, ErrBackupDisk
	}
	b := &Backup{e: e, files: retain.Copier{FS: e.fs}}
	if !e.backing.Begin() {
		return nil, ErrBackupRuns
	}
	e.spool.recordMu.Lock() // a removal of runs under way is in the journal before that is sealed
	e.backing.Runs.Store(true)
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
	all := make(map[*queue][]*run)
	queues := e.spool.each(func(q *queue, backlog *backlog) {
		all[q] = slices.Concat(backlog.runs, backlog.spent)
		for _, m := range append(slices.Clone(backlog.spentMarks), backlog.marks) {
			if m != nil {
				recorded[m.ID.Number] = m.End
			}
		}
	})
	for q := range processor.InTurn(queues, new(int), e.opts.yield) {
		processor.EachInPieces(&q.shard.mu, e.opts.yield, all[q], func(r *run) { recorded[r.ID.Number] = r.recorded.End })
	}
	for q := range processor.InTurn(e.spool.hiders.All(e.opts.yield), new(int), e.opts.yield) {
		e.spool.eachHidden(q, func(r *hidden.Run) {
			if !r.IsWriting() {
				recorded[r.ID.Number] = r.End
			}
		})
	}
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
	head, err := b.files.Head(f.path)
	if err == nil {
		f.Key = BackupKey(f.Name, f.Size, head[:])
	}
	return err
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
	return b.files.Copy(w, f.path, f.Size, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.e.disk.Low.Load() {
			return ErrBackupDisk
		}
		return nil
	})
}

// Done lets the engine remove the files up to Files[i], when nothing else needs them.
func (b *Backup) Done(i int) { b.retainFrom(i + 1) }

// retainFrom retains the segments among Files[i:], which come before the runs.
func (b *Backup) retainFrom(i int) {
	var oldest uint64
	if i < len(b.Files) {
		oldest = b.Files[i].segment
	}
	b.e.backing.SegmentsFrom(oldest)
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
func (b *Backup) Close() { b.e.backing.End() }
