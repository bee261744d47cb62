package journalcmd

import (
	"io"
	"os"
	"path/filepath"

	"github.com/kestrelmq/kestrel/segment"
)

// writeDurably makes a new file at path of what write writes, through a file called temporary in the
// same directory. When it returns nil the file is there whatever happens; else there is none.
func writeDurably(path, temporary string, write func(io.Writer) error, syncDir func(dir string) error) error {
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
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

// removeDurably removes the file at path.
func removeDurably(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return segment.OS{}.SyncDir(filepath.Dir(path))
}
