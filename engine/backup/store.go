package backup

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
)

const (
	partExt = ".part" // of a file that has not come to its end
	newExt  = ".new"
	// piece is how many bytes are written at a time. writeOut is how many the disk gets at a time, so that the sync of
	// a file does not hold up all others.
	piece    = 256 << 10
	writeOut = 1 << 20
)

// Report says what became of a backup.
type Report struct {
	Files, Sent int   // in the backup; that came now
	Bytes, Came int64 // of these files
	Withheld    []string
}

// Held returns the keys of the files that the backup in dir has, which need not exist, for Stream to leave
// out. They may be of an earlier backup, or of a try that was broken off.
func Held(fsys segment.FS, dir string) (map[uint64]bool, error) {
	held, err := heldFiles(fsys, dir)
	if err != nil {
		return nil, err
	}
	keys := make(map[uint64]bool, len(held))
	for key := range held {
		keys[key] = true
	}
	return keys, nil
}

// heldFiles returns the files that dir has and that never change, by their keys.
func heldFiles(fsys segment.FS, dir string) (map[uint64]File, error) {
	held := make(map[uint64]File)
	for _, sub := range dirs {
		names, err := list(fsys, path.Join(dir, sub))
		if err != nil {
			return nil, err
		}
		for _, base := range names {
			stored := path.Join(sub, base)
			name, sum, once, ok := parseStored(stored)
			if !ok || once {
				continue
			}
			size, head, err := headOf(fsys, path.Join(dir, stored))
			if err != nil {
				return nil, err
			}
			if len(head) == segment.HeadSize {
				key := engine.BackupKey(name, size, head)
				held[key] = File{Name: name, Size: size, Sum: sum, Stored: stored}
			}
		}
	}
	return held, nil
}

// list returns the names in a directory, none if it is missing.
func list(fsys segment.FS, dir string) ([]string, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

func headOf(fsys segment.FS, name string) (size int64, head []byte, err error) {
	f, err := fsys.OpenReadOnly(name)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	if size, err = f.Size(); err != nil {
		return 0, nil, err
	}
	head = make([]byte, segment.HeadSize)
	n, err := f.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return size, head[:n], err
}

// Store writes what Stream wrote to the directory dir, which is made if it is missing, and may have an
// earlier backup: that one is whole until the new one is durable in its place. When Store returns an error
// dir has the earlier backup, and what came whole is there for the next try.
func Store(fsys segment.FS, dir string, stream io.Reader) (Report, error) {
	for _, d := range under(dir) {
		if err := fsys.MkdirAll(d); err != nil {
			return Report{}, err
		}
	}
	came := make(map[string]File)
	var r Report
	m, err := readStream(stream, func(h *tar.Header, body io.Reader) error {
		f, err := storeFile(fsys, dir, h, body)
		came[f.Name] = f
		r.Sent++
		r.Came += f.Size
		return err
	})
	if err != nil {
		return r, err
	}
	if err := place(fsys, dir, m, came); err != nil {
		return r, err
	}
	for i := range m.Files {
		r.Files++
		r.Bytes += m.Files[i].Size
	}
	r.Withheld = m.Withheld
	if err := finish(fsys, dir, m); err != nil {
		return r, err
	}
	return r, clean(fsys, dir, m)
}

// place says in m where each file is.
func place(fsys segment.FS, dir string, m *Manifest, came map[string]File) error {
	held, err := heldFiles(fsys, dir)
	if err != nil {
		return err
	}
	for i := range m.Files {
		f := &m.Files[i]
		got, ok := came[f.Name]
		switch {
		case ok && (got.Size != f.Size || got.Sum != f.Sum):
			return fmt.Errorf("%s came damaged: %d bytes with sum %s, and not %d with %s", f.Name, got.Size, got.Sum, f.Size, f.Sum)
		case !ok && f.Sum != "":
			return fmt.Errorf("%s did not come", f.Name)
		case !ok:
			if got, ok = held[f.Key]; !ok || got.Name != f.Name || got.Size != f.Size {
				return fmt.Errorf("%s did not come, and %s does not have it: was it removed meanwhile?", f.Name, dir)
			}
		}
		*f = File{Name: f.Name, Size: f.Size, Sum: got.Sum, Stored: got.Stored}
	}
	return nil
}

// storeFile writes one file durably, but for its name.
func storeFile(fsys segment.FS, dir string, h *tar.Header, body io.Reader) (File, error) {
	part := path.Join(dir, h.Name+partExt)
	sum, err := writeDurably(fsys, part, h.Size, body)
	f := File{Name: h.Name, Size: h.Size, Sum: sum}
	if err != nil {
		return f, fmt.Errorf("write %s: %w", part, err)
	}
	f.Stored = storedName(f.Name, sum, h.PAXRecords[onceRecord] != "")
	return f, fsys.Rename(part, path.Join(dir, f.Stored))
}

// writeDurably makes the file at name, of size bytes, and returns its sum.
func writeDurably(fsys segment.FS, name string, size int64, body io.Reader) (sum string, err error) {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := fsys.Create(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	digest := segment.NewSum()
	buf := make([]byte, piece)
	for off, out := int64(0), int64(0); off < size; {
		p := buf[:min(int64(len(buf)), size-off)]
		if _, err := io.ReadFull(body, p); err != nil {
			return "", err
		}
		digest.Write(p)
		if _, err := f.WriteAt(p, off); err != nil {
			return "", err
		}
		if off += int64(len(p)); off-out >= writeOut {
			if err := f.WriteOut(out, off-out); err != nil {
				return "", err
			}
			out = off
		}
	}
	return sumText(digest.Sum64()), f.Datasync()
}

// finish makes the names durable, and then the manifest.
func finish(fsys segment.FS, dir string, m *Manifest) error {
	for _, d := range under(dir) {
		if err := fsys.SyncDir(d); err != nil {
			return err
		}
	}
	text, err := m.encode()
	if err != nil {
		return err
	}
	name := path.Join(dir, manifestName)
	if _, err := writeDurably(fsys, name+newExt, int64(len(text)), newReader(text)); err != nil {
		return err
	}
	if err := fsys.Rename(name+newExt, name); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// clean removes what was of earlier backups, and of tries that were broken off.
func clean(fsys segment.FS, dir string, m *Manifest) error {
	wanted := make(map[string]bool)
	for _, f := range m.Files {
		wanted[f.Stored] = true
	}
	for _, sub := range dirs {
		names, err := list(fsys, path.Join(dir, sub))
		if err != nil {
			return err
		}
		for _, base := range names {
			stored := path.Join(sub, base)
			_, _, _, ours := parseStored(stored)
			if ours = ours || path.Ext(base) == partExt; !ours || wanted[stored] {
				continue
			}
			if err := fsys.Remove(path.Join(dir, stored)); err != nil {
				return err
			}
		}
	}
	return nil
}
