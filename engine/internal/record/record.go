package record

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// Journal records. The payload of a batch frame of the journal is a sequence of records, without padding. The first
// byte is the kind. Numbers are uvarints of the fewest bytes; only the count of a remove is little-endian. A record
// names a queue by its number, which is never used again.
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
//	keep    queue number, item id, item image: the rewritten image of an item put before
//	spilled queue number, run number, run id in 8 bytes, first and last item id, count of items,
//	        bytes of their bodies, size: what the queue's run holds in its first so many bytes, which
//	        are synced. It replaces what was said of the run before
//	puts    queue number, item id, size, then item images of so many bytes together: puts of the id
//	        and those that follow; a next record may go on from the last
//	change  queue number, item id, fields in 1 byte, then those of it: due (ms since the epoch),
//	        token in 8 bytes, count: the item, whose image the journal has, is hidden until it is due, or
//	        leased if it has a token, or to be handed out. It replaces what was said of that before
//	marks   queue number, file number, then unless that is zero file id in 8 bytes, size, count: the ids in
//	        the marks file, so many, are gone. It replaces what was said of another such file of the queue
//	hidden  queue number, run number, run id in 8 bytes, offset of the index, size, first frame, bytes,
//	        size of the set, set of ids: the items of these ids are in the hidden run, in that frame or
//	        behind it, and each is hidden until it is due. It replaces what was said of the run, and of the
//	        places of these items, before
const (
	KindPut    = 1
	KindNext   = 2
	KindFanout = 3
	KindRemove = 4
	KindFlush  = 5
	KindQueue  = 6
	KindDelete = 7
	KindKeep   = 8
	KindSpill  = 9
	KindPuts   = 10
	KindChange = 11 // this kind, and those behind it, need version 2 of the journal
	KindHidden = 13
	KindMarks  = 14

	RemoveCountOffset = 1                           // of the count, so that it can be raised
	UsualPutSize      = 1 + item.PlainImageSize     // bytes of a put, without the body, about
	maxQueueSize      = 2 + 3*binary.MaxVarintLen64 // bytes, without the name
	MaxRemoveSize     = 5 + 2*binary.MaxVarintLen64
	MaxSpillSize      = 9 + 7*binary.MaxVarintLen64
	MaxChangeSize     = 10 + 4*binary.MaxVarintLen64
	MaxMarksSize      = 9 + 4*binary.MaxVarintLen64
	MaxHiddenSize     = 9 + 7*binary.MaxVarintLen64 // without the set
)

// Destination is one queue that a put goes to.
type Destination struct {
	Queue uint64
	Item  uint64
}

// AppendPut records a put of an item to one queue.
func AppendPut(dst []byte, to Destination, it item.Item) []byte {
	dst = append(dst, KindPut)
	dst = binary.AppendUvarint(dst, to.Queue)
	dst = binary.AppendUvarint(dst, to.Item)
	return item.AppendImage(dst, &it)
}

// AppendNext records a put to the queue of the frame's last put, of the id that follows.
func AppendNext(dst []byte, it item.Item) []byte {
	return item.AppendImage(append(dst, KindNext), &it)
}

// AppendFanout records a put of one item to several queues, at least two.
func AppendFanout(dst []byte, to []Destination, it item.Item) []byte {
	return item.AppendImage(appendFanoutHead(dst, to), &it)
}

// AppendPutHead appends what stands before the image in the record of a put of one item to the queues in
// to, at least one.
func AppendPutHead(dst []byte, to []Destination) []byte {
	if len(to) > 1 {
		return appendFanoutHead(dst, to)
	}
	dst = append(dst, KindPut)
	dst = binary.AppendUvarint(dst, to[0].Queue)
	return binary.AppendUvarint(dst, to[0].Item)
}

func appendFanoutHead(dst []byte, to []Destination) []byte {
	dst = append(dst, KindFanout)
	dst = binary.AppendUvarint(dst, uint64(len(to)))
	for _, d := range to {
		dst = binary.AppendUvarint(dst, d.Queue)
		dst = binary.AppendUvarint(dst, d.Item)
	}
	return dst
}

// AppendPuts records puts to one queue, of ids from that of to on, whose images are in images.
func AppendPuts(dst []byte, to Destination, images []byte) []byte {
	dst = append(dst, KindPuts)
	dst = binary.AppendUvarint(dst, to.Queue)
	dst = binary.AppendUvarint(dst, to.Item)
	dst = binary.AppendUvarint(dst, uint64(len(images)))
	return append(dst, images...)
}

// AppendRemove records that an item is gone, and so many more that follow it.
func AppendRemove(dst []byte, queue, first uint64, more uint32) []byte {
	dst = append(dst, KindRemove)
	dst = binary.LittleEndian.AppendUint32(dst, more)
	dst = binary.AppendUvarint(dst, queue)
	return binary.AppendUvarint(dst, first)
}

// AppendGone records that ids are gone.
func AppendGone(dst []byte, queue uint64, gone iter.Seq[idset.Range]) []byte {
	for r := range gone {
		for first := r.First; first <= r.Last; {
			more := min(r.Last-first, math.MaxUint32)
			dst = AppendRemove(dst, queue, first, uint32(more))
			first += more + 1
		}
	}
	return dst
}

// AppendFlush records that every item with an id below limit is gone, except those with the ids named.
func AppendFlush(dst []byte, queue, limit uint64, except []uint64) []byte {
	return AppendFlushOf(dst, queue, limit, uint64(len(except)), slices.Values(except))
}

// AppendFlushOf is AppendFlush with so many ids.
func AppendFlushOf(dst []byte, queue, limit, count uint64, except iter.Seq[uint64]) []byte {
	dst = append(dst, KindFlush)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, limit)
	dst = binary.AppendUvarint(dst, count)
	for id := range except {
		dst = binary.AppendUvarint(dst, id)
	}
	return dst
}

// AppendDelete records that a queue and all its items are gone.
func AppendDelete(dst []byte, queue uint64) []byte {
	return binary.AppendUvarint(append(dst, KindDelete), queue)
}

// AppendQueue records a queue, whose name has MaxNameSize bytes at most.
func AppendQueue(dst []byte, queue, nextID uint64, created item.Time, name string) []byte {
	dst = append(dst, KindQueue)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, nextID)
	dst = binary.AppendUvarint(dst, uint64(created))
	dst = append(dst, byte(len(name)))
	return append(dst, name...)
}

// AppendKeep records an item again that was put before.
func AppendKeep(dst []byte, queue uint64, it item.Item) []byte {
	return item.AppendImage(AppendKeepHead(dst, queue, it.ID), &it)
}

// AppendKeepHead appends what stands before the image in such a record.
func AppendKeepHead(dst []byte, queue, id uint64) []byte {
	dst = append(dst, KindKeep)
	dst = binary.AppendUvarint(dst, queue)
	return binary.AppendUvarint(dst, id)
}

// AppendSpill records what a run holds of a queue, up to an end that is synced.
func AppendSpill(dst []byte, queue uint64, id segment.RunID, s runs.State) []byte {
	dst = append(dst, KindSpill)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, id.Number)
	dst = binary.LittleEndian.AppendUint64(dst, id.ID)
	dst = binary.AppendUvarint(dst, s.FirstID)
	dst = binary.AppendUvarint(dst, s.LastID)
	dst = binary.AppendUvarint(dst, uint64(s.Count))
	dst = binary.AppendUvarint(dst, uint64(s.Bytes))
	return binary.AppendUvarint(dst, uint64(s.End))
}

// Change is what a change record says of an item. Zero values say that there is nothing of the kind.
type Change struct {
	Due   item.Time // until then it is hidden, or leased
	Token uint64    // of its lease, or of the one that has lapsed
	Count uint16    // deliveries that have ended and count
}

// IsZero reports whether there is nothing to say: the item is in line, and was not delivered.
func (c Change) IsZero() bool { return c == Change{} }

// Fields of a change record that follow.
const (
	changeDue = 1 << iota
	changeToken
	changeCount
	changeFields = changeDue | changeToken | changeCount
)

// AppendChange records what an item that is not in line is now. Times before 1 become 1.
func AppendChange(dst []byte, queue, id uint64, c Change) []byte {
	dst = append(dst, KindChange)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, id)
	fields := len(dst)
	dst = append(dst, 0)
	if c.Due != 0 {
		dst[fields] |= changeDue
		dst = binary.AppendUvarint(dst, uint64(max(c.Due, 1)))
	}
	if c.Token != 0 {
		dst[fields] |= changeToken
		dst = binary.LittleEndian.AppendUint64(dst, c.Token)
	}
	if c.Count != 0 {
		dst[fields] |= changeCount
		dst = binary.AppendUvarint(dst, uint64(c.Count))
	}
	return dst
}

// Hidden is what a hidden record says of a run.
type Hidden struct {
	Index int64  // offset of the index
	End   int64  // behind it
	From  int64  // the first frame that may have one of the items
	Bytes int64  // of their bodies
	IDs   []byte // the items, as idset.Bitmap encodes them
}

// AppendHidden records which items of a queue are in a hidden run, which is synced.
func AppendHidden(dst []byte, queue uint64, id segment.RunID, h Hidden) []byte {
	dst = append(dst, KindHidden)
	dst = binary.AppendUvarint(dst, queue)
	dst = binary.AppendUvarint(dst, id.Number)
	dst = binary.LittleEndian.AppendUint64(dst, id.ID)
	for _, n := range [...]int64{h.Index, h.End, h.From, h.Bytes, int64(len(h.IDs))} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return append(dst, h.IDs...)
}

// hidden reads the fields of a hidden record behind the run.
func (r *reader) hidden() (h Hidden) {
	h = Hidden{Index: r.size(), End: r.size(), From: r.size(), Bytes: r.size()}
	size := r.number()
	if size == 0 || size > uint64(len(r.b)) || h.Index <= segment.RunStart || h.End <= h.Index || h.From > math.MaxInt32 {
		r.bad = true
		return h
	}
	h.IDs = r.bytes(int(size))
	return h
}

// Marks is what a marks record says of a file. The zero Marks says that there is none.
type Marks struct {
	Run   segment.RunID
	End   int64  // behind what is synced of it
	Count uint64 // of ids
}

// AppendMarks records which file has ids of a queue that are gone.
func AppendMarks(dst []byte, queue uint64, m Marks) []byte {
	dst = append(dst, KindMarks)
	dst = binary.AppendUvarint(dst, queue)
	if dst = binary.AppendUvarint(dst, m.Run.Number); m.Run.Number == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint64(dst, m.Run.ID)
	dst = binary.AppendUvarint(dst, uint64(m.End))
	return binary.AppendUvarint(dst, m.Count)
}

// marks reads the fields of a marks record behind the queue.
func (r *reader) marks() (m Marks) {
	if m.Run.Number = r.number(); m.Run.Number != 0 {
		m.Run.ID, m.End, m.Count = r.uint64(), r.size(), r.number()
		r.bad = r.bad || m.Run.ID == 0 || m.End <= segment.RunStart || m.Count == 0
	}
	return m
}

// Record is one decoded journal record. Slices alias the frame it was decoded from.
type Record struct {
	Kind    byte
	Queue   uint64        // of all kinds but next and fanout
	ID      uint64        // put, keep, change: the item's; remove: the first item's
	Item    item.Item     // put, next, fanout, keep: without an id
	More    uint32        // remove: how many items behind the first
	Limit   uint64        // flush
	NextID  uint64        // queue
	Created item.Time     // queue
	Name    []byte        // queue
	Images  []byte        // run: one valid image behind the other
	List    Numbers       // fanout: queue, id, queue, id …; flush: ids
	Run     segment.RunID // spilled, hidden
	Spill   runs.State    // spilled
	Change  Change        // change
	Hidden  Hidden        // hidden
	Marks   Marks         // marks
}

// Numbers is a list of valid uvarints.
type Numbers []byte

// Next takes the first number off the list, which must not be empty.
func (l *Numbers) Next() uint64 {
	v, n := binary.Uvarint(*l)
	*l = (*l)[n:]
	return v
}

// reader takes a record apart field by field; bad says that a field is not there, or is not
// valid.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) bytes(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	field := r.b[:n:n]
	r.b = r.b[n:]
	return field
}

func (r *reader) byte() byte {
	if f := r.bytes(1); f != nil {
		return f[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if f := r.bytes(4); f != nil {
		return binary.LittleEndian.Uint32(f)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if f := r.bytes(8); f != nil {
		return binary.LittleEndian.Uint64(f)
	}
	return 0
}

// size reads a number that is not negative as a signed one.
func (r *reader) size() int64 {
	n := r.number()
	if n > math.MaxInt64 {
		r.bad = true
	}
	return int64(n)
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n != NumberSize(v) {
		r.bad = true
	}
	r.bytes(max(n, 0))
	return v
}

// NumberSize is how many bytes v takes as a uvarint.
func NumberSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// numbers reads n pairs, or whatever each says there is of one, of numbers.
func (r *reader) numbers(n, each uint64) Numbers {
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
	return Numbers(list[: len(list)-len(r.b) : len(list)-len(r.b)])
}

func (r *reader) image() item.Item {
	it, n := item.ParseImage(r.b)
	if n == 0 {
		r.bad = true
	}
	r.bytes(n)
	return it
}

// images reads size bytes of images, at least one.
func (r *reader) images(size uint64) []byte {
	if size == 0 || size > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	field := r.bytes(int(size))
	for b := field; len(b) > 0; {
		_, n := item.ParseImage(b)
		if n == 0 {
			r.bad = true
			return nil
		}
		b = b[n:]
	}
	return field
}

// change reads the fields of a change, of which one that is there without need is not valid.
func (r *reader) change() (c Change) {
	fields := r.byte()
	if fields&changeDue != 0 {
		c.Due = item.Time(r.size())
		r.bad = r.bad || c.Due == 0
	}
	if fields&changeToken != 0 {
		c.Token = r.uint64()
		r.bad = r.bad || c.Token == 0
	}
	if fields&changeCount != 0 {
		count := r.number()
		c.Count = uint16(count)
		r.bad = r.bad || count == 0 || count > math.MaxUint16
	}
	r.bad = r.bad || fields&^byte(changeFields) != 0
	return c
}

// Parse decodes the record at the start of b and returns its size in bytes. It allocates
// nothing unless it fails.
func Parse(b []byte) (rec Record, size int, err error) {
	r := reader{b: b}
	rec.Kind = r.byte()
	switch rec.Kind {
	case KindPut, KindKeep:
		rec.Queue, rec.ID = r.number(), r.number()
		rec.Item = r.image()
	case KindNext:
		rec.Item = r.image()
	case KindFanout:
		n := r.number()
		r.bad = r.bad || n < 2
		rec.List = r.numbers(n, 2)
		rec.Item = r.image()
	case KindRemove:
		rec.More = r.uint32()
		rec.Queue, rec.ID = r.number(), r.number()
	case KindFlush:
		rec.Queue, rec.Limit = r.number(), r.number()
		rec.List = r.numbers(r.number(), 1)
	case KindQueue:
		rec.Queue, rec.NextID, rec.Created = r.number(), r.number(), item.Time(r.number())
		rec.Name = r.bytes(int(r.byte()))
	case KindDelete:
		rec.Queue = r.number()
	case KindSpill:
		rec.Queue = r.number()
		rec.Run = segment.RunID{Number: r.number(), ID: r.uint64()}
		rec.Spill = runs.State{
			FirstID: r.number(), LastID: r.number(), Count: r.size(), Bytes: r.size(), End: r.size(),
		}
		r.bad = r.bad || !rec.Spill.Plausible()
	case KindPuts:
		rec.Queue, rec.ID = r.number(), r.number()
		rec.Images = r.images(r.number())
	case KindChange:
		rec.Queue, rec.ID = r.number(), r.number()
		rec.Change = r.change()
	case KindHidden:
		rec.Queue = r.number()
		rec.Run = segment.RunID{Number: r.number(), ID: r.uint64()}
		rec.Hidden = r.hidden()
	case KindMarks:
		rec.Queue, rec.Marks = r.number(), r.marks()
	default:
		return rec, 0, fmt.Errorf("unknown record kind %d", rec.Kind)
	}
	if r.bad {
		return rec, 0, fmt.Errorf("record of kind %d is cut short or has a bad field", rec.Kind)
	}
	return rec, len(b) - len(r.b), nil
}
