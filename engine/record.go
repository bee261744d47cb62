package engine

import (
	"encoding/binary"
	"fmt"
)

// Journal records. The payload of a batch frame of the journal is a sequence of records, without
// padding. Integers are little-endian; queues are named by number, which is never used again.
//
//	offset  size  field
//	0       1     kind
//	1       1     zero
//	2       2     n, a count; zero where the kind has none
//	4       …     by kind
//
//	put     n times (queue number 8, item id 8), then one item image: the same item for each
//	remove  queue number 8, first id 8, last id 8: these items are gone
//	flush   queue number 8, limit 8, count 4, then count ids 8: every item with an id below
//	        limit is gone, except those with the ids named
//	queue   queue number 8, next id 8, time created 8 (ms since the epoch), name of n bytes: the
//	        queue exists; said when it is made, and again before older segments are dropped
//	delete  queue number 8: the queue and all its items are gone
const (
	recordPut    = 1
	recordRemove = 2
	recordFlush  = 3
	recordQueue  = 4
	recordDelete = 5

	recordHeaderSize = 4
	queueSize        = recordHeaderSize + 24                   // without the name
	putSize          = recordHeaderSize + 16 + imageHeaderSize // bytes, without the body
	removeSize       = recordHeaderSize + 24
	removeLastOffset = recordHeaderSize + 16
	maxDestinations  = 1<<16 - 1
)

// destination is one queue that a put goes to.
type destination struct {
	queue uint64
	item  uint64
}

func appendRecordHeader(dst []byte, kind byte, n int) []byte {
	return append(dst, kind, 0, byte(n), byte(n>>8))
}

func appendPut(dst []byte, to []destination, it Item) []byte {
	dst = appendRecordHeader(dst, recordPut, len(to))
	for _, d := range to {
		dst = binary.LittleEndian.AppendUint64(dst, d.queue)
		dst = binary.LittleEndian.AppendUint64(dst, d.item)
	}
	return appendImage(dst, it)
}

func appendRemove(dst []byte, queue, first, last uint64) []byte {
	dst = appendRecordHeader(dst, recordRemove, 0)
	dst = binary.LittleEndian.AppendUint64(dst, queue)
	dst = binary.LittleEndian.AppendUint64(dst, first)
	return binary.LittleEndian.AppendUint64(dst, last)
}

func appendFlush(dst []byte, queue, limit uint64, except []uint64) []byte {
	dst = appendRecordHeader(dst, recordFlush, 0)
	dst = binary.LittleEndian.AppendUint64(dst, queue)
	dst = binary.LittleEndian.AppendUint64(dst, limit)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(except)))
	for _, id := range except {
		dst = binary.LittleEndian.AppendUint64(dst, id)
	}
	return dst
}

func appendDelete(dst []byte, queue uint64) []byte {
	dst = appendRecordHeader(dst, recordDelete, 0)
	return binary.LittleEndian.AppendUint64(dst, queue)
}

func appendQueue(dst []byte, queue, nextID uint64, created Time, name string) []byte {
	dst = appendRecordHeader(dst, recordQueue, len(name))
	dst = binary.LittleEndian.AppendUint64(dst, queue)
	dst = binary.LittleEndian.AppendUint64(dst, nextID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(created))
	return append(dst, name...)
}

// record is one decoded journal record. Slices alias the frame it was decoded from.
type record struct {
	kind    byte
	queue   uint64 // of all kinds but put
	to      []byte // put: destinations, 16 bytes each
	item    Item   // put: without an id
	first   uint64 // remove
	last    uint64 // remove
	limit   uint64 // flush
	except  []byte // flush: ids, 8 bytes each
	nextID  uint64 // queue
	created Time   // queue
	name    []byte // queue
}

// destinations calls f for each destination of a put, in order.
func (r *record) destinations(f func(destination) error) error {
	for b := r.to; len(b) > 0; b = b[16:] {
		d := destination{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}

// recordReader takes a record apart field by field; bad says that it ended too early.
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

func (r *recordReader) uint64() uint64 {
	if f := r.bytes(8); f != nil {
		return binary.LittleEndian.Uint64(f)
	}
	return 0
}

func (r *recordReader) uint32() uint32 {
	if f := r.bytes(4); f != nil {
		return binary.LittleEndian.Uint32(f)
	}
	return 0
}

// parseRecord decodes the record at the start of b and returns its size in bytes. It allocates
// nothing unless it fails.
func parseRecord(b []byte) (rec record, size int, err error) {
	r := recordReader{b: b}
	head := r.bytes(recordHeaderSize)
	if r.bad || head[1] != 0 {
		return rec, 0, fmt.Errorf("not a record header: % x", b[:min(len(b), recordHeaderSize)])
	}
	rec.kind = head[0]
	n := int(binary.LittleEndian.Uint16(head[2:]))
	if counted := rec.kind == recordPut || rec.kind == recordQueue; counted != (n > 0) {
		return rec, 0, fmt.Errorf("record of kind %d has count %d", rec.kind, n)
	}
	if rec.kind != recordPut {
		rec.queue = r.uint64()
	}
	switch rec.kind {
	case recordPut:
		rec.to = r.bytes(16 * n)
		it, size, ok := parseImage(r.b)
		r.bytes(size)
		r.bad = r.bad || !ok
		rec.item = it
	case recordRemove:
		rec.first, rec.last = r.uint64(), r.uint64()
	case recordFlush:
		rec.limit = r.uint64()
		rec.except = r.bytes(8 * int(r.uint32()))
	case recordDelete:
	case recordQueue:
		rec.nextID, rec.created = r.uint64(), Time(r.uint64())
		rec.name = r.bytes(n)
	default:
		return rec, 0, fmt.Errorf("unknown record kind %d", rec.kind)
	}
	if r.bad {
		return rec, 0, fmt.Errorf("record of kind %d is cut short", rec.kind)
	}
	return rec, len(b) - len(r.b), nil
}
