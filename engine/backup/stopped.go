package backup

import (
	"archive/tar"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
)

// StreamStopped is Stream of a data directory that no engine uses; the caller keeps others away from it. It
// leaves nothing out.
func StreamStopped(w io.Writer, fsys segment.FS, dataDir string, withheld []string) error {
	journal, err := engine.JournalDir(fsys, dataDir)
	if err != nil {
		return err
	}
	m := Manifest{Format: format, Began: time.Now().UTC(), Withheld: withheld}
	archive := tar.NewWriter(w)
	total, err := sizeOf(fsys, journal, path.Join(dataDir, "backlog"))
	if err != nil {
		return err
	}
	for sub, dir := range map[string]string{"journal": journal, "backlog": path.Join(dataDir, "backlog")} {
		names, err := list(fsys, dir)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, base := range names {
			f := File{Name: path.Join(sub, base)}
			if !fileNames.MatchString(f.Name) {
				continue
			}
			if err := sendStopped(archive, fsys, path.Join(dir, base), &f, m.Began, total); err != nil {
				return fmt.Errorf("back up %s: %w", path.Join(dir, base), err)
			}
			total = 0
			m.Files = append(m.Files, f)
		}
	}
	text, err := m.encode()
	if err != nil {
		return err
	}
	if err := writeFile(archive, manifestName, text); err != nil {
		return err
	}
	return archive.Close()
}

// sizeOf returns how many bytes the files in directories have.
func sizeOf(fsys segment.FS, in ...string) (total int64, err error) {
	for _, dir := range in {
		names, err := list(fsys, dir)
		if err != nil {
			return 0, err
		}
		for _, base := range names {
			if !fileNames.MatchString(path.Join("journal", base)) && !fileNames.MatchString(path.Join("backlog", base)) {
				continue
			}
			size, _, err := headOf(fsys, path.Join(dir, base))
			if err != nil {
				return 0, err
			}
			total += size
		}
	}
	return total, nil
}

// sendStopped writes one file, and notes its size and its sum.
func sendStopped(archive *tar.Writer, fsys segment.FS, name string, f *File, began time.Time, total int64) error {
	return dirSource{fs: fsys}.read(name, func(size int64, body io.Reader) error {
		f.Size = size
		if err := archive.WriteHeader(header(f.Name, size, began, true, total)); err != nil {
			return err
		}
		digest := segment.NewSum()
		_, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(digest, archive)}, struct{ io.Reader }{body}, make([]byte, piece))
		f.Sum = sumText(digest.Sum64())
		return err
	})
}
