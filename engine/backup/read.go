package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"

	"github.com/kestrelmq/kestrel/segment"
)

// ErrIncomplete means that a stream ended before its MANIFEST: its writer did not finish.
var ErrIncomplete = errors.New("the backup is not complete: it ends before its " + manifestName)

// maxError bounds what is read of an ERROR, in bytes.
const maxError = 64 << 10

func newReader(b []byte) io.Reader { return bytes.NewReader(b) }

// readStream calls f for each file of a stream, and returns its manifest.
func readStream(stream io.Reader, f func(*tar.Header, io.Reader) error) (*Manifest, error) {
	archive := tar.NewReader(stream)
	for {
		h, err := archive.Next()
		switch {
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, ErrIncomplete
		case err != nil:
			return nil, fmt.Errorf("this is not a backup, or a damaged one: %w", err)
		case h.Name == errorName:
			why, _ := io.ReadAll(io.LimitReader(archive, maxError))
			return nil, fmt.Errorf("the server broke the backup off: %s", why)
		case h.Name == manifestName:
			return parseManifest(archive)
		case !fileNames.MatchString(h.Name) || h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("this is not a backup: it has a file %q", h.Name)
		}
		if e, ok := stream.(Expecter); ok {
			if total, err := strconv.ParseInt(h.PAXRecords[totalRecord], 10, 64); err == nil {
				e.Expect(total)
			}
		}
		if err := f(h, archive); errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, ErrIncomplete
		} else if err != nil {
			return nil, err
		}
	}
}

// A Source is where a backup is read from.
type Source interface {
	// each calls f for each file, and returns the manifest.
	each(f func(name string, size int64, body io.Reader) error) (*Manifest, error)
}

// FromStream reads what Stream wrote.
func FromStream(stream io.Reader) Source { return streamSource{stream} }

type streamSource struct{ stream io.Reader }

func (s streamSource) each(f func(string, int64, io.Reader) error) (*Manifest, error) {
	return readStream(s.stream, func(h *tar.Header, body io.Reader) error { return f(h.Name, h.Size, body) })
}

// FromDir reads the backup that Store wrote, or the archive of a stream unpacked.
func FromDir(fsys segment.FS, dir string) Source { return dirSource{fsys, dir} }

type dirSource struct {
	fs  segment.FS
	dir string
}

func (s dirSource) each(f func(string, int64, io.Reader) error) (*Manifest, error) {
	m, err := s.manifest()
	if err != nil {
		return nil, err
	}
	if e, ok := s.fs.(Expecter); ok {
		total := int64(0)
		for _, file := range m.Files {
			total += file.Size
		}
		e.Expect(total)
	}
	for _, file := range m.Files {
		stored := path.Join(s.dir, file.Name)
		if file.Stored != "" {
			stored = path.Join(s.dir, file.Stored)
		}
		if err := s.read(stored, func(size int64, body io.Reader) error {
			if size != file.Size {
				return fmt.Errorf("the backup is damaged: %s has %d bytes, and should have %d", stored, size, file.Size)
			}
			return f(file.Name, size, body)
		}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (s dirSource) manifest() (m *Manifest, err error) {
	name := path.Join(s.dir, manifestName)
	err = s.read(name, func(_ int64, body io.Reader) error {
		m, err = parseManifest(body)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a complete backup: it has no %s", s.dir, manifestName)
	}
	return m, err
}

func (s dirSource) read(name string, f func(size int64, body io.Reader) error) error {
	file, err := s.fs.OpenReadOnly(name)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	return f(size, io.NewSectionReader(file, 0, size))
}
