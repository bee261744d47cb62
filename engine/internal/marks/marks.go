package marks

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// The tag of a frame says what is in it. Integers are little-endian.
//
//	offset  size  field
//	0       8     first id
//	8       8     last id
//	16      4     number of ids, and mark
//	20      4     zero
//
// The mark tells the frame from those of a backlog, and of hidden runs. The body is the set of ids, as idset
// encodes it. The ids of a frame lie behind those of the one before.
const (
	mark      = 1 << 30
	maskCount = mark - 1
)

// frameBlocks is how many blocks of ids a frame is about at most: 64 KiB of bits.
const frameBlocks = 8

// Write writes the ids of a set to a run. What is written is durable when the caller has synced w.
func Write(w *segment.RunWriter, c *segment.Coder, ids *idset.Bitmap) error {
	for part := range ids.Parts(frameBlocks) {
		w.Add(c, tagOf(&part), part.AppendTo(nil))
		if err := w.Write(); err != nil {
			return err
		}
	}
	return nil
}

func tagOf(ids *idset.Bitmap) (tag segment.Tag) {
	first, _ := ids.First()
	last, _ := ids.Last()
	binary.LittleEndian.PutUint64(tag[0:], first)
	binary.LittleEndian.PutUint64(tag[8:], last)
	binary.LittleEndian.PutUint32(tag[16:], uint32(ids.Len())|mark)
	return tag
}

// IsFrame reports whether a tag is that of a frame with ids that are gone.
func IsFrame(tag segment.Tag) bool { return binary.LittleEndian.Uint32(tag[16:])>>30 == mark>>30 }

var errFrame = errors.New("this is not a list of removed items")

// Parse decodes a frame.
func Parse(tag segment.Tag, body []byte) (ids idset.Bitmap, err error) {
	if !IsFrame(tag) {
		return ids, errFrame
	}
	if ids, err = idset.ParseBitmap(body); err != nil {
		return ids, err
	}
	if ids.IsEmpty() || ids.Len() > maskCount || tagOf(&ids) != tag {
		return idset.Bitmap{}, fmt.Errorf("the list names %d removed items, but its header says something else", ids.Len())
	}
	return ids, nil
}

// Read reads the ids of a file up to end, where there are as many. If it is missing or is not what was written, that
// is a *segment.CorruptionError.
func Read(r *runs.Reader, f runs.File, end int64, count uint64) (ids idset.Bitmap, err error) {
	err = r.EachFrame(f, end, func(offset int64, tag segment.Tag, body []byte) error {
		part, err := Parse(tag, body)
		if last, some := ids.Last(); err == nil && some {
			if first, _ := part.First(); first <= last {
				err = errFrame
			}
		}
		if err != nil {
			return &segment.CorruptionError{Path: f.Path, Offset: offset, Reason: err.Error()}
		}
		ids.AddAll(&part)
		return nil
	})
	if err == nil && ids.Len() != count {
		reason := fmt.Sprintf("it has %d ids that are gone, and the journal says %d", ids.Len(), count)
		err = &segment.CorruptionError{Path: f.Path, Reason: reason}
	}
	return ids, err
}
