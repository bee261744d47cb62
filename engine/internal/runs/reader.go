package runs

import (
	"errors"
	"io/fs"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/segment"
)

// File names a run: its path, and the identity that its header has.
type File struct {
	Path string
	ID   segment.RunID
}

// Reader reads runs. It keeps some of them open, and closes the one that was used longest ago. Its owner
// guards it, but for Open; it may wait for the disk.
type Reader struct {
	fs      segment.FS
	ahead   *segment.ReadAhead // nil: through the page cache
	most    int                // runs that are open at a time
	decoder segment.Coder
	files   []openFile // the one used longest ago first
	open    atomic.Int64
}

type openFile struct {
	File
	*segment.RunReader
}

// NewReader returns a Reader that has at most that many files open. It reads by way of ahead, or through the
// page cache if that is nil.
func NewReader(fsys segment.FS, ahead *segment.ReadAhead, most int) *Reader {
	return &Reader{fs: fsys, ahead: ahead, most: most}
}

// Open is how many files are open. Any goroutine may call it.
func (r *Reader) Open() int64 { return r.open.Load() }

// Amounts are how many bytes were read through maps, and past the page cache. Any goroutine may call it.
func (r *Reader) Amounts() (mapped, direct int64) {
	if r.ahead == nil {
		return 0, 0
	}
	return r.ahead.Read()
}

// reader returns an open file's.
func (r *Reader) reader(f File) (*segment.RunReader, error) {
	for i, o := range r.files {
		if o.File == f {
			r.files = append(append(r.files[:i], r.files[i+1:]...), o)
			return o.RunReader, nil
		}
	}
	if len(r.files) >= r.most {
		r.forget(0)
	}
	reader, err := segment.OpenRun(r.fs, f.Path, f.ID, r.ahead)
	if err != nil {
		return nil, err
	}
	r.files = append(r.files, openFile{f, reader})
	r.open.Add(1)
	return reader, nil
}

// forget closes a file.
func (r *Reader) forget(i int) {
	r.files[i].Close()
	r.files = append(r.files[:i], r.files[i+1:]...)
	r.open.Add(-1)
}

// Forget closes a run if it is open. A caller must do so before it removes the file.
func (r *Reader) Forget(f File) {
	for i, o := range r.files {
		if o.File == f {
			r.forget(i)
			return
		}
	}
}

// Close closes every file.
func (r *Reader) Close() {
	for len(r.files) > 0 {
		r.forget(len(r.files) - 1)
	}
	r.decoder.Close()
}

// Seek finds the first frame from an offset on, and before end, that holds item id or one behind it. It
// returns a frame of size zero if there is none.
func (r *Reader) Seek(f File, offset int64, id uint64, end int64) (frame segment.RunFrame, tag Tag, err error) {
	for offset < end { // of a run that was read to its end the file may be gone
		reader, err := r.reader(f)
		if err != nil {
			return frame, tag, err
		}
		if frame, err = reader.Frame(offset, end); err != nil {
			return frame, tag, err
		}
		if tag = ParseTag(frame.Tag); tag.LastID >= id && !keyindex.IsFrame(frame.Tag) {
			return frame, tag, nil
		}
		offset = frame.Next
	}
	return segment.RunFrame{}, tag, nil
}

// Body reads the images in a frame, appended to dst, checks them and counts them.
func (r *Reader) Body(f File, frame segment.RunFrame, tag Tag, dst []byte) (body []byte, n item.Tally, err error) {
	reader, err := r.reader(f)
	if err != nil {
		return nil, n, err
	}
	if body, err = reader.Body(&r.decoder, dst, frame); err != nil {
		return nil, n, err
	}
	if n, err = tag.Check(body); err != nil {
		return nil, n, &segment.CorruptionError{Path: f.Path, Offset: frame.Offset, Reason: err.Error()}
	}
	return body, n, nil
}

// each calls do for every frame of a run up to end, but for those of keys.
func (r *Reader) each(f File, end int64, do func(segment.RunFrame, Tag) error) error {
	reader, err := r.reader(f)
	if err == nil {
		err = reader.Covers(end)
	}
	for off := int64(segment.RunStart); err == nil && off < end; {
		var frame segment.RunFrame
		if frame, err = reader.Frame(off, end); err == nil && !keyindex.IsFrame(frame.Tag) {
			err = do(frame, ParseTag(frame.Tag))
		}
		off = frame.Next
	}
	return err
}

// Read appends to dst the body of the frame at an offset of a run, which is written up to end. It returns the frame's
// tag too. It is for frames of any kind.
func (r *Reader) Read(f File, offset, end int64, dst []byte) (tag segment.Tag, body []byte, err error) {
	reader, err := r.reader(f)
	if err != nil {
		return tag, nil, err
	}
	frame, err := reader.Frame(offset, end)
	if err != nil {
		return tag, nil, err
	}
	body, err = reader.Body(&r.decoder, dst, frame)
	return frame.Tag, body, err
}

// EachFrame calls do for the frames of a run up to end, of any kind, with their offsets, tags and bodies. A body is
// valid during the call. If the file is missing, that is a *segment.CorruptionError.
func (r *Reader) EachFrame(f File, end int64, do func(offset int64, tag segment.Tag, body []byte) error) error {
	var body []byte
	err := r.each(f, end, func(frame segment.RunFrame, _ Tag) error {
		reader, err := r.reader(f)
		if err == nil {
			body, err = reader.Body(&r.decoder, body[:0], frame)
		}
		if err != nil {
			return err
		}
		return do(frame.Offset, frame.Tag, body)
	})
	return damagedIfMissing(f, err)
}

// Covers returns a *segment.CorruptionError unless the run is there and reaches up to end.
func (r *Reader) Covers(f File, end int64) error {
	reader, err := r.reader(f)
	if err == nil {
		err = reader.Covers(end)
	}
	return damagedIfMissing(f, err)
}

// Survey counts the items of a run that live: those that the journal says are in it, but for what is gone. It returns
// the first id that may live. If nothing is gone it reads only the header of the run. Otherwise it also reads the
// headers of its frames, and the frames of which a part is gone. A run of which nothing lives need not exist. If a part
// of one lives and it is missing, that is a *segment.CorruptionError.
func (r *Reader) Survey(f File, state State, gone *idset.Bitmap) (live item.Tally, first uint64, err error) {
	switch cut := gone.Count(state.IDs()); cut {
	case 0:
		reader, err := r.reader(f)
		if err == nil {
			err = reader.Covers(state.End)
		}
		return item.Tally{Count: state.Count, Bytes: state.Bytes}, state.FirstID, damagedIfMissing(f, err)
	case state.LastID - state.FirstID + 1:
		return live, 0, nil
	}
	err = r.each(f, state.End, func(frame segment.RunFrame, tag Tag) error {
		cut := gone.Count(tag.IDs())
		if cut == tag.LastID-tag.FirstID+1 {
			return nil
		}
		if first == 0 {
			first = tag.FirstID
		}
		if cut == tag.LastID-tag.FirstID+1-uint64(tag.Count) { // that is what the frame leaves out
			live.Count, live.Bytes = live.Count+tag.Count, live.Bytes+tag.Bytes
			return nil
		}
		body, _, err := r.Body(f, frame, tag, nil)
		if err != nil {
			return err
		}
		item.EachImage(body, tag.FirstID, func(it item.Item) bool {
			if !gone.Has(it.ID) {
				live.Count++
				live.Bytes += int64(len(it.Data))
			}
			return true
		})
		return nil
	})
	return live, first, damagedIfMissing(f, err)
}

// damagedIfMissing makes a missing file damage.
func damagedIfMissing(f File, err error) error {
	if err != nil && IsDamage(err) {
		return &segment.CorruptionError{Path: f.Path, Reason: err.Error()}
	}
	return err
}

// IsDamage reports whether an error says that stored bytes are not what was written, or not there.
func IsDamage(err error) bool {
	return errors.Is(err, segment.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}

// LastAdded returns when the last item of a run was added, of which the part up to end is read.
func (r *Reader) LastAdded(f File, end int64) (added item.Time, err error) {
	var last segment.RunFrame
	err = r.each(f, end, func(frame segment.RunFrame, _ Tag) error {
		last = frame
		return nil
	})
	if err != nil {
		return 0, err
	}
	tag := ParseTag(last.Tag)
	body, _, err := r.Body(f, last, tag, nil)
	if err == nil {
		item.EachImage(body, tag.FirstID, func(it item.Item) bool {
			added = it.Added
			return true
		})
	}
	return added, err
}

// Added returns when the first item of a run that is not gone was added. It looks in the frame of id, and reads the
// part up to end. It is zero if there is none.
func (r *Reader) Added(f File, id uint64, end int64, gone *idset.Bitmap) (added item.Time, err error) {
	frame, tag, err := r.Seek(f, segment.RunStart, id, end)
	if err != nil || frame.Next == 0 {
		return 0, err
	}
	body, _, err := r.Body(f, frame, tag, nil)
	if err == nil {
		item.EachImage(body, tag.FirstID, func(it item.Item) bool {
			if gone.Has(it.ID) {
				return true
			}
			added = it.Added
			return false
		})
	}
	return added, err
}

// Missing returns which of ids a run does not hold in the part up to end.
func (r *Reader) Missing(f File, end int64, ids idset.Range) (left idset.Set, err error) {
	var held idset.Set
	err = r.each(f, end, func(frame segment.RunFrame, tag Tag) error {
		if tag.LastID < ids.First || tag.FirstID > ids.Last {
			return nil
		}
		body, _, err := r.Body(f, frame, tag, nil)
		if err == nil {
			item.EachImage(body, tag.FirstID, func(it item.Item) bool {
				held = held.Add(idset.One(it.ID))
				return true
			})
		}
		return err
	})
	return ids.Minus(held), err
}

// Copy copies the frames of a run from an offset up to another one to w. It writes about batch bytes at a time, and
// compresses them as codec says. It returns the state of w, which holds nothing else.
func (r *Reader) Copy(
	w *segment.RunWriter, codec segment.Codec, f File, from, end int64, batch int,
) (n State, err error) {
	reader, err := r.reader(f)
	if err != nil {
		return n, err
	}
	if reader.IsExtended() {
		w.Extend(reader.IsKeyed())
	}
	coder := segment.NewCoder(codec)
	defer coder.Close()
	var body []byte
	for off := from; off < end && err == nil; {
		var frame segment.RunFrame
		if frame, err = reader.Frame(off, end); err != nil {
			return n, err
		}
		if body, err = reader.Body(&r.decoder, body[:0], frame); err != nil {
			return n, err
		}
		w.Add(coder, frame.Tag, body)
		if !keyindex.IsFrame(frame.Tag) {
			n.Add(ParseTag(frame.Tag))
		}
		if off = frame.Next; w.Buffered() >= batch {
			err = w.Write()
		}
	}
	if err == nil {
		err = w.Write()
	}
	n.End = w.End()
	return n, err
}
