package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// Visitor is called for every frame that carries the caller's bytes, in order. An error stops the
// scan and is returned as it is. A nil Visitor is not called.
type Visitor func(Frame) error

// A Tear is where a log ends in something other than a clean end, although nothing shows that what
// is missing was ever durable.
type Tear struct {
	Path   string
	Offset int64 // of the first byte that belongs to no frame
	Reason string
}

// scanned is what a scan learned of one segment.
type scanned struct {
	Segment
	id     uint64
	prev   link // as the segment's own link says; zero without one
	extent      // up to and including the last valid frame
	sealed bool // by a valid trailer
	// followed says that the next segment had its name, as a mark behind the trailer says; without a trailer, behind the
	// place where it belongs.
	followed bool
	behind   traces // what there is of frames behind the extent, if the log ends in it or before it
}

// sealedAt is the offset behind the trailer that the segment has, or would have.
func (s *scanned) sealedAt() int64 {
	if s.sealed {
		return s.end
	}
	return s.end + frameSize(trailerSize)
}

// scan is the state of reading a log from front to back. It changes nothing on disk.
type scan struct {
	fs    FS
	dir   string
	visit Visitor

	segments  []scanned // up to the one in which the log ends
	beyond    []scanned // segments behind that end
	tear      *Tear
	watermark Position // the highest that a frame carries
	frames    uint64   // visited
	bytes     int64    // of segments read
	buf       []byte
}

// Scan reads a log without changing it. It calls visit for every frame that carries the caller's bytes. It returns
// the segments in order, and where the log is torn, if it is. Damage is a *CorruptionError. The log may be in use;
// Scan then sees some state of it, and the end may look torn.
func Scan(fsys FS, dir string, visit Visitor) ([]Segment, *Tear, error) {
	s := &scan{fs: fsys, dir: dir, visit: visit}
	names, err := listLog(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	if err := s.all(names.segments); err != nil {
		return nil, nil, err
	}
	var found []Segment
	for _, seg := range s.segments {
		found = append(found, seg.Segment)
	}
	return found, s.tear, nil
}

// listing is what a log's directory holds.
type listing struct {
	segments []uint64 // numbers, ascending and without a gap
	spares   []uint64 // ascending
	unmade   []uint64 // segments whose making was cut short
}

func listLog(fsys FS, dir string) (l listing, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return l, err
	}
	for _, name := range names {
		number, ext, ok := parseFileName(name)
		if !ok {
			continue
		}
		switch ext {
		case segmentExt:
			l.segments = append(l.segments, number)
		case spareExt:
			l.spares = append(l.spares, number)
		case newExt:
			l.unmade = append(l.unmade, number)
		}
	}
	slices.Sort(l.segments)
	slices.Sort(l.spares)
	for i := 1; i < len(l.segments); i++ {
		if missing := l.segments[i-1] + 1; l.segments[i] != missing {
			return l, &CorruptionError{
				Path:   path.Join(dir, fileName(missing, segmentExt)),
				Reason: fmt.Sprintf("segment is missing; segment %d follows", l.segments[i]),
			}
		}
	}
	return l, nil
}

func (s *scan) all(numbers []uint64) error {
	for _, number := range numbers {
		if err := s.segment(number); err != nil {
			return err
		}
	}
	for n := len(s.segments); n > 0 && !s.ended() && s.segments[n-1].followed; n = len(s.segments) {
		last := s.segments[n-1].Number
		err := s.segment(last + 1) // in a log in use it may have come since
		if errors.Is(err, fs.ErrNotExist) {
			return isMissing(path.Join(s.dir, fileName(last+1, segmentExt)), last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// segment reads the segment of a number.
func (s *scan) segment(number uint64) error {
	r, err := openReader(s.fs, path.Join(s.dir, fileName(number, segmentExt)), number, s.buf)
	if err != nil {
		return err
	}
	if s.ended() {
		err = s.readBeyond(r)
	} else {
		err = s.read(r)
	}
	s.buf = r.buf
	r.file.Close()
	return err
}

// ended reports whether the last segment read is one that the log cannot go on behind.
func (s *scan) ended() bool {
	n := len(s.segments)
	return n > 0 && !s.segments[n-1].sealed
}

// read reads the next segment of the log.
func (s *scan) read(r *segmentReader) error {
	seg := scanned{id: r.id, extent: extent{end: segmentHeaderSize}}
	seg.Segment = Segment{Number: r.number, Size: r.size, path: r.path}
	if n := len(s.segments); n > 0 {
		seg.Base = s.segments[n-1].End
	}
	reason := ""
	for !seg.sealed {
		f, why, err := r.frame(seg.end)
		if err != nil {
			return err
		}
		if f.Kind == 0 {
			reason = why
			break
		}
		if err := s.accept(&seg, f); err != nil {
			return err
		}
	}
	seg.End = seg.Base + Position(seg.end)
	var err error
	if !seg.sealed {
		if err := s.end(r, &seg, reason); err != nil {
			return err
		}
	}
	if seg.followed, err = r.isFollowed(seg.sealedAt(), seg.Base+Position(seg.sealedAt())); err != nil {
		return err
	}
	s.segments = append(s.segments, seg)
	s.bytes += seg.end
	return nil
}

// accept takes f as the next frame of seg.
func (s *scan) accept(seg *scanned, f Frame) error {
	damage := func(reason string) error {
		return &CorruptionError{Path: f.Path, Offset: f.Offset, Reason: reason}
	}
	if (f.Kind == KindLink) != (seg.frames == 0) {
		return damage("link frame out of place")
	}
	switch f.Kind {
	case KindLink:
		l := parseLink(f.Payload)
		follows := l.number == seg.Number-1
		if n := len(s.segments); n > 0 {
			prev := s.segments[n-1]
			follows = l == link{prev.Number, prev.id, prev.End, prev.chain}
		}
		if !follows {
			return damage("segment does not follow the one before it")
		}
		seg.Base, seg.prev = l.end, l
	case KindTrailer:
		if parseTrailer(f.Payload) != (trailer{seg.frames, seg.chain}) {
			return damage("trailer does not match the frames before it")
		}
		seg.sealed = true
	}
	if f.Position != seg.Base+Position(f.Offset) {
		return damage("frame carries the position of another place")
	}
	s.watermark = max(s.watermark, f.Watermark)
	if f.Kind == KindBatch {
		s.frames++
		if s.visit != nil {
			if err := s.visit(f); err != nil {
				return err
			}
		}
	}
	seg.extent = extent{
		end:    f.Offset + frameSize(int64(len(f.Payload))),
		frames: seg.frames + 1,
		chain:  foldChecksum(seg.chain, f.checksum),
	}
	return nil
}

// end is called for the segment in which the frames stop, for that reason. It distinguishes
// damage, a tear and a clean end, as far as this segment shows.
func (s *scan) end(r *segmentReader, seg *scanned, reason string) (err error) {
	if seg.frames == 0 && len(s.segments) == 0 && seg.Number > 1 {
		// DropBefore leaves no segment at the front whose link is not durable.
		return &CorruptionError{Path: seg.path, Offset: seg.end, Reason: "first segment has no link"}
	}
	if seg.behind, err = r.search(seg.end, seg.End); err != nil {
		return err
	}
	if reason == "" && seg.behind.frames > 0 {
		reason = "frame is missing"
	}
	if seg.behind.proven {
		return &CorruptionError{Path: seg.path, Offset: seg.end, Reason: reason + seg.behind.why(r)}
	}
	if r.short() {
		if reason == "" {
			reason = "trailer is missing"
		}
		return r.shortFile(seg.end, reason)
	}
	if reason != "" {
		s.tear = &Tear{Path: seg.path, Offset: seg.end, Reason: reason}
	}
	return nil
}

// why says what proves that something missing in front of it had been synced.
func (t traces) why(r *segmentReader) string {
	return fmt.Sprintf(", though the frame at offset %d of %s proves that it was synced",
		t.proof, path.Base(r.path))
}

// short reports whether the file is not as long as it was made. It is cut only behind a trailer
// that is durable, so one that has no trailer is damaged (S8).
func (r *segmentReader) short() bool { return r.size < r.segmentHeader.size }

func (r *segmentReader) shortFile(off int64, reason string) error {
	return &CorruptionError{
		Path: r.path, Offset: off,
		Reason: fmt.Sprintf("%s, and of %d bytes the file has only %d",
			reason, r.segmentHeader.size, r.size),
	}
}

// readBeyond reads a segment behind the end of the log. It may be prepared, or have been written but never synced. If
// a frame in it vouches for what is missing before it, that is damage.
func (s *scan) readBeyond(r *segmentReader) (err error) {
	last := s.segments[len(s.segments)-1]
	seg := scanned{id: r.id, extent: extent{end: segmentHeaderSize}}
	seg.Segment = Segment{Number: r.number, Size: r.size, path: r.path}
	if seg.behind, err = r.search(segmentHeaderSize, last.End); err != nil {
		return err
	}
	const reason = "not sealed, but another segment follows"
	if seg.behind.proven {
		why := reason
		if s.tear != nil {
			why = s.tear.Reason
		}
		return &CorruptionError{Path: last.path, Offset: last.end, Reason: why + seg.behind.why(r)}
	}
	if r.short() {
		return r.shortFile(r.size, "segment is not part of the log")
	}
	if s.tear == nil && seg.behind.frames > 0 {
		s.tear = &Tear{Path: last.path, Offset: last.end, Reason: reason}
	}
	s.beyond = append(s.beyond, seg)
	return nil
}
