package oldjournal

import (
	"maps"
	"slices"
)

// Item is where an item of a queue lies.
type Item struct {
	Added  int64 // ms since the Unix epoch; zero: the record does not say
	Expiry int64 // ms since the Unix epoch; zero: never
	Offset int64 // of its data in the file
	Size   int32 // of its data, in bytes
	File   int32 // index of the file in Files.Names
}

// Replay is the state of a queue while its records are replayed. The zero value is an empty queue.
type Replay struct {
	// The queue is returned, last one first, and then added, from head on.
	returned []queued
	added    []queued
	head     int

	open     map[int32]queued // open reads by xid
	used     usedXIDs         // those of open
	carried  map[int32]int32  // number an OpAddXID carried, to the xid its read was given
	lost     []queued         // open reads whose xid was used again
	last     int32            // xid
	unnamed  unnamed
	Returned int // open reads at the end; set by Items
}

// unnamed is the read that the last OpRemoveTentative opened.
type unnamed struct {
	xid       int32 // that it was given; zero: there is none
	item      queued
	confirmed bool
}

// queued is an item that may carry the number of an earlier read.
type queued struct {
	Item
	xid     int32
	carries bool
}

// Apply does what a record, from the file of that index, says. The original replays every record,
// whatever the time: expired items are items.
func (r *Replay) Apply(e *Entry, file int) {
	it := queued{Item: Item{
		Added: e.Added, Expiry: e.Expiry, Offset: e.Data, Size: int32(e.Size), File: int32(file),
	}}
	switch e.Op {
	case OpAdd, OpAddX:
		r.added = append(r.added, it)
	case OpAddXID:
		it.xid, it.carries = e.XID, true
		r.added = append(r.added, it)
	case OpRemove:
		r.pop()
	case OpRemoveTentative:
		if it, ok := r.pop(); ok {
			r.last = r.nextXID()
			r.unnamed = unnamed{xid: r.last, item: it}
			r.openRead(it, r.last)
		}
	case OpRemoveTentativeXID:
		if it, ok := r.pop(); ok {
			r.last = e.XID
			r.openRead(it, r.last)
		}
	case OpSaveXID:
		r.last = e.XID
	case OpUnremove:
		if it, ok := r.aborted(e.XID); ok {
			it.carries = false
			r.returned = append(r.returned, it)
		}
	case OpConfirmRemove:
		if it, ok := r.endRead(e.XID); ok && it.Item == r.unnamed.item.Item {
			r.unnamed.confirmed = true
		}
	case OpContinue:
		r.endRead(e.XID)
		r.added = append(r.added, it)
	}
}

// pop takes the head of the queue.
func (r *Replay) pop() (it queued, ok bool) {
	if n := len(r.returned); n > 0 {
		it, r.returned = r.returned[n-1], r.returned[:n-1]
		return it, true
	}
	if r.head == len(r.added) {
		return it, false
	}
	it = r.added[r.head]
	r.head++
	if r.head >= 1024 && r.head >= len(r.added)/2 {
		r.added = slices.Delete(r.added, 0, r.head)
		r.head = 0
	}
	return it, true
}

// nextXID is the xid that the original gives to a read that names none.
func (r *Replay) nextXID() int32 {
	xid := r.used.next(r.last + 1)
	if xid == 0 {
		xid = r.used.next(1)
	}
	return xid
}

// openRead enters an open read. One of the same xid is not forgotten, as the original did, but
// ends with the journal.
func (r *Replay) openRead(it queued, xid int32) {
	if r.open == nil {
		r.open, r.carried = make(map[int32]queued), make(map[int32]int32)
	}
	if before, used := r.open[xid]; used {
		r.lost = append(r.lost, before)
	}
	r.open[xid] = it
	r.used.add(xid)
	if it.carries {
		r.carried[it.xid] = xid
	}
}

// endRead takes the open read out that a record calls xid. It looks for the xid it was given or else, since 1.x mixed
// the two, for the number its item carried.
func (r *Replay) endRead(xid int32) (it queued, ok bool) {
	if it, ok = r.open[xid]; !ok {
		given, known := r.carried[xid]
		if it, ok = r.open[given]; !known || !ok || !it.carries || it.xid != xid {
			return it, false
		}
		xid = given
	}
	delete(r.open, xid)
	r.used.remove(xid)
	if given, known := r.carried[it.xid]; it.carries && known && given == xid {
		delete(r.carried, it.xid)
	}
	return it, true
}

// aborted takes out the item that an OpUnremove of xid brings back.
//
// No read has the xid 0. But 2.x, when it replayed a journal of 1.x, took every OpRemoveTentative for one of the xid
// 0, and forgot the one before it. So it found nothing to confirm in what 1.x confirmed, and brought the last one
// back at the end. What it then removed from the head was that item.
func (r *Replay) aborted(xid int32) (it queued, ok bool) {
	last := r.unnamed
	if _, open := r.open[xid]; xid != 0 || open || last.xid == 0 {
		return r.endRead(xid)
	}
	r.unnamed = unnamed{}
	if last.confirmed {
		return last.item, true
	}
	if r.open[last.xid].Item != last.item.Item {
		return it, false // it is back already
	}
	return r.endRead(last.xid)
}

// Items ends the replay: open reads go back to the head, so that the one with the lowest xid comes
// first. It returns the items of the queue, oldest first.
func (r *Replay) Items() []Item {
	r.Returned = len(r.open) + len(r.lost)
	all := make([]Item, 0, r.Returned+len(r.returned)+len(r.added)-r.head)
	take := func(list []queued) {
		for _, it := range list {
			all = append(all, it.Item)
		}
	}
	take(r.lost)
	for _, xid := range slices.Sorted(maps.Keys(r.open)) {
		all = append(all, r.open[xid].Item)
	}
	for _, it := range slices.Backward(r.returned) {
		all = append(all, it.Item)
	}
	take(r.added[r.head:])
	return all
}
