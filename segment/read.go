package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// This file reads the frames of one segment, and looks for traces of frames behind the last one.

// scanSize is how many bytes a scan asks the disk for at a time, unless a frame is longer.
const scanSize = 1 << 20

// Frame is one frame as a scan finds it.
type Frame struct {
	Kind      Kind
	Payload   []byte // valid until the visitor returns
	Segment   uint64
	Path      string
	Offset    int64 // bytes from the start of the file
	Position  Position
	Watermark Position
	checksum  uint64 // of the header
}

// Next is the position behind the frame.
func (f Frame) Next() Position {
	return f.Position + Position(frameSize(int64(len(f.Payload))))
}

// segmentReader reads one segment through a buffer. It is for one goroutine.
type segmentReader struct {
	file File
	path string
	size int64 // of the file
	segmentHeader
	buf   []byte // file bytes from bufAt on
	bufAt int64
}

// openReader opens a segment for reading and checks its header against number.
func openReader(fsys FS, path string, number uint64, buf []byte) (*segmentReader, error) {
	f, err := fsys.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	r := &segmentReader{file: f, path: path, buf: buf[:0]}
	if err := r.readHeader(number); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

func (r *segmentReader) readHeader(number uint64) (err error) {
	if r.size, err = r.file.Size(); err != nil {
		return err
	}
	head, err := r.at(0, int(min(r.size, segmentHeaderSize)))
	if err != nil {
		return err
	}
	var reason string
	r.segmentHeader, reason = parseSegmentHeader(head)
	if reason == "" && r.number != number {
		reason = fmt.Sprintf("file holds segment %d", r.number)
	}
	switch reason {
	case "":
	case unknownVersion:
		return fmt.Errorf("%s: %w", r.path, ErrUnknownVersion)
	default:
		return &CorruptionError{Path: r.path, Offset: 0, Reason: reason}
	}
	return nil
}

// at returns n bytes of the file from off, which the file must have. They are valid until the next
// call.
func (r *segmentReader) at(off int64, n int) ([]byte, error) {
	if i := off - r.bufAt; i >= 0 && i+int64(n) <= int64(len(r.buf)) {
		return r.buf[i : i+int64(n)], nil
	}
	want := int(min(max(int64(n), scanSize), r.size-off))
	if cap(r.buf) < want {
		r.buf = make([]byte, want)
	}
	r.buf, r.bufAt = r.buf[:want], off
	if got, err := r.file.ReadAt(r.buf, off); got < want {
		r.buf = r.buf[:0]
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %d bytes at offset %d of %s: %w", want, off, r.path, Cause(err))
	}
	return r.buf[:n], nil
}

// frame reads the frame at off. reason says why there is none. It is "" for a frame, and for the clean end of a log,
// where the kind of the frame is zero.
func (r *segmentReader) frame(off int64) (f Frame, reason string, err error) {
	left := r.size - off
	if left == 0 {
		return f, "", nil
	}
	if left < endMarkSize {
		return f, "file ends inside a frame", nil
	}
	head, err := r.at(off, int(min(left, FrameHeaderSize)))
	if err != nil {
		return f, "", err
	}
	if binary.LittleEndian.Uint64(head) == 0 {
		return f, "", nil
	}
	if left < FrameHeaderSize {
		return f, "file ends inside a frame", nil
	}
	h, ok := parseFrameHeader(head, r.id)
	if !ok {
		return f, "not a frame header of this segment", nil
	}
	if h.size() > left {
		return f, "file ends inside a frame", nil
	}
	raw, err := r.at(off, FrameHeaderSize+int(h.length))
	if err != nil {
		return f, "", err
	}
	payload := raw[FrameHeaderSize:]
	if payloadChecksum(payload) != h.payloadSum {
		return f, "payload fails its checksum", nil
	}
	return Frame{
		Kind: h.kind, Payload: payload, Segment: r.number, Path: r.path, Offset: off,
		Position: h.position, Watermark: h.watermark, checksum: h.sum,
	}, "", nil
}

// isFollowed reports whether a mark stands at off, behind a trailer: the next segment had its name when it was written.
func (r *segmentReader) isFollowed(off int64, at Position) (bool, error) {
	if r.size-off < FrameHeaderSize {
		return false, nil
	}
	head, err := r.at(off, FrameHeaderSize)
	if err != nil {
		return false, err
	}
	h, ok := parseFrameHeader(head, r.id)
	return ok && h.kind == KindMark && h.position == at, nil
}

// isMissing is the damage of a segment that is not there, though the one before, number, is followed by it.
func isMissing(path string, number uint64) *CorruptionError {
	return &CorruptionError{Path: path, Reason: fmt.Sprintf("segment is missing, with all behind it: segment %d says that it was there", number)}
}

// traces is what can be found of frames behind the end of a log.
type traces struct {
	frames  int   // headers
	batches int   // those of batches
	end     int64 // behind the last of these frames, as far as the file goes
	proven  bool  // one says that what is missing had been synced,
	proof   int64 // the one at this offset
}

// search looks from off on for headers of frames, whatever became of their payloads. It stops at
// one whose watermark is above limit: that proves position limit, and what lies before it, to have
// been synced.
func (r *segmentReader) search(off int64, limit Position) (t traces, err error) {
	off = (off + frameAlign - 1) &^ (frameAlign - 1)
	t.end = off
	for {
		if off, err = r.skipHole(off); err != nil || r.size-off < FrameHeaderSize {
			return t, err
		}
		block, err := r.at(off, int(min(r.size-off, scanSize)))
		if err != nil {
			return t, err
		}
		for len(block) >= FrameHeaderSize { // the next block begins with what is too short for one
			if zeros := leadingZeros(block) &^ (frameAlign - 1); zeros > 0 { // not a header; see skipHole
				block, off = block[zeros:], off+int64(zeros)
				continue
			}
			if h, ok := parseFrameHeader(block, r.id); ok {
				t.frames++
				if h.kind == KindBatch {
					t.batches++
				}
				t.end = min(off+h.size(), r.size)
				if h.watermark > limit {
					t.proven, t.proof = true, off
					return t, nil
				}
			}
			block, off = block[frameAlign:], off+frameAlign
		}
	}
}

// skipHole returns the first offset from off on at which a frame may begin. Most of a segment that
// was never used before is a hole, and need not be read. A frame does not begin in one: the second
// four bytes of a header are not zero.
func (r *segmentReader) skipHole(off int64) (int64, error) {
	next, err := r.file.NextData(off)
	if err != nil {
		return off, fmt.Errorf("look for data behind offset %d of %s: %w", off, r.path, Cause(err))
	}
	return max(off, next&^(frameAlign-1)), nil
}

// leadingZeros is how many bytes b begins with that are zero.
func leadingZeros(b []byte) int {
	n := 0
	for len(b)-n >= 8 && binary.LittleEndian.Uint64(b[n:]) == 0 {
		n += 8
	}
	for n < len(b) && b[n] == 0 {
		n++
	}
	return n
}

// trailingZeros is how many bytes b ends with that are zero.
func trailingZeros(b []byte) int {
	n := len(b)
	for n >= 8 && binary.LittleEndian.Uint64(b[n-8:]) == 0 {
		n -= 8
	}
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return len(b) - n
}

// lastNonZero returns the offset behind the last byte from off on that is not zero, or off.
func (r *segmentReader) lastNonZero(off int64) (int64, error) {
	end := off
	for off < r.size {
		block, err := r.at(off, int(min(r.size-off, scanSize)))
		if err != nil {
			return end, err
		}
		if used := len(block) - trailingZeros(block); used > 0 {
			end = off + int64(used)
		}
		off += int64(len(block))
	}
	return end, nil
}
