package repair

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// writeJournal makes a journal in dir that says what the queues are, and makes it durable.
func (d *Damage) writeJournal(dir string) (err error) {
	log, _, err := segment.Open(dir, d.place.Log, func(segment.Frame) error { return nil })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	buf, version := make([]byte, segment.FrameHeaderSize, 2*journal.MaxBatch), segment.Version1
	flush := func(least int) error {
		if len(buf) <= max(least, segment.FrameHeaderSize) {
			return nil
		}
		_, grown, err := log.AppendAs(version, buf)
		if buf = make([]byte, segment.FrameHeaderSize, 2*journal.MaxBatch); grown != nil {
			buf = grown[:segment.FrameHeaderSize]
		}
		return err
	}
	batch := int(min(journal.MaxBatch, d.place.Log.SegmentSize/4))
	for _, q := range d.queues {
		if len(q.Changed) > 0 || len(q.Hidden) > 0 || q.isRich() {
			version = segment.Version2
		}
		q.eachRecord(func(encode func([]byte) []byte) {
			if buf = encode(buf); err == nil {
				err = flush(batch)
			}
		})
	}
	if err == nil {
		err = flush(0)
	}
	if err == nil {
		_, err = log.Sync()
	}
	return err
}

// isRich reports whether an item in the journal is not plain.
func (q *salvagedQueue) isRich() (rich bool) {
	for _, it := range q.Kept {
		rich = rich || !it.IsPlain()
	}
	q.Window.Each(func(it item.Item) bool {
		rich = rich || !it.IsPlain()
		return !rich
	})
	return rich
}

// eachRecord calls write with a function that encodes a record, for each record of q.
func (q *salvagedQueue) eachRecord(write func(encode func([]byte) []byte)) {
	name := func(nextID uint64) {
		write(func(b []byte) []byte { return record.AppendQueue(b, q.Number, nextID, q.Created, q.Name) })
	}
	name(1)
	last := uint64(0) // of the runs
	for _, r := range q.live {
		last = max(last, r.recorded.LastID)
		write(func(b []byte) []byte { return record.AppendSpill(b, q.Number, r.id, r.recorded) })
	}
	for _, ids := range q.Gone.Within(idset.Between(1, last)) {
		for first := ids.First; first <= ids.Last; {
			more := min(ids.Last-first, math.MaxUint32)
			write(func(b []byte) []byte { return record.AppendRemove(b, q.Number, first, uint32(more)) })
			first += more + 1
		}
	}
	change := func(id uint64) {
		if c, ok := q.Changed[id]; ok {
			write(func(b []byte) []byte { return record.AppendChange(b, q.Number, id, c) })
		}
	}
	kept := slices.Sorted(maps.Keys(q.Kept))
	early, _ := slices.BinarySearch(kept, last+1)
	for _, id := range kept[:early] {
		write(func(b []byte) []byte { return record.AppendKeep(b, q.Number, q.Kept[id]) })
		change(id)
	}
	put := func(it item.Item) {
		write(func(b []byte) []byte {
			return record.AppendPut(b, record.Destination{Queue: q.Number, Item: it.ID}, it)
		})
		change(it.ID)
	}
	late := kept[early:]
	q.Window.Each(func(it item.Item) bool {
		for len(late) > 0 && late[0] < it.ID {
			put(q.Kept[late[0]])
			late = late[1:]
		}
		put(it)
		return true
	})
	for _, id := range late {
		put(q.Kept[id])
	}
	for _, h := range q.Hidden { // behind the puts, whose ids must rise
		state := h.State
		state.IDs = h.Live.AppendTo(nil)
		write(func(b []byte) []byte { return record.AppendHidden(b, q.Number, h.ID, state) })
	}
	name(q.NextID)
}
