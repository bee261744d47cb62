package journalcmd

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

// writeDurably makes a new file at path of what write writes, through a file called temporary in the
// same directory. When it returns nil the file is there whatever happens; else there is none.
func writeDurably(path, temporary string, write func(io.Writer) error, syncDir func(dir string) error) error {
	f, err := createLocked(temporary)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		os.Remove(path)
		return err
	}
	return nil
}

// createLocked makes an empty file, and locks it, so that removeLeftovers of another process spares it. Where a file cannot
// be locked, nothing is removed.
func createLocked(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
		if err != nil {
			return nil, err
		}
		unix.Flock(int(f.Fd()), unix.LOCK_EX)
		mine, err := f.Stat()
		there, gone := os.Lstat(path)
		if err == nil && gone == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close() // it was removed before it was locked
		if err != nil {
			return nil, err
		}
	}
}

// removeLeftovers removes the files of a directory whose names are prefix, a number, ~ and more. It spares those that a
// process has locked: the one that made the others was killed. What cannot be removed stays, for the next one that can.
func removeLeftovers(dir, prefix string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		rest, named := strings.CutPrefix(entry.Name(), prefix)
		if !named || !strings.Contains(rest, "~") || !entry.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0); err == nil {
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				os.Remove(path)
			}
			f.Close()
		}
	}
}

// removeDurably removes the file at path.
func removeDurably(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return segment.OS{}.SyncDir(filepath.Dir(path))
}
