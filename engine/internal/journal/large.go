package journal

import (
	"encoding/binary"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// Large is a frame with one large item, that is put or kept. It is made with no lock held, and the queues may use its
// image too. So PutLarge and KeepLarge take no longer than for a small item.
type Large struct {
	buf    []byte // room for what stands in front of the image, and before it for the frame's head; then the image
	image  int    // where that begins
	most   int    // queues that the head has room for
	Shared item.Shared
}

const (
	// maxRemove is how many bytes a record in front of that of the image has at most, and maxChange that for one behind
	// it.
	maxRemove = 1 + 4 + 2*binary.MaxVarintLen64
	maxChange = 64
	// padding is the capacity behind what a frame has: the log pads frames.
	padding = 8
)

// LargeSize is how many bytes of memory a frame for a put of it to so many queues takes.
func LargeSize(it item.Item, queues int) int64 {
	return int64(headRoom(queues) + item.ImageSize(&it) + maxChange + padding)
}

func headRoom(queues int) int {
	return segment.FrameHeaderSize + maxRemove + 1 + (1+2*queues)*binary.MaxVarintLen64
}

// NewLarge returns a frame for a put of it to so many queues at most. The caller has counted its memory,
// and uses it.
func NewLarge(it item.Item, queues int) *Large {
	head, size := headRoom(queues), LargeSize(it, queues)
	l := &Large{buf: item.AppendImage(make([]byte, head, size), &it), image: head, most: queues}
	l.Shared.Size = size
	l.Shared.Use()
	return l
}

// Image is the item's image. Nobody may change it.
func (l *Large) Image() []byte { return l.buf[l.image:] }

// HasRoomFor reports whether l is for a put to so many queues.
func (l *Large) HasRoomFor(queues int) bool { return queues <= l.most }

// PutLarge is Put of the item in l to the queues in to, which leaves the queue that from names. One of PutLarge
// and KeepLarge may be called, once, and uses the memory of l until the frame is written. PutLarge may change to.
func (j *Journal) PutLarge(to []record.Destination, l *Large, from record.Destination) (lsn LSN, at uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var scratch [128]byte
	head, n := scratch[:0], len(j.active)
	to = j.recorded(to)
	if from.Queue >= j.first {
		if len(to) == 0 {
			j.active = record.AppendRemove(j.active, from.Queue, from.Item, 0)
		}
		head = record.AppendRemove(head, from.Queue, from.Item, 0)
	}
	if len(to) == 0 {
		return j.appended(len(j.active) - n), j.segment.Load()
	}
	return j.appendLarge(l, record.AppendPutHead(head, to)), j.segment.Load()
}

// KeepLarge is Keep of the item in l or, if change is not nil, KeepChanged.
func (j *Journal) KeepLarge(
	r *Removal, queue, id uint64, l *Large, change *record.Change,
) (at uint64) {
	at = j.segment.Load() // before the record can be written
	j.mu.Lock()
	defer j.mu.Unlock()
	r.limit = min(r.limit, id)
	if queue < j.first {
		return at
	}
	if change != nil {
		l.buf = record.AppendChange(l.buf, queue, id, *change)
		j.version = segment.Version2
	}
	var scratch [64]byte
	j.appendLarge(l, record.AppendKeepHead(scratch[:0], queue, id))
	return at
}

// appendLarge adds a frame of l, in which head stands in front of the image. The caller holds mu.
func (j *Journal) appendLarge(l *Large, head []byte) LSN {
	start := l.image - len(head)
	copy(l.buf[start:], head)
	j.endFrame()
	l.Shared.Use()
	j.ended = append(j.ended, frame{
		buf: l.buf[start-segment.FrameHeaderSize:], size: l.Shared.Size, version: j.version, shared: &l.Shared,
	})
	return j.appended(len(l.buf) - start)
}
