package backup

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
)

// onceRecord marks, in the archive, a file in whose place other bytes may come to stand.
const onceRecord = "KESTREL.once"

// totalRecord says, at the first file of an archive, about how many bytes all its files have.
const totalRecord = "KESTREL.total"

// An Expecter hears about how many bytes are to come. A reader of a stream may be one, and the file system of a directory.
type Expecter interface{ Expect(bytes int64) }

// Stream writes a backup of what e holds now to w, as a tar archive. It leaves out files whose keys are in
// have; see engine.BackupKey. It returns an error before it writes anything if the backup cannot begin. An
// error later on is also the last file of the archive, ERROR, as far as w takes it: there is no MANIFEST then.
func Stream(ctx context.Context, w io.Writer, e *engine.Engine, have map[uint64]bool) error {
	b, err := e.BeginBackup()
	if err != nil {
		return err
	}
	defer b.Close()
	m := Manifest{Format: format, Began: time.Now().UTC(), Withheld: b.Withheld}
	archive := tar.NewWriter(w)
	total := int64(0)
	for _, f := range b.Files {
		if f.Key == 0 || !have[f.Key] {
			total += f.Size
		}
	}
	for i, f := range b.Files {
		entry := File{Name: f.Name, Size: f.Size, Key: f.Key}
		if f.Key == 0 || !have[f.Key] {
			h := header(f.Name, f.Size, m.Began, f.Key == 0, total)
			total = 0
			if entry.Sum, err = send(ctx, archive, b, i, h); errors.Is(err, fs.ErrNotExist) && f.Key == 0 && b.Check() == nil {
				err = nil // it was nobody's, and had not been begun
				continue
			}
		}
		if err != nil {
			return errors.Join(err, giveUp(w, archive, err))
		}
		b.Done(i)
		m.Files = append(m.Files, entry)
	}
	if err := b.Check(); err != nil {
		return errors.Join(err, giveUp(w, archive, err))
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

// send writes one file, and returns its sum.
func send(ctx context.Context, archive *tar.Writer, b *engine.Backup, i int, h *tar.Header) (sum string, err error) {
	out := &entryWriter{archive: archive, header: h}
	digest := segment.NewSum()
	if err := b.Copy(ctx, i, io.MultiWriter(digest, out)); err != nil {
		return "", err
	}
	if err := out.begin(); err != nil { // it is empty
		return "", err
	}
	return sumText(digest.Sum64()), nil
}

// header returns the header of a file. total is how many bytes all files have, or 0 to say nothing of it.
func header(name string, size int64, began time.Time, once bool, total int64) *tar.Header {
	h := &tar.Header{
		Name: name, Size: size, Mode: 0o640, ModTime: began, Format: tar.FormatPAX, PAXRecords: make(map[string]string),
	}
	if once {
		h.PAXRecords[onceRecord] = "1"
	}
	if total > 0 {
		h.PAXRecords[totalRecord] = strconv.FormatInt(total, 10)
	}
	return h
}

// entryWriter writes a file of an archive, whose header goes out with the first bytes.
type entryWriter struct {
	archive *tar.Writer
	header  *tar.Header
	begun   bool
}

func (w *entryWriter) begin() error {
	if w.begun {
		return nil
	}
	w.begun = true
	return w.archive.WriteHeader(w.header)
}

func (w *entryWriter) Write(p []byte) (int, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	return w.archive.Write(p)
}

// giveUp says in the archive why it ends. In the middle of a file it cannot: then the archive just ends.
func giveUp(w io.Writer, archive *tar.Writer, why error) error {
	if archive.Flush() != nil {
		return nil
	}
	return writeFile(tar.NewWriter(w), errorName, []byte(why.Error()))
}

func writeFile(archive *tar.Writer, name string, text []byte) error {
	h := &tar.Header{Name: name, Size: int64(len(text)), Mode: 0o640, Format: tar.FormatPAX}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	if _, err := archive.Write(text); err != nil {
		return err
	}
	return archive.Flush()
}
