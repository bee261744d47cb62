package backup

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/segment"
)

const (
	partExt = ".part" // of a file that has not come to its end
	newExt  = ".new"
	// piece is how many bytes are written at a time, in whole blocks past the page cache. What the kernel gathers
	// there goes to the disk in bursts, which hold up the syncs of all others. Where there is no way past the cache,
	// writeOut is how many bytes the disk gets at a time.
	piece    = 256 << 10
	writeOut = 1 << 20
)

// Report says what became of a backup.
type Report struct {
	Files, Sent int   // in the backup; that came now
	Bytes, Came int64 // of these files
	Withheld    []string
	// Stays says why files of an earlier backup are still there, beside the new one, which is whole; nil: none is. The
	// next Store removes them.
	Stays error
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

// Store writes what Stream wrote to the directory dir, which it makes if that is missing. An earlier backup there is
// whole until the new one is durable in its place. When Store returns an error dir has the earlier backup, and what
// came whole is there for the next try. It returns an error that wraps engine.ErrLocked if another process uses dir, for
// a backup or as its data directory.
func Store(fsys segment.FS, dir string, stream io.Reader) (r Report, err error) {
	lock, err := hold(fsys, dir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	return store(fsys, dir, stream)
}

// store is Store in a directory that no other process uses.
func store(fsys segment.FS, dir string, stream io.Reader) (Report, error) {
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
	r.Stays = clean(fsys, dir, m)
	return r, nil
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
			return fmt.Errorf("%s was damaged on the way: it has %d bytes with sum %s, and should have %d with %s", f.Name, got.Size, got.Sum, f.Size, f.Sum)
		case !ok && f.Sum != "":
			return fmt.Errorf("%s is missing from the backup stream", f.Name)
		case !ok:
			if got, ok = held[f.Key]; !ok || got.Name != f.Name || got.Size != f.Size {
				return fmt.Errorf("%s is neither in the backup stream nor in %s: was it removed meanwhile?", f.Name, dir)
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
		return f, fmt.Errorf("write %s: %w", part, segment.Cause(err))
	}
	f.Stored = storedName(f.Name, sum, h.PAXRecords[onceRecord] != "")
	return f, fsys.Rename(part, path.Join(dir, f.Stored))
}

// writeDurably makes the file at name, of size bytes, and returns its sum.
func writeDurably(fsys segment.FS, name string, size int64, body io.Reader) (sum string, err error) {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := segment.Uncached(fsys).Create(name)
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	digest := segment.NewSum()
	buf := segment.BlockBuffer(piece)[:piece]
	for off, out := int64(0), int64(0); off < size; {
		p := buf[:min(int64(len(buf)), size-off)]
		if _, err := io.ReadFull(body, p); err != nil {
			return "", fmt.Errorf("from the backup: %w", err)
		}
		digest.Write(p)
		off += int64(len(p))
		whole := segment.WholeBlocks(len(p))
		clear(buf[len(p):whole])
		if _, err := f.WriteAt(buf[:whole], off-int64(len(p))); err != nil {
			return "", err
		}
		processor.Yield()
		if off-out >= writeOut {
			if err := f.WriteOut(out, off-out); err != nil {
				return "", err
			}
			out = off
		}
	}
	if err := f.Truncate(size); err != nil { // the rest of the last block
		return "", err
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
