package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// PutRequest is what a put adds.
type PutRequest struct {
	Data     []byte // copied before Put returns
	Flags    uint32 // kept and handed out with the item
	Expiry   Time   // zero: never
	ClientID string // for queues that admit one client only
	// Meter, unless nil, is set to the Meter of the queue that was put to; an alias leaves it
	// alone. Of several puts at once, the first says it.
	Meter **Meter
}

// Put appends an item to the queue called name, which is made if it does not exist, to the queue's
// fanout children, or to the destinations if name is an alias. It never waits; the put may be
// acknowledged once Commit of the ticket has returned nil, and the ticket may ask the caller to wait
// before the next one.
//
// It returns ErrQueueFull, ErrItemTooLarge, a *NotAdmittedError, ErrOutOfMemory, ErrOutOfDisk,
// ErrJournal, ErrTooManyQueues, ErrTooManyChildren or ErrBadName if the queue itself, or any destination of an alias,
// refuses the item; fanout children, and earlier destinations, may have it then.
func (e *Engine) Put(now Time, name []byte, p PutRequest) (Ticket, error) {
	defer contain()
	s := e.settings.Load()
	if len(s.Aliases) > 0 {
		if to, ok := s.Aliases[string(name)]; ok {
			return e.putAlias(now, string(name), to, p)
		}
	}
	if err := e.admit(len(p.Data)); err != nil {
		return Ticket{}, err
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	q, made, err := e.find(sh, now, name)
	if err != nil {
		sh.mu.Unlock()
		return made, err
	}
	if p.Meter != nil {
		*p.Meter = e.measured(q)
	}
	t, err := e.put(q, now, p)
	moves := sh.takeMoves()
	sh.mu.Unlock()
	if moves != nil {
		e.finishMoves(now, moves)
	}
	return t.Merge(made), err
}

// admit tells whether the engine has room for an item of n bytes, whatever queue it goes to.
func (e *Engine) admit(n int) error {
	switch {
	case e.closed.Load():
		return ErrClosed
	case n > MaxItemSize:
		return ErrItemTooLarge
	case e.memory.Load()+int64(n) > e.opts.MemoryLimit:
		return ErrOutOfMemory
	case e.memoryPressing():
		signal(e.pressed)
	}
	if e.lowDisk.Load() {
		return ErrOutOfDisk
	}
	return e.journal.admit(n)
}

// put appends an item to q and its children. The caller holds the shard's mutex.
func (e *Engine) put(q *queue, now Time, p PutRequest) (Ticket, error) {
	if q.takesRuns() {
		_, t, err := e.putRun(q, now, []PutRequest{p})
		return t, err
	}
	sh := q.shard
	sh.targets = sh.targets[:0]
	if err := q.admitEnqueue(p.ClientID); err != nil {
		return Ticket{}, err
	}
	it := Item{Data: p.Data, Flags: p.Flags, Added: now, Expiry: p.Expiry}
	sweep := int64(sweepBatch)
	if q.family != nil {
		if q.family.withheld != nil {
			return Ticket{}, q.family.withheld // the child would miss the item
		}
		if e.memory.Load()+q.fanoutGrowth(it) > e.opts.MemoryLimit {
			return Ticket{}, ErrOutOfMemory
		}
		sweep = max(sweep/int64(len(q.family.children)+1), 1)
		for _, child := range q.family.children {
			if e.makeRoom(child, now, len(p.Data), sweep) == nil {
				sh.targets = append(sh.targets, child)
			}
		}
	}
	err := e.makeRoom(q, now, len(p.Data), sweep)
	if err == nil {
		if q.opts.FanoutOnly && !q.isChild() {
			q.counters.puts++
			q.counters.putBytes += int64(len(p.Data))
			sh.puts++
		} else {
			sh.targets = append(sh.targets, q)
		}
	}
	sh.puts += int64(len(sh.targets))
	return e.append(sh, now, it, record.Destination{}), err
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

// makeRoom tells whether q takes an item of n bytes now, after dropping what its options let it drop:
// of expired items, up to sweep, and more only as long as q is full. Nothing of the item has been added
// yet.
func (e *Engine) makeRoom(q *queue, now Time, n int, sweep int64) error {
	if int64(n) > q.opts.MaxItemSize {
		return ErrItemTooLarge
	}
	if q.opts.FanoutOnly && !q.isChild() {
		return nil
	}
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

// append adds it to the queues in sh.targets with one journal record for all of them, and serves
// their waiters. If the item expired from another queue, and the journal has it there, from says
// where. The caller holds the shard's mutex.
func (e *Engine) append(sh *shard, now Time, it Item, from record.Destination) Ticket {
	sh.to = sh.to[:0]
	for _, q := range sh.targets {
		if q.opts.KeepJournal {
			sh.to = append(sh.to, record.Destination{Queue: q.number, Item: q.nextID})
		}
	}
	var (
		t       Ticket
		lsn     LSN
		segment uint64
	)
	if len(sh.to) > 0 {
		lsn, segment = e.journal.put(sh.to, it, from)
	}
	for _, q := range sh.targets {
		if q.items() == 0 {
			q.lastGone = 0
		}
		it.ID = q.nextID
		q.nextID++
		q.counters.puts++
		q.counters.putBytes += int64(len(it.Data))
		if q.opts.KeepJournal {
			t = t.Merge(q.ticket(e.journal, lsn))
			e.push(q, it, segment)
		} else {
			e.push(q, it, 0)
		}
		t.Ahead = t.Ahead || e.ahead(q)
		if q.waiters.head != nil {
			e.serve(q, now)
		}
	}
	return t
}

// putAlias puts to every destination, as a client would; each may be an alias or a fanout child.
func (e *Engine) putAlias(now Time, name string, to []string, p PutRequest) (Ticket, error) {
	e.countAlias(name, len(p.Data))
	p.Meter = nil
	var (
		t     Ticket
		first error
	)
	for _, target := range to {
		u, err := e.Put(now, []byte(target), p)
		t = t.Merge(u)
		if err != nil && first == nil {
			first = err
		}
	}
	return t, first
}
