package journal

import (
	"encoding/binary"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// Large is a frame with one large item that is put. It is made with no lock held, and the queues may use its image too.
// So PutLarge takes no longer than for a small item.
type Large struct {
	buf    []byte // room for what stands in front of the image, and before it for the frame's head; then the image
	image  int    // where that begins
	end    int    // behind it: records of how the item stands
	queues int    // that the head has room for
	rich   bool   // the item is not plain
	Shared item.Shared
}

// LargeOf is what a Large is made of.
type LargeOf struct {
	Item    item.Item
	With    item.Behind // the item's in the frame, unless it is empty
	Queues  int         // the item goes to so many at most
	Changes int         // so many of them have a record that says how it stands
}

const (
	// maxRemove is how many bytes a record in front of that of the image has at most.
	maxRemove = 1 + 4 + 2*binary.MaxVarintLen64
	// padding is the capacity behind what a frame has: the log pads frames.
	padding = 8
)

// Size is how many bytes of memory the Large takes.
func (of *LargeOf) Size() int64 {
	return int64(headRoom(of.Queues) + item.ImageSizeWith(&of.Item, &of.With) + of.Changes*record.MaxChangeSize + padding)
}

func headRoom(queues int) int {
	return segment.FrameHeaderSize + maxRemove + 1 + (1+2*queues)*binary.MaxVarintLen64
}

// NewLarge returns a frame. The caller has counted its memory, and uses it. While the item is copied it calls between,
// again and again.
func NewLarge(of LargeOf, between func()) *Large {
	head, size := headRoom(of.Queues), of.Size()
	buf := item.AppendImageWith(make([]byte, head, size), &of.Item, &of.With, between)
	l := &Large{buf: buf, image: head, end: len(buf), queues: of.Queues}
	it := l.Item()
	l.rich, l.Shared.Size = !it.IsPlain(), size
	l.Shared.Use()
	return l
}

// Image is the item's image. Nobody may change it.
func (l *Large) Image() []byte { return l.buf[l.image:l.end] }

// Item is the item, which lies in the image, without its id.
func (l *Large) Item() item.Item {
	it, _ := item.ParseImage(l.Image())
	return it
}

// IsFor reports whether l has room for a put to that many queues, in over of which it takes the place of another item.
func (l *Large) IsFor(to, over int) bool {
	return over == 0 && to <= l.queues || over == 1 && to == 0
}

// PutLarge is PutExtra of the item in l, which is for such a put. It may be called once, and uses the
// memory of l until the frame is written. It may change to and over. If c is not zero, or over not
// empty, l has room for the changes.
func (j *Journal) PutLarge(
	to, over []record.Destination, l *Large, c record.Change, from record.Destination,
) (lsn LSN, at uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var scratch [128]byte
	head, n := scratch[:0], len(j.active)
	to, over = j.recorded(to), j.recorded(over)
	if len(to)+len(over) == 0 {
		j.appendLeave(from)
		return j.appended(len(j.active) - n), j.segment.Load()
	}
	if from.Queue >= j.first {
		head = record.AppendRemove(head, from.Queue, from.Item, 0)
	}
	if len(over) > 0 {
		head, to = record.AppendKeepHead(head, over[0].Queue, over[0].Item), over
	} else {
		head = record.AppendPutHead(head, to)
	}
	if !c.IsZero() || len(over) > 0 {
		for _, d := range to {
			l.buf = record.AppendChange(l.buf, d.Queue, d.Item, c)
		}
		j.version = segment.Version2
	}
	return j.appendLarge(l, head), j.segment.Load()
}

// appendLarge adds a frame of l, in which head stands in front of the image. The caller holds mu.
func (j *Journal) appendLarge(l *Large, head []byte) LSN {
	start := l.image - len(head)
	copy(l.buf[start:], head)
	j.endFrame()
	if l.rich {
		j.version = segment.Version2
	}
	l.Shared.Use()
	return j.addFrame(frame{
		buf: l.buf[start-segment.FrameHeaderSize:], size: l.Shared.Size, shared: &l.Shared,
	}, len(l.buf)-start)
}
