package runs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/segment"
)

// Places says where the frames of one run begin, as far as somebody has asked. The owner of the Reader that is
// given it guards it.
type Places []place

// place is where a frame begins, and the first item in it.
type place struct {
	firstID uint64
	offset  int64
}

// Frame returns the frame of a run, which is written up to end, that has an item or would have it, or the first.
func (r *Reader) Frame(f File, p *Places, end int64, id uint64) (frame segment.RunFrame, tag Tag, err error) {
	reader, err := r.reader(f)
	if err != nil {
		return frame, tag, err
	}
	next := int64(segment.RunStart)
	if n := len(*p); n > 0 {
		next = (*p)[n-1].offset // it says where the next one begins
		*p = (*p)[:n-1]
	}
	for next < end {
		if frame, err = reader.Frame(next, end); err != nil {
			return frame, tag, err
		}
		if !keyindex.IsFrame(frame.Tag) {
			*p = append(*p, place{ParseTag(frame.Tag).FirstID, next})
		}
		next = frame.Next
	}
	i, found := slices.BinarySearchFunc(*p, id, func(at place, id uint64) int { return cmp.Compare(at.firstID, id) })
	if !found {
		i--
	}
	if len(*p) == 0 {
		return frame, tag, &segment.CorruptionError{Path: f.Path, Reason: fmt.Sprintf("no frame is for item %d", id)}
	}
	frame, err = reader.Frame((*p)[max(i, 0)].offset, end)
	return frame, ParseTag(frame.Tag), err
}

// Item reads an item of a run, which is written up to end. Its Data belongs to the caller.
func (r *Reader) Item(f File, p *Places, end int64, id uint64) (it item.Item, err error) {
	frame, tag, err := r.Frame(f, p, end, id)
	if err != nil {
		return it, err
	}
	body, _, err := r.Body(f, frame, tag, nil)
	if err != nil {
		return it, err
	}
	item.EachImage(body, tag.FirstID, func(found item.Item) bool {
		if found.ID == id {
			it = found
		}
		return found.ID < id
	})
	if it.ID == 0 {
		return it, &segment.CorruptionError{
			Path: f.Path, Offset: frame.Offset, Reason: fmt.Sprintf("item %d is not in its frame", id),
		}
	}
	return it, nil
}

// Each calls do for every item of a run up to end. Data is valid during the call.
func (r *Reader) Each(f File, end int64, do func(item.Item)) error {
	var body []byte
	err := r.each(f, end, func(frame segment.RunFrame, tag Tag) (err error) {
		if body, _, err = r.Body(f, frame, tag, body[:0]); err == nil {
			item.EachImage(body, tag.FirstID, func(it item.Item) bool {
				do(it)
				return true
			})
		}
		return err
	})
	return damagedIfMissing(f, err)
}

// Extended reports whether a run may have items that are not plain, and whether it has frames with all of their keys.
func (r *Reader) Extended(f File) (extended, keyed bool, err error) {
	reader, err := r.reader(f)
	if err != nil {
		return false, false, damagedIfMissing(f, err)
	}
	return reader.IsExtended(), reader.IsKeyed(), nil
}

// KeyFrame is what EachKeys has read of one frame: the seed of the hashes, and the entries. It may be used again, and
// keeps its memory.
type KeyFrame struct {
	Seed    keyindex.Seed
	Entries []keyindex.Entry
	body    []byte
}

// EachKeys reads the frames with keys of a run, from the frame at from up to end. It reads them into k one after the
// other, and calls do for each. Of other frames it reads the headers.
func (r *Reader) EachKeys(f File, from, end int64, k *KeyFrame, do func() error) error {
	reader, err := r.reader(f)
	for off := from; err == nil && off < end; {
		var frame segment.RunFrame
		if frame, err = reader.Frame(off, end); err == nil && keyindex.IsFrame(frame.Tag) {
			if err = r.keys(f, reader, frame, k); err == nil {
				err = do()
			}
		}
		off = frame.Next
	}
	return damagedIfMissing(f, err)
}

// keys reads one frame with keys.
func (r *Reader) keys(f File, reader *segment.RunReader, frame segment.RunFrame, k *KeyFrame) (err error) {
	if k.body, err = reader.Body(&r.decoder, k.body[:0], frame); err != nil {
		return err
	}
	if k.Seed, k.Entries, err = keyindex.ParseFrame(frame.Tag, k.body, k.Entries[:0]); err != nil {
		err = &segment.CorruptionError{Path: f.Path, Offset: frame.Offset, Reason: err.Error()}
	}
	return err
}
