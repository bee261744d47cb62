package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// A Gap is a place in a log, or in a run, whose bytes are not what was written there.
type Gap struct {
	Path   string
	Offset int64 // of the first byte that belongs to no frame
	Size   int64 // bytes up to the next frame, or to the end of what is there
	Reason string
	// Batches says that the gap may have held what a caller wrote. Otherwise it held a frame of the
	// log's own, or nothing.
	Batches bool
	Run     bool // it is in a run
}

// ErrUnknownVersion is wrapped by the errors of everything that reads a log or a run, for what a newer
// release has written. It is not damaged.
var ErrUnknownVersion = errors.New("unknown format version: a newer release of kestrel has written it")

// Salvage reads a log that may be damaged, without changing it. It calls visit, in order, for every whole frame that
// carries the caller's bytes, whatever is missing before it. It calls gap for what lies between them and is not whole.
// A disk that cannot be read is an error, not a gap: it may be read another time. It also returns the errors of visit
// and ErrUnknownVersion.
func Salvage(fsys FS, dir string, visit Visitor, gap func(Gap)) error {
	names, err := listLog(fsys, dir)
	var missing *CorruptionError
	if err != nil && !errors.As(err, &missing) { // the list is whole all the same
		return err
	}
	v := &salvage{fs: fsys, dir: dir, visit: visit, gap: gap}
	last := uint64(0)
	for i, number := range names.segments {
		if i > 0 && number != names.segments[i-1]+1 {
			v.gap(Gap{
				Path:   path.Join(dir, fileName(names.segments[i-1]+1, segmentExt)),
				Reason: fmt.Sprintf("missing, up to segment %d", number), Batches: true,
			})
		}
		if err := v.segment(number, names.segments[i+1:]); err != nil {
			return err
		}
		last = number
	}
	if v.followed {
		m := isMissing(v.name(last+1), last)
		v.gap(Gap{Path: m.Path, Reason: m.Reason, Batches: true})
	}
	return nil
}

// salvage is the state of reading a damaged log.
type salvage struct {
	fs    FS
	dir   string
	visit Visitor
	gap   func(Gap)
	buf   []byte
	// followed says that behind the segment read last there was another one.
	followed bool
}

func (v *salvage) name(number uint64) string { return path.Join(v.dir, fileName(number, segmentExt)) }

// segment reads the frames of a segment; later are the numbers of those behind it.
func (v *salvage) segment(number uint64, later []uint64) error {
	v.followed = false
	f, err := v.fs.OpenReadOnly(v.name(number))
	if err != nil {
		return err
	}
	defer f.Close()
	r := &segmentReader{file: f, path: v.name(number), buf: v.buf[:0]}
	defer func() { v.buf = r.buf }()
	follows, err := v.followedBy(later)
	if err != nil {
		return err
	}
	if err := v.header(r, number, follows); err != nil || r.id == 0 {
		return err
	}
	return v.frames(r, follows)
}

// follower is what the segments behind one say of it.
type follower struct {
	link   link // of the next; zero if there is none, or it is not whole
	frames bool // any of them has frames
}

func (v *salvage) followedBy(later []uint64) (f follower, err error) {
	for i, number := range later {
		r, err := openReader(v.fs, v.name(number), number, nil)
		if errors.Is(err, ErrCorrupt) {
			f.frames = true // a header that is damaged: there may be
			continue
		}
		if err != nil {
			return f, err
		}
		first, _, err := r.frame(segmentHeaderSize)
		if err == nil && first.Kind == KindLink && i == 0 {
			f.link = parseLink(first.Payload)
		}
		if err == nil {
			var at int64
			at, err = r.nextHeader(segmentHeaderSize)
			f.frames = f.frames || at >= 0
		}
		r.file.Close()
		if err != nil || f.frames {
			return f, err
		}
	}
	return f, nil
}

// header reads the header of a segment. If it is damaged, the id in it may still be right, and the next segment records
// it too. The id stays zero if no frame can be found with either.
func (v *salvage) header(r *segmentReader, number uint64, follows follower) error {
	err := r.readHeader(number)
	var damage *CorruptionError
	if err == nil || !errors.As(err, &damage) {
		return err
	}
	r.segmentHeader = segmentHeader{number: number}
	g := Gap{Path: r.path, Size: min(r.size, segmentHeaderSize), Reason: damage.Reason}
	if r.id, err = r.findID(follows.link); r.id == 0 {
		g.Size, g.Batches = r.size, true
	}
	v.gap(g)
	return err
}

// findID returns the id with which frames of a segment without a whole header can be read. It is the id in the
// header, or the one that the next segment records. It returns zero if neither reads a frame.
func (r *segmentReader) findID(next link) (uint64, error) {
	if r.size < segmentHeaderSize+FrameHeaderSize {
		return 0, nil
	}
	head, err := r.at(0, segmentHeaderSize)
	if err != nil {
		return 0, err
	}
	for _, id := range [...]uint64{binary.LittleEndian.Uint64(head[segmentIDOffset:]), next.id} {
		r.id = id
		if at, err := r.nextHeader(segmentHeaderSize); id != 0 && at >= 0 || err != nil {
			return id, err
		}
	}
	return 0, nil
}

// frames reads what frames there are in a segment, up to its trailer.
func (v *salvage) frames(r *segmentReader, follows follower) error {
	for off := int64(segmentHeaderSize); ; {
		f, reason, err := r.frame(off)
		if err != nil {
			return err
		}
		if f.Kind != 0 {
			if f.Kind == KindBatch && v.visit != nil {
				if err := v.visit(f); err != nil {
					return err
				}
			}
			off += frameSize(int64(len(f.Payload)))
			if f.Kind == KindTrailer {
				v.followed, err = r.isFollowed(off, f.Next())
				return err
			}
			continue
		}
		next, batches, err := r.skipDamage(off)
		if err != nil {
			return err
		}
		if next < 0 {
			return v.end(r, off, reason, follows)
		}
		if reason == "" {
			reason = "frame is missing"
		}
		v.gap(Gap{Path: r.path, Offset: off, Size: next - off, Reason: reason, Batches: batches})
		off = next
	}
}

// skipDamage returns the offset of the next frame header behind a place off that has no whole
// frame, or -1 if there is none. It also returns whether a batch may have lain between.
func (r *segmentReader) skipDamage(off int64) (next int64, batches bool, err error) {
	if r.size-off >= FrameHeaderSize {
		head, err := r.at(off, FrameHeaderSize)
		if err != nil {
			return -1, false, err
		}
		// Its length may be trusted, though its payload may not.
		if h, ok := parseFrameHeader(head, r.id); ok && h.size() <= r.size-off {
			return off + h.size(), h.kind == KindBatch, nil
		}
	}
	next, err = r.nextHeader(off + frameAlign)
	own := next-off < FrameHeaderSize+frameAlign || // too short for a batch
		off == segmentHeaderSize && next-off == frameSize(linkSize)
	return next, !own, err
}

// nextHeader returns the offset of the first frame header from off on, or -1 if there is none.
func (r *segmentReader) nextHeader(off int64) (int64, error) {
	off = (off + frameAlign - 1) &^ (frameAlign - 1)
	for {
		var err error
		if off, err = r.skipHole(off); err != nil || r.size-off < FrameHeaderSize {
			return -1, err
		}
		block, err := r.at(off, int(min(r.size-off, scanSize)))
		if err != nil {
			return -1, err
		}
		for len(block) >= FrameHeaderSize { // as in search
			if zeros := leadingZeros(block) &^ (frameAlign - 1); zeros > 0 {
				block, off = block[zeros:], off+int64(zeros)
				continue
			}
			if _, ok := parseFrameHeader(block, r.id); ok {
				return off, nil
			}
			block, off = block[frameAlign:], off+frameAlign
		}
	}
}

// end reports, for a segment without a trailer in which no frame comes behind off, what is missing
// there.
func (v *salvage) end(r *segmentReader, off int64, reason string, follows follower) error {
	short := r.short()
	if reason == "" && !short && !follows.frames {
		return nil // the log ends here
	}
	end, err := r.lastNonZero(min(off, r.size))
	if err != nil {
		return err
	}
	if reason == "" {
		reason = "trailer is missing"
	}
	if short {
		reason += fmt.Sprintf(", and of %d bytes the file has only %d", r.segmentHeader.size, r.size)
	}
	g := Gap{Path: r.path, Offset: off, Size: max(end-off, 0), Reason: reason, Batches: true}
	if l := follows.link; l.number == r.number {
		// The next segment says where this one ended: nothing but the trailer may be missing.
		first, _, err := r.frame(segmentHeaderSize)
		if err != nil {
			return err
		}
		base := first.Position - segmentHeaderSize
		g.Batches = first.Kind != KindLink || int64(l.end-base) != off+frameSize(trailerSize)
	}
	v.gap(g)
	return nil
}

// SalvageRun reads the frames of a run that may be damaged, up to the offset end, without changing
// it. It calls visit for every whole frame with its body, which is valid during the call. It
// returns what lies between them and is not whole; where a frame's header can be read, Tag is its
// tag. A run that does not exist is one gap. A disk that cannot be read is an error.
func SalvageRun(
	fsys FS, name string, id RunID, end int64, c *Coder, visit func(RunFrame, []byte) error,
) (gaps []RunGap, err error) {
	r, size, gaps, err := openDamagedRun(fsys, name, id, end)
	if err != nil || r == nil {
		return gaps, err
	}
	defer r.Close()
	var body []byte
	for off := int64(RunStart); off < min(size, end); {
		frame, err := r.Frame(off, end)
		if err == nil {
			body, err = r.Body(c, body[:0], frame)
		}
		var damage *CorruptionError
		switch {
		case err == nil:
			if err := visit(frame, body); err != nil {
				return gaps, err
			}
			off = frame.Next
			continue
		case !errors.As(err, &damage):
			return gaps, err
		}
		gap := RunGap{Gap: Gap{
			Path: name, Offset: off, Reason: damage.Reason, Batches: true, Run: true,
		}}
		if frame.Next > 0 {
			gap.Tag, off = &frame.Tag, min(frame.Next, size)
		} else if off, err = r.nextFrame(off+frameAlign, min(size, end)); err != nil {
			return gaps, err
		}
		gap.Size = min(off, end) - gap.Offset
		gaps = append(gaps, gap)
	}
	if size < end {
		gaps = append(gaps, RunGap{Gap: Gap{
			Path: name, Offset: max(size, RunStart), Batches: true, Run: true,
			Reason: fmt.Sprintf("file ends before offset %d, up to which it was synced", end),
		}})
	}
	return gaps, nil
}

// IdentifyRun returns what the header of a run says it is, and the size of the file in bytes. It
// returns a *CorruptionError if there is no header.
func IdentifyRun(fsys FS, name string) (id RunID, size int64, err error) {
	f, err := fsys.OpenReadOnly(name)
	if err != nil {
		return id, 0, err
	}
	r := &RunReader{file: f, path: name}
	defer r.Close()
	if err := r.read(r.head[:], 0, RunStart); err != nil {
		return id, 0, err
	}
	id, _, reason := parseRunHeader(r.head[:])
	if reason != "" {
		return id, 0, r.badHeader(reason)
	}
	size, err = f.Size()
	return id, size, err
}

// A RunGap is a gap in a run.
type RunGap struct {
	Gap
	Tag *Tag // of the one frame that it was; nil if its header is damaged too
}

// openDamagedRun opens a run whose header may be damaged. There is no reader if there is no file.
func openDamagedRun(
	fsys FS, name string, id RunID, end int64,
) (r *RunReader, size int64, gaps []RunGap, err error) {
	missing := func(reason string, size int64, batches bool) []RunGap {
		return []RunGap{{Gap: Gap{
			Path: name, Size: size, Reason: reason, Batches: batches, Run: true,
		}}}
	}
	f, err := fsys.OpenReadOnly(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, missing("file is missing", end, true), nil
	}
	if err != nil {
		return nil, 0, nil, err
	}
	r = &RunReader{file: f, path: name, id: id}
	if size, err = f.Size(); err != nil {
		return nil, 0, nil, errors.Join(err, f.Close())
	}
	var damage *CorruptionError
	switch err := r.check(); {
	case err == nil:
	case !errors.As(err, &damage):
		return nil, 0, nil, errors.Join(err, f.Close())
	default:
		gaps = missing(damage.Reason, min(size, RunStart), false)
	}
	return r, size, gaps, nil
}

// nextFrame returns the offset of the first frame header from off on, or end if there is none.
func (r *RunReader) nextFrame(off, end int64) (int64, error) {
	block := make([]byte, scanSize)
	for off = (off + frameAlign - 1) &^ (frameAlign - 1); off+RunFrameOverhead <= end; {
		b := block[:min(int64(len(block)), end-off)]
		if err := r.read(b, off, end); err != nil {
			return end, err
		}
		for len(b) >= RunFrameOverhead {
			if int64(binary.LittleEndian.Uint64(b[16:])) == off { // what nearly nothing else has
				if _, ok := parseRunFrame(b, off, r.id.ID, r.mode == Direct); ok {
					return off, nil
				}
			}
			b, off = b[frameAlign:], off+frameAlign
		}
	}
	return end, nil
}
