package segment

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// RunReader reads frames of a run by their place. It is for one goroutine; several may read one
// run, also while it is written.
type RunReader struct {
	file File
	path string
	id   RunID
	head [RunFrameOverhead]byte
	buf  []byte // stored body of a compressed frame
}

// RunFrame is the header of a frame.
type RunFrame struct {
	Tag    Tag
	Offset int64 // of the frame, in bytes from the start of the file
	Next   int64 // offset behind it
	Size   int   // bytes of body
	f      runFrame
}

// OpenRun opens a run for reading. It returns a *CorruptionError if the file is not that run, and
// an error that satisfies errors.Is(err, fs.ErrNotExist) if there is none.
func OpenRun(fsys FS, name string, id RunID) (*RunReader, error) {
	f, err := fsys.OpenReadOnly(name)
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	r := &RunReader{file: f, path: name, id: id}
	if err := r.check(); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// check reads the header of the file.
func (r *RunReader) check() error {
	if err := r.read(r.head[:], 0); err != nil {
		return err
	}
	id, reason := parseRunHeader(r.head[:])
	if reason == "" && id != r.id {
		reason = fmt.Sprintf("file holds run %d with id %016x, want run %d with id %016x",
			id.Number, id.ID, r.id.Number, r.id.ID)
	}
	if reason != "" {
		return r.corrupt(0, reason)
	}
	return nil
}

// Covers returns a *CorruptionError unless the file reaches up to end.
func (r *RunReader) Covers(end int64) error {
	size, err := r.file.Size()
	if err == nil && size < end {
		err = r.corrupt(size, fmt.Sprintf("file ends before offset %d, up to which it was synced", end))
	}
	return err
}

// Frame reads the header of the frame at an offset. It returns a *CorruptionError if there is none.
func (r *RunReader) Frame(offset int64) (RunFrame, error) {
	if err := r.read(r.head[:], offset); err != nil {
		return RunFrame{}, err
	}
	f, ok := parseRunFrame(r.head[:], offset, r.id.ID)
	if !ok {
		return RunFrame{}, r.corrupt(offset, "not a frame header of this run")
	}
	return RunFrame{Tag: f.tag, Offset: offset, Next: f.next(), Size: f.raw, f: f}, nil
}

// Body appends the frame's body to dst and returns it, verified and decompressed by c. It returns a
// *CorruptionError if the bytes are not those that were written.
func (r *RunReader) Body(c *Coder, dst []byte, frame RunFrame) ([]byte, error) {
	f := frame.f
	at := f.offset + RunFrameOverhead
	start := len(dst)
	dst = slices.Grow(dst, f.raw)
	if f.codec == CodecNone {
		dst = dst[:start+f.raw]
		if err := r.body(dst[start:], at, f); err != nil {
			return dst[:start], err
		}
		return dst, nil
	}
	r.buf = slices.Grow(r.buf[:0], f.stored)[:f.stored]
	if err := r.body(r.buf, at, f); err != nil {
		return dst, err
	}
	dst, err := c.decode(dst, r.buf, f.codec, f.raw)
	if err != nil {
		return dst, r.corrupt(f.offset, err.Error())
	}
	return dst, nil
}

func (r *RunReader) body(b []byte, at int64, f runFrame) error {
	if err := r.read(b, at); err != nil {
		return err
	}
	if xxhash.Sum64(b) != f.sum {
		return r.corrupt(f.offset, "body fails its checksum")
	}
	return nil
}

// read fills b from an offset.
func (r *RunReader) read(b []byte, offset int64) error {
	n, err := r.file.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return r.corrupt(offset, fmt.Sprintf("file ends after %d of %d bytes", n, len(b)))
	}
	return fmt.Errorf("read %d bytes at offset %d of %s: %w", len(b), offset, r.path, err)
}

func (r *RunReader) corrupt(offset int64, reason string) error {
	return &CorruptionError{Path: r.path, Offset: offset, Reason: reason}
}

// Close closes the file.
func (r *RunReader) Close() error { return r.file.Close() }
