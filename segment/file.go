package segment

import (
	"fmt"
	"io"
)

// segmentFile is one segment that is open for writing: the tail, a sealed one that is not synced yet, or a prepared
// one. Its owner's lock guards it.
//
//	prepared -> tail       first frame, the link, written
//	tail     -> sealed     trailer written
//	sealed   -> closed     synced, or the log is closed
type segmentFile struct {
	file    File
	path    string
	version Version
	number  uint64
	id      uint64
	size    int64    // bytes reserved in the file
	base    Position // position of byte 0 of the file; set when the segment becomes the tail
	extent
	sealed   bool
	followed bool // the file says that the next segment has its name, or a write of that has failed
}

// extent is how far a segment has been written. It moves as a whole, and only when a write
// succeeded.
type extent struct {
	end    int64  // bytes from the start of the file to behind the last frame
	frames uint64 // number of them
	chain  uint64 // chain checksum of them
}

// room is the number of bytes left for frames, apart from what a trailer and the mark behind it need.
func (s *segmentFile) room() int64 { return s.size - s.end - frameSize(trailerSize) - frameSize(0) }

func (s *segmentFile) position() Position { return s.base + Position(s.end) }

// write makes buf, header room and payload, the next frame of s. It puts the frame behind the last
// one, with an end mark, in one call of WriteAt. When that fails s is as it was, and the next write
// goes to the same offset (S2). It returns buf, which may have grown.
func (s *segmentFile) write(kind Kind, buf []byte, watermark Position) ([]byte, error) {
	sum := putFrameHeader(buf, kind, s.id, watermark, s.position())
	size := frameSize(int64(len(buf) - FrameHeaderSize))
	for int64(len(buf)) < size+endMarkSize {
		buf = append(buf, 0)
	}
	if err := s.writeAt(buf, s.end); err != nil {
		return buf, err
	}
	s.extent = extent{s.end + size, s.frames + 1, foldChecksum(s.chain, sum)}
	return buf, nil
}

func (s *segmentFile) writeAt(b []byte, off int64) error {
	n, err := s.file.WriteAt(b, off)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write %d bytes at offset %d of %s: %w", len(b), off, s.path, Cause(err))
	}
	return nil
}

// failed words an error of the file: its name is another one than when it was made.
func (s *segmentFile) failed(act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", act, s.path, Cause(err))
}

func (s *segmentFile) datasync() error { return s.failed("sync", s.file.Datasync()) }

func (s *segmentFile) writePayload(kind Kind, payload []byte, watermark Position) error {
	_, err := s.write(kind, append(make([]byte, FrameHeaderSize), payload...), watermark)
	return err
}

// writeHeader gives s the first bytes of a segment.
func (s *segmentFile) writeHeader() error {
	h := segmentHeader{version: s.version, number: s.number, id: s.id, size: s.size}
	if err := s.writeAt(appendSegmentHeader(nil, h), 0); err != nil {
		return err
	}
	s.extent = extent{end: segmentHeaderSize}
	return nil
}

// seal writes the trailer, and behind it that the next segment has its name, if it is followed by one (S9). It does
// nothing if s is sealed.
func (s *segmentFile) seal(watermark Position, followed bool) error {
	if s.sealed {
		return nil
	}
	t := trailer{frames: s.frames, chain: s.chain}
	buf := appendTrailer(make([]byte, FrameHeaderSize), t)
	sum := putFrameHeader(buf, KindTrailer, s.id, watermark, s.position())
	n := int64(len(buf))
	if followed {
		s.followed = true
		buf = append(buf, make([]byte, FrameHeaderSize)...)
		putFrameHeader(buf[n:], KindMark, s.id, watermark, s.position()+Position(n))
	} else {
		buf = append(buf, make([]byte, endMarkSize)...)
	}
	if err := s.writeAt(buf, s.end); err != nil {
		return err
	}
	s.extent, s.sealed = extent{s.end + n, s.frames + 1, foldChecksum(s.chain, sum)}, true
	return nil
}

// noteFollowed writes behind the trailer of s, which is durable, that the next segment has its name.
func (s *segmentFile) noteFollowed() error {
	b := make([]byte, FrameHeaderSize)
	putFrameHeader(b, KindMark, s.id, s.position(), s.position())
	if err := s.writeAt(b, s.end); err != nil {
		return err
	}
	return s.datasync()
}

// finish seals s, whose frames are durable, for good. The trailer vouches for all of them, and once it is durable too,
// the room that s does not need is given back (S8).
func (s *segmentFile) finish() error {
	if err := s.seal(s.position(), false); err != nil {
		return err
	}
	if err := s.datasync(); err != nil {
		return err
	}
	if err := s.file.Truncate(s.end); err != nil {
		return s.failed("truncate", err)
	}
	s.size = s.end
	return nil
}

// follow makes s, which has no frame, the successor of prev by writing its link.
func (s *segmentFile) follow(prev link, watermark Position) error {
	s.base = prev.end
	return s.writePayload(KindLink, appendLink(nil, prev), watermark)
}

// rewrite writes the bytes of s from off on over with themselves. If an earlier process had a sync fail, they may be
// nowhere but in the page cache and counted as written there. Only what is written again is sure to be covered by the
// next sync.
func (s *segmentFile) rewrite(off int64) error {
	buf := make([]byte, min(scanSize, s.end-off))
	for off < s.end {
		b := buf[:min(int64(len(buf)), s.end-off)]
		if n, err := s.file.ReadAt(b, off); n < len(b) {
			return fmt.Errorf("read %d bytes at offset %d of %s: %w", len(b), off, s.path, Cause(err))
		}
		if err := s.writeAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// link is what the successor of s, which is sealed, says about it.
func (s *segmentFile) link() link { return link{s.number, s.id, s.position(), s.chain} }

func (s *segmentFile) describe() Segment {
	return Segment{Number: s.number, Base: s.base, End: s.position(), Size: s.size, path: s.path}
}
