package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// PutAll is Put for several items to one queue, in order. It ends at the first item that is refused
// and returns how many were put before that one, what they wait for, and the error that refused it,
// one of Put's.
//
// The queue's shard is locked for as many puts as there are: a caller passes no more than others
// may be kept waiting for.
func (e *Engine) PutAll(now Time, name []byte, puts []PutRequest) (n int, t Ticket, err error) {
	defer contain()
	s := e.settings.Load()
	if len(s.Aliases) > 0 {
		if _, ok := s.Aliases[string(name)]; ok {
			return e.putEach(now, name, puts)
		}
	}
	sh := e.shardOf(name)
	for n < len(puts) {
		if err := e.admit(len(puts[n].Data)); err != nil {
			return n, t, err
		}
		sh.mu.Lock()
		q, made, err := e.find(sh, now, name)
		if err != nil {
			sh.mu.Unlock()
			return n, t.Merge(made), err
		}
		if m := puts[0].Meter; m != nil {
			*m = e.measured(q)
		}
		taken, u, err := e.putSome(q, now, puts[n:])
		n, t = n+taken, t.Merge(made).Merge(u)
		moves := sh.takeMoves()
		sh.mu.Unlock()
		if moves != nil {
			e.finishMoves(now, moves)
		}
		if err != nil {
			return n, t, err
		}
	}
	return n, t, nil
}

// putSome puts items until one is refused, or others have been expired into another queue, which
// is to be finished first. The caller holds the shard's mutex, and the engine has admitted the
// first.
func (e *Engine) putSome(q *queue, now Time, puts []PutRequest) (n int, t Ticket, err error) {
	for {
		var taken int
		var u Ticket
		if q.takesRuns() {
			taken, u, err = e.putRun(q, now, puts[n:])
		} else if u, err = e.put(q, now, puts[n]); err == nil {
			taken = 1
		}
		n, t = n+taken, t.Merge(u)
		if err != nil || n == len(puts) || len(q.shard.moves) > 0 {
			return n, t, err
		}
		if err = e.admit(len(puts[n].Data)); err != nil {
			return n, t, err
		}
	}
}

// putEach puts one item after the other.
func (e *Engine) putEach(now Time, name []byte, puts []PutRequest) (n int, t Ticket, err error) {
	for ; n < len(puts); n++ {
		u, err := e.Put(now, name, puts[n])
		t = t.Merge(u)
		if err != nil {
			return n, t, err
		}
	}
	return n, t, nil
}

// takesRuns reports whether what is put to the queue goes there and nowhere else.
func (q *queue) takesRuns() bool {
	return q.family == nil && (!q.opts.FanoutOnly || q.isChild())
}

// putRun puts the first items of puts, at least one unless that is refused, and returns how many.
// Only the first is looked at as closely as a put is: it may need a chunk, or others to leave. The
// run goes on as long as the next one follows it in the same chunk and nobody has to make room.
// Their images, which lie one behind the other, become one record of the journal. The caller holds
// the shard's mutex, and the engine has admitted the first.
func (e *Engine) putRun(q *queue, now Time, puts []PutRequest) (n int, t Ticket, err error) {
	p := &puts[0]
	if err := q.admitEnqueue(p.ClientID); err != nil {
		return 0, Ticket{}, err
	}
	if err := e.makeRoom(q, now, len(p.Data), sweepBatch); err != nil {
		return 0, Ticket{}, err
	}
	if q.items() == 0 {
		q.lastGone = 0
	}
	w := e.newest(q, len(p.Data))
	before, first := w.Bytes, q.nextID
	it := Item{ID: first, Data: p.Data, Flags: p.Flags, Added: now, Expiry: p.Expiry}
	w.Push(&q.shard.pool, it, q.opts.MaxMemorySize)
	c, pushed := w.Tail, w.Tally
	start := len(c.Buf) - item.ImageSize(it)
	most := len(puts)
	if e.journal.noDisk.Load() || len(q.shard.moves) > 0 {
		most = 1 // each is weighed against the room that is left; what expired comes before the next
	}
	for n = 1; n < most; n++ {
		p := &puts[n]
		if p.ClientID != puts[0].ClientID || !q.hasRoom(w, len(p.Data)) ||
			!w.Extend(p.Data, p.Flags, now, p.Expiry) {
			break
		}
	}
	extended := w.Tally
	extended.Add(pushed, -1)
	c.Add(extended, 1)
	q.nextID = first + uint64(n)
	q.counters.puts += int64(n)
	q.counters.putBytes += w.Bytes - before
	q.shard.puts += int64(n)
	if q.opts.KeepJournal {
		lsn, segment := e.journal.putRun(record.Destination{Queue: q.number, Item: first}, c.Buf[start:], n)
		q.mark(segment, first)
		t = q.ticket(e.journal, lsn)
	}
	e.overflow(q)
	t.Ahead = e.ahead(q)
	if q.waiters.head != nil {
		e.serve(q, now)
	}
	return n, t, nil
}

// hasRoom reports whether a put of n bytes to the queue, which is not empty, would neither drop
// anything nor look for what has expired, nor make w, the newest part of it, too large.
func (q *queue) hasRoom(w *item.Window, n int) bool {
	return !q.mayExpire() && int64(n) <= q.opts.MaxItemSize && q.items() < q.opts.MaxItems &&
		q.bytes() < q.opts.MaxSize && w.Bytes+int64(n) <= q.opts.MaxMemorySize
}
