package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// PutRequest is what a put adds.
type PutRequest struct {
	Data     []byte    // copied before Put returns
	Flags    uint32    // kept and handed out with the item
	Expiry   Time      // zero: never
	ClientID string    // for queues that admit one client only
	Extra    *PutExtra // nil: nothing
}

// Stored is the outcome of puts.
type Stored struct {
	// Count is how many items were put, which are the first of those given.
	Count int
	// Ticket is to be committed before the puts are acknowledged.
	Ticket Ticket
	// Ahead says that a queue that was put to takes items faster than the disk does. The puts may be
	// acknowledged. The caller should wait before it puts more, until [Engine.Ahead] says no: otherwise
	// memory and the journal grow up to the limits at which puts are refused.
	Ahead bool
	// Meter is that of the queue; nil for an alias, and if nothing is measured.
	Meter *Meter
}

// Put appends an item to the queue called name, which is made if it does not exist, to the queue's
// fanout children, or to the destinations if name is an alias. It never waits; the put may be
// acknowledged once Commit of the ticket has returned nil. A caller that puts much uses PutAll, whose
// outcome says when to wait for the disk.
//
// It returns ErrQueueFull, ErrItemTooLarge, a *NotAdmittedError, ErrOutOfMemory, ErrOutOfDisk,
// ErrJournal, ErrTooManyQueues, ErrTooManyChildren, ErrBadName or ErrDelayTooLong if the queue itself, or any destination of an alias,
// refuses the item; fanout children, and earlier destinations, may have it then.
func (e *Engine) Put(now Time, name []byte, p PutRequest) (Ticket, error) {
	defer contain()
	var s Stored
	err := e.putAll(now, name, []PutRequest{p}, &s)
	return s.Ticket, err
}

// PutAll is Put for several items to one queue, in order. It ends at the first item that is refused:
// the outcome is that of the items before it, and the error, one of Put's, says why.
//
// The queue's shard is locked for as many puts as there are: a caller passes no more than others
// may be kept waiting for.
func (e *Engine) PutAll(now Time, name []byte, puts []PutRequest) (s Stored, err error) {
	defer contain()
	err = e.putAll(now, name, puts, &s)
	return s, err
}

// putAll is PutAll of the items from s.Count on, and adds the outcome to s.
func (e *Engine) putAll(now Time, name []byte, puts []PutRequest, s *Stored) (err error) {
	if aliases := e.settings.Load().Aliases; len(aliases) > 0 {
		if to, ok := aliases[string(name)]; ok {
			return e.putAlias(now, string(name), to, puts, s)
		}
	}
	sh := e.shardOf(name)
	if s.Count < len(puts) {
		err = e.admit(len(puts[s.Count].Data))
	}
	for err == nil && s.Count < len(puts) {
		var large *largePut
		if p := &puts[s.Count]; item.IsLarge(len(p.Data)) && p.Extra == nil {
			if large, err = e.prepare(sh, now, name, p); err != nil {
				break
			}
		}
		sh.mu.Lock()
		sh.large = large
		q, made, failed := e.find(sh, now, name)
		if err = failed; err == nil {
			s.Meter = e.measured(q)
			s.Ticket = s.Ticket.Merge(made)
		}
		for err == nil && s.Count < len(puts) {
			if err = e.put(q, now, puts[s.Count:], s); err == nil && s.Count < len(puts) {
				err = e.admit(len(puts[s.Count].Data))
			}
			if len(sh.moves) > 0 { // what has expired into another queue arrives before the next put
				break
			}
			if s.Count < len(puts) && item.IsLarge(len(puts[s.Count].Data)) {
				break
			}
		}
		sh.large = nil
		e.unlock(sh, now)
		e.dropLarge(large)
	}
	return err
}

// putAlias puts every item to every destination, as a client would; each may be an alias or a fanout
// child.
func (e *Engine) putAlias(now Time, name string, to []string, puts []PutRequest, s *Stored) (first error) {
	for n := s.Count; n < len(puts) && first == nil; n++ {
		e.countAlias(name, len(puts[n].Data))
		for _, target := range to {
			s.Count = n
			if err := e.putAll(now, []byte(target), puts[:n+1], s); err != nil && first == nil {
				first = err
			}
		}
		if s.Count = n; first == nil {
			s.Count++
		}
	}
	s.Meter = nil
	return first
}

// admit reports whether the engine has room for an item of n bytes, whatever queue it goes to.
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
	return e.journal.Admit(n)
}

// put puts the first items of puts to q and its fanout children, at least one unless that is refused,
// and adds them to s. Only the first is looked at closely: it may need a chunk, or others to
// leave. Those that follow it need neither. Fanout children may have an item that q refuses. The caller
// holds the shard's mutex, and the engine has admitted the first.
func (e *Engine) put(q *queue, now Time, puts []PutRequest, s *Stored) (err error) {
	p, sh := &puts[0], q.shard
	if err := q.admitEnqueue(p.ClientID); err != nil {
		return err
	}
	if p.Extra != nil {
		if err := q.admitDelay(p.Extra.Delay); err != nil {
			return err
		}
	}
	sh.targets = sh.targets[:0]
	sweep := int64(sweepBatch)
	passesOn := q.opts.FanoutOnly && !q.isChild()
	if q.family != nil {
		if sweep, err = e.putToChildren(q, now, p); err != nil {
			return err
		}
	}
	if err = e.makeRoom(q, now, len(p.Data), sweep); err != nil && len(sh.targets) == 0 {
		return err
	}
	switch {
	case err != nil:
	case passesOn:
		q.counters.puts++
		q.counters.putBytes += int64(len(p.Data))
		sh.puts++
	default:
		sh.targets = append(sh.targets, q)
	}
	if q.family != nil || passesOn || e.journal.Full() || len(sh.moves) > 0 {
		puts = puts[:1] // every queue, or the room that is left, is looked at for each; what expired comes before it
	}
	n := e.add(sh, now, puts, now, record.Destination{}, s)
	sh.puts += int64(n * len(sh.targets))
	if err == nil {
		s.Count += n
	}
	return err
}

// putToChildren names the fanout children of q that take p in the shard's targets, and returns how many
// expired items q may remove for it.
func (e *Engine) putToChildren(q *queue, now Time, p *PutRequest) (sweep int64, err error) {
	if q.family.withheld != nil {
		return 0, q.family.withheld // the child would miss the item
	}
	if !q.shard.large.of(p) && e.memory.Load()+q.fanoutGrowth(Item{Data: p.Data, Flags: p.Flags, Added: now, Expiry: p.Expiry}) > e.opts.MemoryLimit {
		return 0, ErrOutOfMemory
	}
	sweep = max(sweepBatch/int64(len(q.family.children)+1), 1)
	for _, child := range q.family.children {
		if e.makeRoom(child, now, len(p.Data), sweep) == nil {
			q.shard.targets = append(q.shard.targets, child)
		}
	}
	return sweep, nil
}
