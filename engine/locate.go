package engine

import (
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
)

// where is where an item of a queue is.
type where uint8

const (
	nowhere   where = iota // it is gone, or about to go, or has never been
	inWindow               // in line, in memory
	isLeaving              // in line, in a chunk that waits to be written
	isWriting              // in line, in a chunk that is being written
	isRecent               // in line, in the recent part
	isOnDisk               // in line, on disk alone: its image is not known
	isHidden               // delayed, on disk alone in a hidden run: likewise
	isAside                // delayed, leased or ready
	isBack                 // handed out, and returned
	isOpen                 // in an open read
)

// spot is the place of an item.
type spot struct {
	where where
	it    Item        // unless it is on disk; its Data is valid until anything of the queue changes
	known bool        // of one that is on disk: it is there all the same
	run   *hidden.Run // of one that is hidden
	entry aside.Entry // of one that is hidden, and known
	ref   aside.Ref   // of one that is aside
	read  *read       // of one that is open or back
}

// know has at know the item if it is on disk, and read is it, and reports whether it is known then.
func (at *spot) know(read diskItem) bool {
	if at.isUnknown() && read.ID == at.it.ID && read.run == at.run {
		at.it, at.entry, at.known = read.Item, read.entry, true
	}
	return !at.isUnknown()
}

// isUnknown reports whether the item has to be read from the disk to be known.
func (at *spot) isUnknown() bool { return (at.where == isOnDisk || at.where == isHidden) && !at.known }

// diskItem is an item that was read from the disk.
type diskItem struct {
	Item
	entry aside.Entry // of one from a hidden run
	run   *hidden.Run // which one: what is put in its place is never in that run
}

// heldNow reports whether somebody has the item.
func (q *queue) heldNow(at *spot) bool {
	return at.where == isOpen || at.where == isAside && q.aside.Get(at.ref).State == aside.Leased
}

// locate finds the item with that id. It takes about the time to go through a few open reads, or a kibibyte of a chunk.
// The first look into a chunk goes through all of that. The caller holds the shard's mutex.
func (q *queue) locate(id uint64) (at spot) {
	if id == 0 || id >= q.nextID {
		return at
	}
	if q.aside != nil {
		if r, ok := q.aside.Find(id); ok {
			return spot{where: isAside, it: q.aside.Item(r), ref: r}
		}
		if run := q.aside.hidden.OnDisk(id); run != nil {
			return spot{where: isHidden, it: Item{ID: id}, run: run}
		}
	}
	if id < q.headID() {
		return q.locateRead(id)
	}
	if q.window.Count > 0 && id <= q.window.LastID() {
		return q.inPart(&q.window, id, inWindow)
	}
	b := q.backlog
	if b == nil || b.count+b.recent.Count == 0 {
		return at
	}
	if b.leaving.Count > 0 && id >= b.leaving.FirstID && id <= b.leaving.LastID() {
		return q.inPart(&b.leaving, id, isLeaving)
	}
	if b.recent.Count > 0 && id >= b.recent.FirstID {
		return q.inPart(&b.recent, id, isRecent)
	}
	for _, c := range b.flying {
		if it, ok := c.Find(&q.shard.pool, id); ok {
			if b.gone.Has(id) {
				return at
			}
			return spot{where: isWriting, it: it}
		}
	}
	if b.onDisk > 0 && id >= b.nextID && id <= q.writtenTo && b.contains(id) && !b.gone.Has(id) {
		at = spot{where: isOnDisk, it: Item{ID: id}}
	}
	return at
}

func (q *queue) inPart(w *item.Window, id uint64, where where) (at spot) {
	if it, ok := w.Find(&q.shard.pool, id); ok {
		at = spot{where: where, it: it}
	}
	return at
}

// locateRead finds an item that was handed out.
func (q *queue) locateRead(id uint64) (at spot) {
	if r := q.returned.find(id); r != nil {
		return spot{where: isBack, it: r.item, read: r}
	}
	if r := q.open.find(id); r != nil {
		return spot{where: isOpen, it: r.item, read: r}
	}
	return at
}

// cut takes the item at a spot out of memory, or out of what is on disk. A fetch or a start does not find it
// there any more; what becomes of it the caller records.
func (e *Engine) cut(q *queue, at *spot) {
	p, b, id := &q.shard.pool, q.backlog, at.it.ID
	n := int64(len(at.it.Data))
	switch at.where {
	case inWindow:
		q.window.Cut(p, id)
		if b != nil {
			if id <= q.writtenTo {
				b.gone.Add(id)
			}
			e.popped(q)
		}
	case isLeaving:
		b.leaving.Cut(p, id)
		b.count, b.bytes = b.count-1, b.bytes-n
	case isWriting:
		b.gone.Add(id)
		b.cut = append(b.cut, id)
		b.count, b.bytes, b.writing = b.count-1, b.bytes-n, b.writing-1
	case isRecent:
		b.recent.Cut(p, id)
	case isOnDisk:
		b.gone.Add(id)
		if at.known {
			b.bytes -= n
		} else {
			b.unsized.Add(id)
		}
		b.count, b.onDisk = b.count-1, b.onDisk-1
	case isAside:
		q.dropAside(at.ref)
		e.wantMore(q)
	case isHidden: // it leaves its run when it is recorded
	case isBack:
		q.returned.remove(at.read)
		q.shard.freeRead(at.read)
	case isOpen:
		q.open.remove(at.read)
		q.shard.freeRead(at.read)
	}
	if q.zeroBytes(); b != nil && b.inReadBehind && b.count == 0 {
		e.leaveReadBehind(q)
	}
}

// ofKey finds the item of a key, if there is one that has not expired. Of one that is on disk alone it does not know.
func (q *queue) ofKey(key []byte, now Time) (at spot, ok bool) {
	if q == nil || q.keys == nil {
		return at, false
	}
	id, ok := q.keys.Of(key)
	if !ok {
		return at, false
	}
	at = q.locate(id)
	switch {
	case at.where == nowhere: // it was removed by its id, from where nobody could see its key
		q.keys.Forget(key, id)
		return at, false
	case at.isUnknown():
		return at, true
	}
	return at, !q.expired(&at.it, now)
}

// zeroBytes sets the bytes on disk to zero when nothing there lives any more. What is left there is not read.
func (q *queue) zeroBytes() {
	if b := q.backlog; b != nil && b.count == 0 {
		b.bytes, b.unsized = 0, idset.Bitmap{}
	}
}

// MaxKeySize is the longest key of an item, in bytes.
const MaxKeySize = item.MaxKeySize

// Why is why a queue has given an item up.
type Why = item.Why

const (
	TooOften = item.TooOften // it was delivered as often as the queue allows
	Rejected = item.Rejected // a client said so
)

// Duplicate says what a put does with a key that an item of the queue has, or none has.
type Duplicate uint8

const (
	// Overwrite gives the item of the key the new body, flags and expiry, in its place and with its id. It is
	// visible, unless the put has a delay; its lease, or open read, has ended, and its deliveries are forgotten.
	Overwrite Duplicate = iota
	// OnlyNew refuses a key that an item has.
	OnlyNew
	// OnlyReplace refuses a key that no item has, and overwrites otherwise.
	OnlyReplace
)

// ValidateKey returns an error that wraps ErrBadKey unless an item may have that key.
func ValidateKey(key []byte) error {
	if len(key) == 0 {
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	}
	if len(key) > MaxKeySize {
		return fmt.Errorf("%w: it has %d bytes, above %d", ErrBadKey, len(key), MaxKeySize)
	}
	for _, c := range key {
		if c < ' ' || c == 0x7f || c == '/' {
			return fmt.Errorf("%w: it has a control byte or a slash", ErrBadKey)
		}
	}
	return nil
}

// index returns the keys of q, which it makes if there are none. The mutex of the shard guards them.
func (q *queue) index() *keyindex.Keys {
	if q.keys == nil {
		q.keys = keyindex.NewKeys(q.shard.pool.Memory)
	}
	return q.keys
}

// keySeed is the seed of the keys of q, which never changes; nil as long as no item has had a key.
func (q *queue) keySeed() *keyindex.Seed {
	if q.keys == nil {
		return nil
	}
	return &q.keys.Seed
}

// noteKey notes that it is the item of its key.
func (q *queue) noteKey(it *Item) { q.index().Note(it.Key(), it.ID) }

// isOfKey reports whether it, which has a key, is the item of that.
func (q *queue) isOfKey(it *Item) bool {
	if q.keys == nil {
		return false
	}
	id, ok := q.keys.Of(it.Key())
	return ok && id == it.ID
}

// noteNewest is noteKey, unless it has no key, or a newer item has that.
func (q *queue) noteNewest(it *Item) {
	if it.HasKey() {
		q.index().NoteNewest(it.Key(), it.ID)
	}
}
