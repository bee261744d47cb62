package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
)

// Journal records. The payload of a batch frame of the journal is a sequence of records, without
// padding. The first byte is the kind. Numbers are uvarints of the fewest bytes, but for the count
// of a remove, which is little-endian; queues are named by number, which is never used again.
//
//	put     queue number, item id, item image
//	next    item image: a put to the queue of the frame's last put, of the id that follows
//	fanout  n, at least two, then n times (queue number, item id), then one item image: the same
//	        item for each. A next record may not follow it before another put does
//	remove  count - 1 in 4 bytes, queue number, first id: these items are gone
//	flush   queue number, limit, count, then count ids: every item with an id below limit is gone,
//	        except those with the ids named
//	queue   queue number, next id, time created (ms since the epoch), name size in 1 byte, name: the
//	        queue exists; said when it is made, and again before older segments are dropped
//	delete  queue number: the queue and all its items are gone
//	keep    queue number, item id, item image: the item, which was put before, told again
//	spilled queue number, run number, run id in 8 bytes, first and last item id, count of items,
//	        bytes of their bodies, size: what the queue's run holds in its first so many bytes, which
//	        are synced. It replaces what was said of the run before
//	run     queue number, item id, size, then item images of so many bytes together: puts of the id
//	        and those that follow; a next record may go on from the last
const (
	recordPut    = 1
	recordNext   = 2
	recordFanout = 3
	recordRemove = 4
	recordFlush  = 5
	recordQueue  = 6
	recordDelete = 7
	recordKeep   = 8
	recordSpill  = 9
	recordRun    = 10

	removeCountOffset = 1                           // of the count, so that it can be raised
	usualPutSize      = 1 + item.PlainImageSize     // bytes of a put, without the body, about
	maxQueueSize      = 2 + 3*binary.MaxVarintLen64 // bytes, without the name
	maxRemoveSize     = 5 + 2*binary.MaxVarintLen64
	maxSpillSize      = 9 + 7*binary.MaxVarintLen64
)

// destination is one queue that a put goes to.
type destination struct {
	queue uint64
	item  uint64
}

func appendPut(dst []byte, to destination, it Item) []byte {
	dst = append(dst, recordPut)
	dst = binary.AppendUvarint(dst, to.queue)
	dst = binary.AppendUvarint(dst, to.item)
	return item.AppendImage(dst, it)
}

func appendNext(dst []byte, it Item) []byte { return item.AppendImage(append(dst, recordNext), it) }

func appendFanout(dst []byte, to []destination, it Item) []byte {
	dst = append(dst, recordFanout)
	dst = binary.AppendUvarint(dst, uint64(len(to)))
	for _, d := range to {
		dst = binary.AppendUvarint(dst, d.queue)
		dst = binary.AppendUvarint(dst, d.item)
	}
	return item.AppendImage(dst, it)
}

// appendRun records puts to one queue, of ids from that of to on, whose images are in images.
func appendRun(dst []byte, to destination, images []byte) []byte {
	dst = append(dst, recordRun)
	dst = binary.AppendUvarint(dst, to.queue)
	dst = binary.AppendUvarint(dst, to.item)
	dst = binary.AppendUvarint(dst, uint64(len(images)))
	return append(dst, images...)
}

// appendRemove records that the items from first on, count+1 of them, are gone.
func appendRemove(dst []byte, queue, first uint64, more uint32) []byte {
	dst = append(dst, recordRemove)
	dst = binary.LittleEndian.AppendUint32(dst, more)
	dst = binary.AppendUvarint(dst, queue)
	return binary.AppendUvarint(dst, first)
}

func appendFlush(dst []byte, queue, limit uint64, except []uint64) []byte {
	dst = append(dst, recordFlush)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, limit)
	dst = binary.AppendUvarint(dst, uint64(len(except)))
	for _, id := range except {
		dst = binary.AppendUvarint(dst, id)
	}
	return dst
}

func appendDelete(dst []byte, queue uint64) []byte {
	return binary.AppendUvarint(append(dst, recordDelete), queue)
}

// appendQueue records a queue, whose name has MaxNameSize bytes at most.
func appendQueue(dst []byte, queue, nextID uint64, created Time, name string) []byte {
	dst = append(dst, recordQueue)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, nextID)
	dst = binary.AppendUvarint(dst, uint64(created))
	dst = append(dst, byte(len(name)))
	return append(dst, name...)
}

func appendKeep(dst []byte, queue uint64, it Item) []byte {
	dst = append(dst, recordKeep)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, it.ID)
	return item.AppendImage(dst, it)
}

func appendSpill(dst []byte, queue uint64, id segment.RunID, s runState) []byte {
	dst = append(dst, recordSpill)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, id.Number)
	dst = binary.LittleEndian.AppendUint64(dst, id.ID)
	dst = binary.AppendUvarint(dst, s.firstID)
	dst = binary.AppendUvarint(dst, s.lastID)
	dst = binary.AppendUvarint(dst, uint64(s.count))
	dst = binary.AppendUvarint(dst, uint64(s.bytes))
	return binary.AppendUvarint(dst, uint64(s.end))
}

// record is one decoded journal record. Slices alias the frame it was decoded from.
type record struct {
	kind    byte
	queue   uint64        // of all kinds but next and fanout
	id      uint64        // put, keep: the item's; remove: the first item's
	item    Item          // put, next, fanout, keep: without an id
	more    uint32        // remove: how many items behind the first
	limit   uint64        // flush
	nextID  uint64        // queue
	created Time          // queue
	name    []byte        // queue
	images  []byte        // run: one valid image behind the other
	list    numbers       // fanout: queue, id, queue, id …; flush: ids
	run     segment.RunID // spilled
	spill   runState      // spilled
}

// numbers is a list of valid uvarints.
type numbers []byte

// next takes the first number off the list, which must not be empty.
func (l *numbers) next() uint64 {
	v, n := binary.Uvarint(*l)
	*l = (*l)[n:]
	return v
}

// recordReader takes a record apart field by field; bad says that a field is not there, or is not
// valid.
type recordReader struct {
	b   []byte
	bad bool
}

func (r *recordReader) bytes(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	field := r.b[:n:n]
	r.b = r.b[n:]
	return field
}

func (r *recordReader) byte() byte {
	if f := r.bytes(1); f != nil {
		return f[0]
	}
	return 0
}

func (r *recordReader) uint32() uint32 {
	if f := r.bytes(4); f != nil {
		return binary.LittleEndian.Uint32(f)
	}
	return 0
}

func (r *recordReader) uint64() uint64 {
	if f := r.bytes(8); f != nil {
		return binary.LittleEndian.Uint64(f)
	}
	return 0
}

// size reads a number that is not negative as a signed one.
func (r *recordReader) size() int64 {
	n := r.number()
	if n > math.MaxInt64 {
		r.bad = true
	}
	return int64(n)
}

func (r *recordReader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n != uvarintSize(v) {
		r.bad = true
	}
	r.bytes(max(n, 0))
	return v
}

// uvarintSize is how many bytes v takes as a uvarint.
func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// numbers reads n pairs, or whatever each says there is of one, of numbers.
func (r *recordReader) numbers(n, each uint64) numbers {
	if n > uint64(len(r.b)) { // a number takes one byte at least
		r.bad = true
		return nil
	}
	list := r.b
	for range n * each {
		if r.number(); r.bad {
			return nil
		}
	}
	return numbers(list[: len(list)-len(r.b) : len(list)-len(r.b)])
}

func (r *recordReader) image() Item {
	it, n, ok := item.ParseImage(r.b)
	if !ok {
		r.bad = true
	}
	r.bytes(n)
	return it
}

// images reads size bytes of images, at least one.
func (r *recordReader) images(size uint64) []byte {
	if size == 0 || size > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	field := r.bytes(int(size))
	for b := field; len(b) > 0; {
		_, n, ok := item.ParseImage(b)
		if !ok {
			r.bad = true
			return nil
		}
		b = b[n:]
	}
	return field
}

// parseRecord decodes the record at the start of b and returns its size in bytes. It allocates
// nothing unless it fails.
func parseRecord(b []byte) (rec record, size int, err error) {
	r := recordReader{b: b}
	rec.kind = r.byte()
	switch rec.kind {
	case recordPut, recordKeep:
		rec.queue, rec.id = r.number(), r.number()
		rec.item = r.image()
	case recordNext:
		rec.item = r.image()
	case recordFanout:
		n := r.number()
		r.bad = r.bad || n < 2
		rec.list = r.numbers(n, 2)
		rec.item = r.image()
	case recordRemove:
		rec.more = r.uint32()
		rec.queue, rec.id = r.number(), r.number()
	case recordFlush:
		rec.queue, rec.limit = r.number(), r.number()
		rec.list = r.numbers(r.number(), 1)
	case recordQueue:
		rec.queue, rec.nextID, rec.created = r.number(), r.number(), Time(r.number())
		rec.name = r.bytes(int(r.byte()))
	case recordDelete:
		rec.queue = r.number()
	case recordSpill:
		rec.queue = r.number()
		rec.run = segment.RunID{Number: r.number(), ID: r.uint64()}
		rec.spill = runState{
			firstID: r.number(), lastID: r.number(), count: r.size(), bytes: r.size(), end: r.size(),
		}
		r.bad = r.bad || !rec.spill.plausible()
	case recordRun:
		rec.queue, rec.id = r.number(), r.number()
		rec.images = r.images(r.number())
	default:
		return rec, 0, fmt.Errorf("unknown record kind %d", rec.kind)
	}
	if r.bad {
		return rec, 0, fmt.Errorf("record of kind %d is cut short or has a bad field", rec.kind)
	}
	return rec, len(b) - len(r.b), nil
}
