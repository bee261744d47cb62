package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// Everything that a queue takes in comes through add: what clients put, with the copies of fanout
// children, what expires from another queue, and what Restore brings.

// add adds the first items of puts, as added at that time, to the queues in sh.targets, and to s what the
// caller must wait for. It returns how many: one if there are several queues, or from is set, and at least
// one in any case. One record of the journal holds them for all the queues. If the item expired from another queue, and the journal
// has it there, from says where. Then add serves those who wait. The caller holds the shard's mutex, and
// has made room for the first.
func (e *Engine) add(
	sh *shard, now Time, puts []PutRequest, added Time, from record.Destination, s *Stored,
) (n int) {
	moved := from != record.Destination{}
	if len(sh.targets) != 1 || moved {
		puts = puts[:1]
	}
	delayed := puts[0].Extra != nil && puts[0].Extra.Delay > 0
	n = 1
	var images []byte
	sh.to = sh.to[:0]
	for _, q := range sh.targets {
		if q.opts.KeepJournal {
			sh.to = append(sh.to, record.Destination{Queue: q.number, Item: q.nextID})
		}
		if !delayed {
			n, images = e.push(q, puts, added)
		}
	}
	if delayed {
		e.addDelayed(sh, &puts[0], added, s)
		return 1
	}
	var (
		lsn LSN
		seg uint64
	)
	switch p := &puts[0]; {
	case len(sh.to) == 0:
	case sh.large.of(p) && sh.large.frame.Holds(len(sh.to)):
		lsn, seg = e.journal.PutLarge(sh.to, sh.large.frame)
	case len(sh.to) == 1 && !moved:
		lsn, seg = e.journal.PutRun(sh.to[0], images, n)
	default:
		it := Item{Data: p.Data, Flags: p.Flags, Added: added, Expiry: p.Expiry}
		lsn, seg = e.journal.Put(sh.to, it, from)
	}
	for _, q := range sh.targets {
		if q.opts.KeepJournal {
			first := q.nextID - uint64(n)
			q.mark(seg, first)
			q.notePut(e.journal, first, lsn)
			s.Ticket = s.Ticket.Merge(q.ticket(e.journal, lsn))
		}
		e.overflow(q)
		s.Ahead = s.Ahead || e.ahead(q)
		if q.waiters.First() != nil {
			e.serve(q, now)
		}
	}
	return n
}

// push appends the first of puts to q in memory, and those behind it that follow it in the same chunk
// and for which nobody has to make room. It returns how many, and their images, which lie one behind
// the other.
func (e *Engine) push(q *queue, puts []PutRequest, added Time) (n int, images []byte) {
	if q.items() == 0 {
		q.lastGone = 0
	}
	p := &puts[0]
	w := e.newest(q, len(p.Data))
	before := w.Bytes
	it := Item{ID: q.nextID, Data: p.Data, Flags: p.Flags, Added: added, Expiry: p.Expiry}
	if large := q.shard.large; large.of(p) {
		w.PushLarge(large.chunk(), it)
	} else {
		w.Push(&q.shard.pool, it, q.opts.MaxMemorySize)
	}
	c, pushed := w.Tail, w.Tally
	start := len(c.Buf) - item.ImageSize(it)
	for n = 1; n < len(puts); n++ {
		next := &puts[n]
		if next.ClientID != p.ClientID || next.Extra != nil || !q.hasRoom(w, len(next.Data)) ||
			!w.Extend(next.Data, next.Flags, added, next.Expiry) {
			break
		}
	}
	extended := w.Tally
	extended.Add(pushed, -1)
	c.Add(extended, 1)
	q.nextID += uint64(n)
	q.counters.puts += int64(n)
	q.counters.putBytes += w.Bytes - before
	return n, c.Buf[start:]
}

// hasRoom reports whether a put of n bytes to the queue, which is not empty, would neither drop
// anything nor look for what has expired, nor make w, the newest part of it, too large.
func (q *queue) hasRoom(w *item.Window, n int) bool {
	return !q.mayExpire() && int64(n) <= q.opts.MaxItemSize && q.items() < q.opts.MaxItems &&
		q.bytes() < q.opts.MaxSize && w.Bytes+int64(n) <= q.opts.MaxMemorySize
}

// makeRoom reports whether q takes an item of n bytes now, after dropping what its options let it drop:
// of expired items, up to sweep, and more only as long as q is full. Nothing of the item has been added
// yet.
func (e *Engine) makeRoom(q *queue, now Time, n int, sweep int64) error {
	if int64(n) > q.opts.MaxItemSize {
		return ErrItemTooLarge
	}
	if q.opts.FanoutOnly && !q.isChild() {
		return nil
	}
	e.wakeUp(q, now)
	if q.items() > 0 {
		e.sweep(q, now, min(q.opts.MaxExpireSweep, sweep))
	}
	for q.items() >= q.opts.MaxItems || q.bytes() >= q.opts.MaxSize {
		it, ok := q.first()
		if ok && q.expired(it, now) { // never what fills a queue, whatever MaxExpireSweep
			e.sweep(q, now, 1)
			continue
		}
		if q.opts.DiscardOldWhenFull && !ok && q.coming() {
			e.owesRoom(q, n)
			break
		}
		if !q.opts.DiscardOldWhenFull || !ok {
			return ErrQueueFull
		}
		e.discard(q, it)
	}
	return nil
}

// fanoutGrowth is how many bytes of memory it takes at most to put an item to q and its children.
func (q *queue) fanoutGrowth(it Item) (n int64) {
	size := item.ImageSize(it)
	for _, child := range q.family.children {
		n += child.growth(size)
	}
	return n + q.growth(size)
}

// growth is how many bytes of memory it takes to push an item whose image has so many.
func (q *queue) growth(size int) int64 {
	w := &q.window
	if b := q.backlog; b != nil && b.inReadBehind {
		w = &b.recent
	}
	return w.Growth(size, q.opts.MaxMemorySize)
}
