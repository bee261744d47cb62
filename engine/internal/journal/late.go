package journal

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// The image of a large item that is recorded with its queue locked is not copied then. Its frame has the item, whose
// memory nobody changes, until the frame is written.

// piece is a part of a frame that is not whole yet: records, and the head of another one, whose image is that of large.
type piece struct {
	records []byte
	large   *item.Item // nil: the frame ends
}

// maxLate is how many bytes a frame of pieces has at most, unless a single one is larger. The log takes one of
// segment.MaxPayloadSize.
const maxLate = 256 << 20

// late is a frame of pieces.
type late struct {
	pieces []piece
	size   int
}

func (l *late) add(records []byte, large *item.Item) {
	l.pieces = append(l.pieces, piece{records, large})
	if l.size += len(records); large != nil {
		l.size += item.ImageSize(large)
	}
}

// keptLate are the records of Keep of a large item or, if c is not nil, of KeepChanged.
func keptLate(queue uint64, it item.Item, c *record.Change) (l late) {
	l.add(record.AppendKeepHead(nil, queue, it.ID), &it)
	if c != nil {
		l.add(record.AppendChange(nil, queue, it.ID, *c), nil)
	}
	return l
}

// putLate are the records of PutExtra of a large item that takes the place of others. Unless from is zero, it leaves
// the queue that from names. Each of the others has the image for itself. If that is more than one frame takes, there are several, and a
// crash may come between them.
func putLate(to, over []record.Destination, it item.Item, c record.Change, from record.Destination) (frames []late) {
	var (
		l       late
		records []byte
	)
	if len(to) > 0 {
		l.add(record.AppendPutHead(nil, to), &it)
	}
	if !c.IsZero() {
		for _, d := range to {
			records = record.AppendChange(records, d.Queue, d.Item, c)
		}
	}
	for _, d := range over {
		if l.size > maxLate {
			l.add(records, nil)
			frames, l, records = append(frames, l), late{}, nil
		}
		l.add(record.AppendKeepHead(records, d.Queue, d.Item), &it)
		records = record.AppendChange(nil, d.Queue, d.Item, c)
	}
	if from.Queue != 0 {
		records = record.AppendRemove(records, from.Queue, from.Item, 0)
	}
	l.add(records, nil)
	return append(frames, l)
}

// len is how many bytes the frame has, with the room for its head.
func (f *frame) len() int {
	if f.pieces != nil {
		return int(f.size) - padding
	}
	return len(f.buf)
}

// whole makes the frame of its pieces, unless it is whole, and returns it.
func (f *frame) whole() []byte {
	if f.pieces != nil {
		buf := make([]byte, segment.FrameHeaderSize, f.size)
		for _, p := range f.pieces {
			if buf = append(buf, p.records...); p.large != nil {
				buf = item.AppendImageWith(buf, p.large, &item.Behind{}, func() {})
			}
		}
		f.buf, f.pieces = buf, nil
	}
	return f.buf
}
