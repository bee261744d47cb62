package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/segment"
)

// restoringName is a file of a data directory that is there while a restore has not come to its end.
const restoringName = "restoring"

// MarkPath returns the path of the file that is in a data directory while a restore into it is not finished.
func MarkPath(dataDir string) string { return path.Join(dataDir, restoringName) }

// IsBackup reports whether a directory has a whole backup, perhaps with a newer one under way.
func IsBackup(dir string) bool {
	_, err := os.Lstat(path.Join(dir, manifestName))
	return err == nil
}

// Restored says what a restore has brought back.
type Restored struct {
	Manifest *Manifest
	Queues   int
	Items    int64
	Bytes    int64 // of the items' bodies
	// Withheld are queues whose files were damaged before the backup.
	Withheld []engine.WithheldQueue
}

// Restore writes a backup to the data directory dir, which must be empty or missing, or have an unfinished
// restore. It checks every sum, and then reads the directory as a server would. When it returns nil all is
// durable. Until then, and after an error, dir has the file of MarkPath. It returns an error that wraps
// engine.ErrLocked if another process uses dir.
func Restore(fsys segment.FS, dir string, from Source) (r *Restored, err error) {
	if _, err := leftIn(fsys, dir); err != nil { // it gets no lock then
		return nil, err
	}
	lock, err := hold(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	return restore(fsys, dir, from)
}

// hold locks dir, which it makes if that is missing, if processes lock directories: fsys is that of the operating
// system.
func hold(fsys segment.FS, dir string) (*dirlock.Lock, error) {
	if _, ok := fsys.(segment.OS); !ok {
		return nil, nil
	}
	lock, err := dirlock.Make(dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return lock, nil
}

// restore is Restore in a directory that no other process uses.
func restore(fsys segment.FS, dir string, from Source) (*Restored, error) {
	if err := makeEmpty(fsys, dir); err != nil {
		return nil, err
	}
	if err := forbidStart(fsys, dir); err != nil {
		return nil, err
	}
	for _, d := range under(dir) {
		if err := fsys.MkdirAll(d); err != nil {
			return nil, err
		}
	}
	m, err := check(from, func(name string, size int64, body io.Reader) (sum string, err error) {
		return writeDurably(fsys, path.Join(dir, name), size, body)
	})
	if err != nil {
		return nil, err
	}
	for _, d := range under(dir) {
		if err := fsys.SyncDir(d); err != nil {
			return nil, err
		}
	}
	r, err := inspect(fsys, dir, m)
	if err != nil {
		return nil, err
	}
	if err := fsys.Remove(MarkPath(dir)); err != nil {
		return nil, err
	}
	return r, fsys.SyncDir(dir)
}

// Check reads all of a backup, and writes nothing.
func Check(from Source) (*Manifest, error) {
	buf := make([]byte, piece)
	return check(from, func(_ string, _ int64, body io.Reader) (string, error) {
		digest := segment.NewSum()
		_, err := io.CopyBuffer(digest, body, buf)
		return sumText(digest.Sum64()), err
	})
}

// check has take read each file, and compares the sums that it returns with the manifest.
func check(from Source, take func(name string, size int64, body io.Reader) (sum string, err error)) (*Manifest, error) {
	came := make(map[string]File)
	m, err := from.each(func(name string, size int64, body io.Reader) error {
		sum, err := take(name, size, body)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		came[name] = File{Size: size, Sum: sum}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(m.Files) != len(came) {
		return nil, fmt.Errorf("the backup is damaged: it has %d files, and its %s names %d", len(came), manifestName, len(m.Files))
	}
	for _, f := range m.Files {
		got, ok := came[f.Name]
		if !ok {
			return nil, fmt.Errorf("the backup is damaged: it has no %s; a stream is whole only if nothing was left out of it", f.Name)
		}
		if got.Size != f.Size || got.Sum != f.Sum {
			where := f.Name
			if f.Stored != "" {
				where = f.Stored
			}
			return nil, fmt.Errorf("the backup is damaged: %s has %d bytes with sum %s, and should have %d with %s",
				where, got.Size, got.Sum, f.Size, f.Sum)
		}
	}
	return m, nil
}

// makeEmpty makes dir, or removes what an unfinished restore left there.
func makeEmpty(fsys segment.FS, dir string) error {
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	left, err := leftIn(fsys, dir)
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := empty(fsys, path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// leftIn returns the directories that an unfinished restore has left in dir, and an error if anything else is there.
func leftIn(fsys segment.FS, dir string) (left []string, err error) {
	names, err := list(fsys, dir)
	if err != nil {
		return nil, err
	}
	unfinished := slices.Contains(names, restoringName)
	for _, name := range names {
		switch {
		case name == "lost+found" || name == restoringName || name == dirlock.FileName: // a disk of its own has the first
		case unfinished && slices.Contains(dirs[:], name):
			left = append(left, name)
		default:
			return nil, fmt.Errorf("%s is not empty: it has %q; restore to an empty directory", dir, name)
		}
	}
	return left, nil
}

func empty(fsys segment.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fsys.Remove(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// forbidStart has no server start on dir.
func forbidStart(fsys segment.FS, dir string) error {
	f, err := fsys.Create(MarkPath(dir))
	if errors.Is(err, fs.ErrExist) {
		return fsys.SyncDir(dir)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), fsys.SyncDir(dir))
}

// inspect reads what has been restored.
func inspect(fsys segment.FS, dir string, m *Manifest) (*Restored, error) {
	s, err := engine.Inspect(engine.Options{
		Dir: dir, FS: fsys, Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		return nil, fmt.Errorf("what was restored cannot be used: %w", err)
	}
	r := &Restored{Manifest: m, Queues: len(s.Queues), Withheld: s.Withheld}
	for _, q := range s.Queues {
		r.Items += q.Items
		r.Bytes += q.Bytes
	}
	for _, q := range s.Withheld {
		if !slices.Contains(m.Withheld, q.Name) {
			err = errors.Join(err, fmt.Errorf("queue %q was restored damaged: %w", q.Name, q.Reason))
		}
	}
	return r, errors.Join(err, s.Close())
}
