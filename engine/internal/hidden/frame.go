package hidden

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// Entry is an item of a run.
type Entry struct {
	item.Item
	Due   item.Time // until then it is hidden
	Count uint16    // deliveries that have ended and count
}

// ByID compares items by their ids.
func ByID(a, b Entry) int { return cmp.Compare(a.ID, b.ID) }

// The tag of a frame says what is in it. Integers are little-endian.
//
//	offset  size  field
//	0       8     when its first item is due
//	8       8     when its last item is due
//	16      4     number of items, and itemsMark; in the index number of frames, and indexMark
//	20      4     bytes of the items' bodies; in the index 0
//
// The marks tell the frames from those of a backlog. The body has the items in the order in which they are
// due, those due at the same instant by their ids. Each is, with numbers of LEB128:
//
//	how long after the first item it is due, in ms
//	its id
//	its count
//	its image
type tag struct {
	first, last  item.Time
	count, bytes int64
	index        bool
}

const (
	itemsMark = 1 << 31
	indexMark = 1<<31 | 1<<30
	countMask = 1<<30 - 1
)

func (t tag) encode() (tag segment.Tag) {
	mark := uint32(itemsMark)
	if t.index {
		mark = indexMark
	}
	binary.LittleEndian.PutUint64(tag[0:], uint64(t.first))
	binary.LittleEndian.PutUint64(tag[8:], uint64(t.last))
	binary.LittleEndian.PutUint32(tag[16:], uint32(t.count)|mark)
	binary.LittleEndian.PutUint32(tag[20:], uint32(t.bytes))
	return tag
}

// parseTag decodes the tag of a frame; ok is false if it is not one of a hidden run.
func parseTag(b segment.Tag) (t tag, ok bool) {
	count := binary.LittleEndian.Uint32(b[16:])
	t = tag{
		first: item.Time(binary.LittleEndian.Uint64(b[0:])), last: item.Time(binary.LittleEndian.Uint64(b[8:])),
		count: int64(count & countMask), bytes: int64(binary.LittleEndian.Uint32(b[20:])),
		index: count&indexMark == indexMark,
	}
	return t, count&itemsMark != 0 && t.first >= 0 && t.last >= t.first
}

// EachItem calls f for the items of a run, of which the index is at an offset, before end. Their Data is valid during
// the call. It returns a *segment.CorruptionError where the run cannot be read on.
func EachItem(r *runs.Reader, file runs.File, index, end int64, f func(Entry)) error {
	frameTag, body, err := r.Read(file, index, end, nil)
	if err != nil {
		return err
	}
	frames, err := ParseIndex(frameTag, body, index)
	for i := 0; err == nil && i < len(frames); i++ {
		if frameTag, body, err = r.Read(file, frames[i].Offset, end, body[:0]); err != nil {
			return err
		}
		err = EachEntry(frameTag, body, func(e Entry) bool {
			f(e)
			return true
		})
	}
	if err != nil {
		return &segment.CorruptionError{Path: file.Path, Offset: index, Reason: err.Error()}
	}
	return nil
}

// IsIndex reports whether the tag is that of an index.
func IsIndex(frameTag segment.Tag) bool {
	t, ok := parseTag(frameTag)
	return ok && t.index
}

// appendEntry appends an item of a frame whose first item is due at first.
func appendEntry(dst []byte, first, due item.Time, id uint64, count uint16, image []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(due-first))
	dst = binary.AppendUvarint(dst, id)
	dst = binary.AppendUvarint(dst, uint64(count))
	return append(dst, image...)
}

// numbers takes numbers off a body.
type numbers struct {
	b   []byte
	bad bool
}

func (n *numbers) next() uint64 {
	v, size := binary.Uvarint(n.b)
	if size <= 0 {
		n.bad = true
		return 0
	}
	n.b = n.b[size:]
	return v
}

// EachEntry calls f for the items in the body of a frame, in their order, until f returns false. Their Data
// aliases the body. It returns an error if the body is not what the tag says, having called f for some.
func EachEntry(frameTag segment.Tag, body []byte, f func(Entry) bool) error {
	t, ok := parseTag(frameTag)
	if !ok || t.index {
		return fmt.Errorf("these are not delayed items")
	}
	n := numbers{b: body}
	var found item.Tally
	last, lastID := t.first, uint64(0)
	for len(n.b) > 0 {
		after, id, count := n.next(), n.next(), n.next()
		due := t.first + item.Time(after)
		if n.bad || after > uint64(t.last-t.first) || id == 0 || id == math.MaxUint64 || count > math.MaxUint16 ||
			due < last || due == last && id <= lastID {
			return fmt.Errorf("the due time or delivery count behind item %d is damaged", lastID)
		}
		it, size := item.ParseImage(n.b)
		if size == 0 {
			return fmt.Errorf("item %d is damaged", id)
		}
		n.b = n.b[size:]
		it.ID = id
		found.Account(&it, 1)
		last, lastID = due, id
		if !f(Entry{Item: it, Due: due, Count: uint16(count)}) {
			return nil
		}
	}
	if found.Count != t.count || found.Bytes != t.bytes || last != t.last {
		return fmt.Errorf("a frame has %d items of %d bytes, the last due at %d, but its header says %d of %d, due at %d",
			found.Count, found.Bytes, last, t.count, t.bytes, t.last)
	}
	return nil
}

// Frame is what the index of a run says of a frame.
type Frame struct {
	Offset int64     // in bytes from the start of the file
	First  item.Time // when its first item is due
	Count  int64     // of items
	Bytes  int64     // of their bodies
}

// The index is the last frame of a run. Its body has four numbers (LEB128) for each frame:
//
//   - how many bytes the frame begins behind the one before, or behind the start of the file;
//   - how long after the first item of that one its own first item is due, or after 0;
//   - the number of its items;
//   - the bytes of their bodies.

func appendIndex(dst []byte, frames []Frame) []byte {
	var before Frame
	for _, f := range frames {
		dst = binary.AppendUvarint(dst, uint64(f.Offset-before.Offset))
		dst = binary.AppendUvarint(dst, uint64(f.First-before.First))
		dst = binary.AppendUvarint(dst, uint64(f.Count))
		dst = binary.AppendUvarint(dst, uint64(f.Bytes))
		before = f
	}
	return dst
}

// ParseIndex decodes the index of a run, which begins at an offset.
func ParseIndex(frameTag segment.Tag, body []byte, offset int64) (frames []Frame, err error) {
	t, ok := parseTag(frameTag)
	if !ok || !t.index {
		return nil, fmt.Errorf("this is not an index of delayed items")
	}
	n := numbers{b: body}
	var before Frame
	for len(n.b) > 0 {
		behind, later, count, bytes := n.next(), n.next(), n.next(), n.next()
		f := Frame{
			Offset: before.Offset + int64(behind), First: before.First + item.Time(later),
			Count: int64(count), Bytes: int64(bytes),
		}
		switch {
		case n.bad, behind >= 1<<62, later >= 1<<62, f.First < 0, f.Offset >= offset,
			before.Offset == 0 && f.Offset != segment.RunStart, f.Offset <= before.Offset,
			count == 0 || count > countMask, bytes > math.MaxUint32:
			return nil, fmt.Errorf("the index is damaged behind frame %d", len(frames))
		}
		frames, before = append(frames, f), f
	}
	if int64(len(frames)) != t.count || len(frames) == 0 {
		return nil, fmt.Errorf("the index has %d frames, but its header says %d", len(frames), t.count)
	}
	return frames, nil
}
