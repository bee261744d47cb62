package journal

import (
	"encoding/binary"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// Large is a frame with the put of one large item. It is made with no lock held, and its image is that of
// the queues too: PutLarge takes no longer than a put of a small item.
type Large struct {
	buf    []byte // room for the head of the record, and before it for that of the frame; then the image
	image  int    // where that begins
	most   int    // queues that the head has room for
	Shared item.Shared
}

// padding is the capacity behind the image: the log pads frames.
const padding = 8

// LargeSize is how many bytes of memory a frame for a put of it to so many queues takes.
func LargeSize(it item.Item, queues int) int64 {
	return int64(headRoom(queues) + item.ImageSize(it) + padding)
}

func headRoom(queues int) int {
	return segment.FrameHeaderSize + 1 + (1+2*queues)*binary.MaxVarintLen64
}

// NewLarge returns a frame for a put of it to so many queues at most. The caller has counted its memory,
// and uses it.
func NewLarge(it item.Item, queues int) *Large {
	head, size := headRoom(queues), LargeSize(it, queues)
	l := &Large{buf: item.AppendImage(make([]byte, head, size), it), image: head, most: queues}
	l.Shared.Size = size
	l.Shared.Use()
	return l
}

// Image is the item's image. Nobody may change it.
func (l *Large) Image() []byte { return l.buf[l.image:] }

// Holds reports whether l is for a put to so many queues.
func (l *Large) Holds(queues int) bool { return queues <= l.most }

// PutLarge is Put of the item in l to the queues in to. It may be called once, and uses the memory of l
// until the frame is written. PutLarge may change to.
func (j *Journal) PutLarge(to []record.Destination, l *Large) (lsn LSN, at uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if to = j.recorded(to); len(to) == 0 {
		return j.appended(0), j.segment.Load()
	}
	var scratch [64]byte
	head := record.AppendPutHead(scratch[:0], to)
	start := l.image - len(head)
	copy(l.buf[start:], head)
	j.fill()
	l.Shared.Use()
	j.filled = append(j.filled, frame{
		buf: l.buf[start-segment.FrameHeaderSize:], size: l.Shared.Size, version: j.version, shared: &l.Shared,
	})
	return j.appended(len(l.buf) - start), j.segment.Load()
}
