package segment

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// RunReader reads frames of a run by their place. It is for one goroutine; several may read one
// run, also while it is written.
type RunReader struct {
	file File
	path string
	id   RunID
	mode IO // the run was written with
	// extended says that older releases must not read the run.
	extended bool
	keyed    bool // frames of their own have the keys of all items that have one
	head     [RunFrameOverhead]byte
	buf      []byte // stored body of a compressed frame

	ahead *ReadAhead // nil to read what is asked for, no more
	size  int        // bytes that were read ahead last
	next  int64      // offset behind them

	unmapped bool // maps of the file cannot be had, or are not trusted
	viaMap   bool // some of what was read last came from a map
}

// RunFrame is the header of a frame.
type RunFrame struct {
	Tag    Tag
	Offset int64 // of the frame, in bytes from the start of the file
	Next   int64 // offset behind it
	Size   int   // bytes of body
	f      runFrame
	end    int64 // up to which the run is known to be written
}

// OpenRun opens a run for reading. One that was written past the page cache is read past it too, by
// way of ahead, unless that is nil. The others are not: to read what the cache has and the disk
// has not, the kernel would first write it.
//
// It returns a *CorruptionError if the file is not that run, and ErrUnknownVersion, wrapped, if another version has
// written it. If there is no file, the error satisfies errors.Is(err, fs.ErrNotExist).
func OpenRun(fsys FS, name string, id RunID, ahead *ReadAhead) (*RunReader, error) {
	if ahead == nil {
		return openRun(fsys, name, id, nil)
	}
	r, err := openRun(Uncached(fsys), name, id, ahead)
	if err != nil || r.mode == Direct {
		return r, err
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	return openRun(fsys, name, id, nil)
}

func openRun(fsys FS, name string, id RunID, ahead *ReadAhead) (*RunReader, error) {
	f, err := fsys.OpenReadOnly(name)
	if err != nil {
		return nil, fmt.Errorf("open backlog file: %w", err)
	}
	r := &RunReader{file: f, path: name, id: id, ahead: ahead}
	if err := r.check(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// check reads the header of the file.
func (r *RunReader) check() error {
	if err := r.read(r.head[:], 0, RunStart); err != nil {
		return err
	}
	id, mode, reason := parseRunHeader(r.head[:])
	r.mode, r.extended, r.keyed = mode, isExtended(r.head[:]), isKeyed(r.head[:])
	if reason == "" && id != r.id {
		reason = fmt.Sprintf("file holds run %d with id %016x, want run %d with id %016x",
			id.Number, id.ID, r.id.Number, r.id.ID)
	}
	if reason != "" {
		return r.badHeader(reason)
	}
	return nil
}

// badHeader is the error of a header that is not that of the run, or of none.
func (r *RunReader) badHeader(reason string) error {
	if reason == unknownVersion {
		return fmt.Errorf("%s: %w", r.path, ErrUnknownVersion)
	}
	return r.corrupt(0, reason)
}

// IsExtended reports whether the writer said so; see [RunWriter.Extend].
func (r *RunReader) IsExtended() bool { return r.extended }

// IsKeyed reports whether the writer said that the keys of items are in frames of their own.
func (r *RunReader) IsKeyed() bool { return r.keyed }

// Covers returns a *CorruptionError unless the file reaches up to end.
func (r *RunReader) Covers(end int64) error {
	size, err := r.file.Size()
	if err == nil && size < end {
		err = r.corrupt(size, fmt.Sprintf("file ends before offset %d, up to which it was synced", end))
	}
	return err
}

// Frame reads the header of the frame at an offset below end, up to which the run is known to be
// written. It returns a *CorruptionError if there is none.
func (r *RunReader) Frame(offset, end int64) (RunFrame, error) {
	if err := r.read(r.head[:], offset, end); err != nil {
		return RunFrame{}, err
	}
	f, ok := parseRunFrame(r.head[:], offset, r.id.ID, r.mode == Direct)
	if !ok && r.distrust() {
		return r.Frame(offset, end)
	}
	if !ok {
		return RunFrame{}, r.corrupt(offset, "not a frame header of this run")
	}
	return RunFrame{Tag: f.tag, Offset: offset, Next: f.next(), Size: f.raw, f: f, end: end}, nil
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
		if err := r.body(dst[start:], at, frame); err != nil {
			return dst[:start], err
		}
		return dst, nil
	}
	r.buf = slices.Grow(r.buf[:0], f.stored)[:f.stored]
	if err := r.body(r.buf, at, frame); err != nil {
		return dst, err
	}
	dst, err := c.decode(dst, r.buf, f.codec, f.raw)
	if err != nil {
		return dst, r.corrupt(f.offset, err.Error())
	}
	return dst, nil
}

func (r *RunReader) body(b []byte, at int64, frame RunFrame) error {
	if err := r.read(b, at, frame.end); err != nil {
		return err
	}
	switch {
	case frame.f.sum == runBodySum(b):
		return nil
	case r.distrust():
		return r.body(b, at, frame)
	}
	return r.corrupt(frame.Offset, "body fails its checksum")
}

// read fills b from an offset; up to end the bytes do not change any more.
func (r *RunReader) read(b []byte, offset, end int64) (err error) {
	var n int
	r.viaMap = false
	if r.ahead == nil {
		n, err = r.file.ReadAt(b, offset)
	} else {
		n, err = r.ahead.readAt(r, b, offset, end)
	}
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return r.corrupt(offset, fmt.Sprintf("file ends after %d of %d bytes", n, len(b)))
	}
	return fmt.Errorf("read %d bytes at offset %d of %s: %w", len(b), offset, r.path, Cause(err))
}

// follows reports whether an offset lies in what was read last, or just behind it: the padding of a
// frame is not read.
func (r *RunReader) follows(offset int64) bool {
	return r.next-int64(r.size) <= offset && offset < r.next+blockSize
}

// distrust has the file be read without maps from now on. It reports whether what was read last came from one, and so
// has to be read again before it counts as damaged.
func (r *RunReader) distrust() bool {
	if !r.viaMap {
		return false
	}
	r.viaMap = false
	r.ahead.maps.distrust(r)
	return true
}

func (r *RunReader) corrupt(offset int64, reason string) error {
	return &CorruptionError{Path: r.path, Offset: offset, Reason: reason}
}

// Close closes the file.
func (r *RunReader) Close() error {
	if r.ahead != nil {
		r.ahead.forget(r)
	}
	return r.file.Close()
}
