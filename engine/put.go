package engine

import (
	"errors"

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
	// Replaced is how many puts to the queue itself took the place of an item with the same key.
	Replaced int
	// Ticket is to be committed before the puts are acknowledged.
	Ticket Ticket
	// Ahead says that a queue that was put to takes items faster than the disk does. The puts may be acknowledged.
	// The caller should wait before it puts more, until [Engine.Ahead] says no. Otherwise memory and the journal grow
	// until the engine refuses puts.
	Ahead bool
	// Meter is that of the queue; nil for an alias, and if nothing is measured.
	Meter *Meter
}

// Put appends an item to the queue called name, which it makes if it does not exist, and to the queue's fanout
// children. If name is an alias, Put appends the item to the destinations. It never waits; the put may be acknowledged
// once Commit of the ticket has returned nil. A caller that puts much uses PutAll, whose outcome says when to wait for
// the disk.
//
// It returns an error if the queue itself, or any destination of an alias, refuses the item. The errors are
// ErrQueueFull, ErrItemTooLarge, a *NotAdmittedError, ErrOutOfMemory, ErrOutOfDisk, ErrJournal, ErrTooManyQueues,
// ErrTooManyChildren, ErrBadName and ErrDelayTooLong. Fanout children, and earlier destinations, may have it then.
// With ErrKeyExists the ticket is that of the item which has the key.
func (e *Engine) Put(now Time, name []byte, p PutRequest) (Ticket, error) {
	defer contain()
	var s Stored
	err := e.putAll(now, name, []PutRequest{p}, &s)
	return s.Ticket, err
}

// PutAll is Put for several items to one queue, in order. It ends at the first item that is refused. The outcome is
// then that of the items before it, and the error is one of Put's.
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
	for err == nil && s.Count < len(puts) {
		n := len(puts[s.Count].Data)
		if err = e.admit(n); err != nil {
			break
		}
		if err = errShared; !item.IsLarge(n) {
			err = e.putSome(sh, now, name, puts, nil, s)
		}
		if err == errShared {
			err = e.putLarge(sh, now, name, puts[:s.Count+1], s)
		}
	}
	return err
}

// putSome puts some of puts from s.Count on, of which the engine has admitted the first, with the shard locked once. It
// adds the outcome to s. It ends at a large item, unless large is made for that.
func (e *Engine) putSome(
	sh *shard, now Time, name []byte, puts []PutRequest, large *largePut, s *Stored,
) (err error) {
	sh.mu.Lock()
	sh.large = large
	q := sh.called(name)
	if q == nil {
		var made Ticket
		q, made, err = e.create(sh, now, string(name))
		s.Ticket = s.Ticket.Merge(made)
	}
	if err == nil {
		s.Meter = e.measured(q)
	}
	for taken := 0; err == nil; {
		first := s.Count
		err = e.put(q, now, puts[first:], s)
		work := (s.Count - first) * q.family.takers()
		if puts[first].Extra != nil {
			work *= extraWork
		}
		taken += work
		if err != nil || s.Count == len(puts) || taken >= maxTaken { // let others in
			break
		}
		next := len(puts[s.Count].Data)
		if len(sh.moves) > 0 || item.IsLarge(next) { // what has expired into another queue arrives first
			break
		}
		err = e.admit(next)
	}
	sh.large = nil
	e.unlock(sh, now)
	return err
}

// putLarge is putSome for a large item, or one whose image many queues share, which is the last of puts.
func (e *Engine) putLarge(sh *shard, now Time, name []byte, puts []PutRequest, s *Stored) error {
	large, err := e.prepare(sh, now, name, &puts[s.Count])
	if err != nil {
		return err
	}
	defer e.dropLarge(large)
	return e.putSome(sh, now, name, puts, large, s)
}

// putAlias puts every item to every destination, as a client would; each may be an alias or a fanout child.
func (e *Engine) putAlias(now Time, name string, to []string, puts []PutRequest, s *Stored) (first error) {
	for n := s.Count; n < len(puts) && first == nil; n++ {
		e.aliases.Put(name, len(puts[n].Data))
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

// FansOut reports whether there are aliases or fanout children: if not, every put goes to one queue.
func (e *Engine) FansOut() bool { return e.parents.Load() != 0 || len(e.settings.Load().Aliases) > 0 }

// Takers returns how many queues take what is put to the queue called name, one at least. They are the queue and its
// fanout children, or the destinations of an alias and theirs. A caller who puts for others looks at it before it
// puts many items, unless the engine does not fan out.
func (e *Engine) Takers(name []byte) int {
	defer contain()
	if !e.FansOut() {
		return 1
	}
	if aliases := e.settings.Load().Aliases; len(aliases) > 0 {
		if to, ok := aliases[string(name)]; ok {
			n := 0
			for _, target := range to {
				n += e.Takers([]byte(target))
			}
			return max(n, 1)
		}
	}
	sh := e.shardOf(name)
	if sh.parents.Load() == 0 {
		return 1
	}
	return sh.takers(name)
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
	if e.disk.Low.Load() {
		return ErrOutOfDisk
	}
	return e.journal.Admit(n)
}

// put puts the first items of puts to q and its fanout children, at least one unless that is refused, and adds them to
// s. Only the first is looked at closely: it may need a chunk, or others to leave. Those that follow it need neither.
// The caller holds the shard's mutex, and the engine has admitted the first.
func (e *Engine) put(q *queue, now Time, puts []PutRequest, s *Stored) error {
	p, sh := &puts[0], q.shard
	if err := q.admitProducer(p.ClientID); err != nil {
		return err
	}
	if q.family != nil || q.opts.FanoutOnly || p.Extra != nil || sh.large != nil {
		return e.putOne(q, now, p, s)
	}
	if err := e.makeRoom(q, now, len(p.Data), sweepBatch); err != nil {
		q.counters.refusedPuts++
		return err
	}
	if len(puts) > 1 && (q.opts.EnqueueClientID != "" || e.journal.Full() || len(sh.moves) > 0) {
		puts = puts[:1] // its client, or the room that is left, is looked at for each; what expired comes before it
	}
	n := e.addTo(q, now, puts, s)
	sh.puts += int64(n)
	s.Count += n
	return nil
}

// putOne is put of one item that may go to several queues, have an extra, or be large. Fanout children may have an item
// that q refuses.
func (e *Engine) putOne(q *queue, now Time, p *PutRequest, s *Stored) (err error) {
	sh := q.shard
	if p.Extra != nil {
		if err := e.admitExtra(q, now, p.Extra, s); err != nil {
			return err
		}
	}
	sh.targets = sh.targets[:0]
	sweep := int64(sweepBatch)
	if q.family != nil {
		if sweep, err = e.putToChildren(q, now, p); err != nil {
			return err
		}
	}
	if err = e.makeRoomFor(q, now, p, sweep); err != nil {
		q.counters.refusedPuts++
		if len(sh.targets) == 0 {
			return err
		}
	}
	switch {
	case err != nil:
	case q.onlyPasses():
		q.counters.puts++
		q.counters.putBytes += int64(len(p.Data))
		sh.puts++
	default:
		sh.targets = append(sh.targets, q)
	}
	e.add(sh, now, p, now, record.Destination{}, s)
	sh.puts += int64(len(sh.targets))
	if err == nil {
		s.Count++
	}
	return err
}

// putToChildren names the fanout children of q that take p in the shard's targets, and returns how many
// expired items q may remove for it.
func (e *Engine) putToChildren(q *queue, now Time, p *PutRequest) (sweep int64, err error) {
	if q.family.withheld != nil {
		return 0, q.family.withheld // the child would miss the item
	}
	if !q.shard.large.of(p) || p.Extra != nil { // what is aside, or overwritten, counts for each
		if sharesImage(p, q.family.takers()) {
			return 0, errShared
		}
		if it := p.item(now); e.memory.Load()+q.fanoutGrowth(item.ImageSize(&it)) > e.opts.MemoryLimit {
			return 0, ErrOutOfMemory
		}
	}
	sweep = max(sweepBatch/int64(q.family.takers()), 1)
	for _, child := range q.family.children {
		if e.makeRoomFor(child, now, p, sweep) != nil {
			child.counters.refusedPuts++
			continue
		}
		q.shard.targets = append(q.shard.targets, child)
	}
	return sweep, nil
}

// Everything that a queue takes in comes through addTo, or through add. That is what clients put, with the copies of
// fanout children, what expires from another queue, and what Restore (offline.go) brings.

// add adds p to the queues in sh.targets, as added at that time. It adds to s what the caller must wait for. One record
// of the journal holds p for all the queues. If the item expired from another queue, and the journal has it there, from
// says where. Then add serves the waiters. The caller holds the shard's mutex, and has made room.
func (e *Engine) add(sh *shard, now Time, p *PutRequest, added Time, from record.Destination, s *Stored) {
	if p.Extra != nil {
		e.addExtra(sh, now, p, added, from, s)
		return
	}
	sh.to, sh.over = sh.to[:0], sh.over[:0]
	for _, q := range sh.targets {
		if q.opts.KeepJournal {
			sh.to = append(sh.to, record.Destination{Queue: q.number, Item: q.nextID})
		}
		e.push(q, p, added)
	}
	lsn, seg := e.recordPut(sh, p, p.item(added), Standing{}, from)
	for _, q := range sh.targets {
		e.endAdd(q, now, 1, lsn, seg, s)
	}
}

// addTo is add of the first items of puts, one at least, to q alone. Their images go to the journal as they lie in
// memory. It returns how many it has added.
func (e *Engine) addTo(q *queue, now Time, puts []PutRequest, s *Stored) (n int) {
	to := record.Destination{Queue: q.number, Item: q.nextID}
	w, at := e.push(q, &puts[0], now)
	n = 1
	if len(puts) > 1 {
		n += q.extend(w, puts[1:], now)
	}
	var (
		lsn LSN
		seg uint64
	)
	if q.opts.KeepJournal {
		lsn, seg = e.journal.PutImages(to, w.Tail.Buf[at:], n)
	}
	e.endAdd(q, now, n, lsn, seg, s)
	return n
}

// endAdd ends an add of the newest n items of q, which the journal has in the segment seg, or later, and up to lsn.
func (e *Engine) endAdd(q *queue, now Time, n int, lsn LSN, seg uint64, s *Stored) {
	if q.opts.KeepJournal {
		first := q.nextID - uint64(n)
		if q.segments.IsNews(seg) { // seldom
			q.noteSegment(seg, first)
		}
		q.notePut(e.journal, first, lsn)
		s.Ticket = s.Ticket.Merge(q.ticket(e.journal, lsn))
	}
	e.overflow(q)
	s.Ahead = s.Ahead || e.ahead(q)
	if q.attended() { // else a plain put has nothing to call
		e.serveWaiters(q, now)
	}
}

// push appends p to q in memory, to the newest part of it. If its image is not that of a large put, it lies at the
// offset at of the tail.
func (e *Engine) push(q *queue, p *PutRequest, added Time) (w *item.Window, at int) {
	if q.window.Count == 0 && q.items() == 0 {
		q.ageBegins()
	}
	w = e.newest(q, len(p.Data))
	it := p.item(added)
	it.ID = q.nextID
	if large := q.shard.large; large.of(p) {
		w.PushLarge(large.chunk(), it)
	} else {
		at = w.Push(&q.shard.pool, &it, q.opts.MaxMemorySize)
	}
	q.nextID++
	q.counters.puts++
	q.counters.putBytes += int64(len(p.Data))
	return w, at
}

// extend appends the first of puts to q, behind its newest item, and returns how many. They go to the same chunk of w,
// and no room is made for them. It ends where something would be dropped, may have expired, or w would grow too large.
func (q *queue) extend(w *item.Window, puts []PutRequest, added Time) (n int) {
	if q.mayExpire() {
		return 0
	}
	before, all := w.Tally, q.queued() // only w grows
	mostItems, mostBytes := q.opts.MaxItems-all.Count+w.Count, q.opts.MaxSize-all.Bytes+w.Bytes
	for ; n < len(puts) && w.Count < mostItems && w.Bytes < mostBytes && q.window.Expiring == 0; n++ {
		p := &puts[n]
		size := int64(len(p.Data))
		if p.Extra != nil || size > q.opts.MaxItemSize || w.Bytes+size > q.opts.MaxMemorySize ||
			!w.Extend(p.Data, p.Flags, added, p.Expiry) {
			break
		}
	}
	extended := w.Tally
	extended.Add(before, -1)
	w.Tail.Add(extended, 1)
	q.nextID += uint64(n)
	q.counters.puts += int64(n)
	q.counters.putBytes += extended.Bytes
	return n
}

// makeRoom returns why q does not take an item of n bytes now, or nil, after dropping what its options let it drop. It
// drops up to sweep expired items, and more only as long as q is full. Nothing of the item has been added yet.
func (e *Engine) makeRoom(q *queue, now Time, n int, sweep int64) error {
	if int64(n) > q.opts.MaxItemSize {
		return ErrItemTooLarge
	}
	if q.onlyPasses() {
		return nil
	}
	e.wakeUp(q, now)
	if q.mayExpire() && q.items() > 0 {
		e.sweep(q, now, min(q.opts.MaxExpireSweep, sweep, q.sweepMost()))
	}
	for dropped := 0; q.items() >= q.opts.MaxItems || q.bytes() >= q.opts.MaxSize; dropped++ {
		if dropped >= settleBatch && q.opts.DiscardOldWhenFull {
			e.owesMuch(q, n)
			break
		}
		var it Item
		ok := q.first(&it)
		if ok && q.expired(&it, now) { // never what fills a queue, whatever MaxExpireSweep
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
		e.discard(q, &it)
	}
	return nil
}

// makeRoomFor is makeRoom for p, which may take the place of another item.
func (e *Engine) makeRoomFor(q *queue, now Time, p *PutRequest, sweep int64) error {
	if p.Extra == nil || len(p.Extra.Key) == 0 || q.onlyPasses() {
		return e.makeRoom(q, now, len(p.Data), sweep)
	}
	e.wakeUp(q, now)
	if _, ok := q.ofKey(p.Extra.Key, now); !ok {
		if most := q.opts.MaxKeys; most > 0 && q.keys != nil && int64(q.keys.Len()) >= most {
			return ErrTooManyKeys
		}
		return e.makeRoom(q, now, len(p.Data), sweep)
	}
	if int64(len(p.Data)) > q.opts.MaxItemSize {
		return ErrItemTooLarge
	}
	return nil
}

// onlyPasses reports whether the queue passes its items to its children and keeps none.
func (q *queue) onlyPasses() bool { return q.opts.FanoutOnly && !q.child }

// fanoutGrowth is how much memory a put to q and its children takes at most, in bytes. size is that of the image.
func (q *queue) fanoutGrowth(size int) (n int64) {
	for _, child := range q.family.children {
		n += child.growth(size)
	}
	return n + q.growth(size)
}

// growth is how much memory it takes, in bytes, to push an item. size is that of its image.
func (q *queue) growth(size int) int64 {
	w := &q.window
	if b := q.backlog; b != nil && b.inReadBehind {
		w = &b.recent
	}
	return w.Growth(size, q.opts.MaxMemorySize)
}

const (
	// maxTaken is about how many items queues take before the shard is unlocked for a moment: a put of one
	// item may be a thousand.
	maxTaken = 1024
	// extraWork is for how many items one with a delay or a key counts: it takes as long.
	extraWork = 8
	// maxFanned is how many bytes the queues of one put copy at most. If they are more, the queues share them.
	maxFanned = 1 << 20
)

// errShared has a put be tried again with an image that all of its queues share.
var errShared = errors.New("engine: the queues share the item")

// sharesImage reports whether that many queues share what p puts.
func sharesImage(p *PutRequest, queues int) bool {
	return len(p.Data) >= item.MinChunkSize && len(p.Data)*queues > maxFanned && p.Extra == nil
}

// prepare makes the image for a put of p, a large item, to the queue called name. The memory is counted
// before it is taken.
func (e *Engine) prepare(sh *shard, now Time, name []byte, p *PutRequest) (*largePut, error) {
	of := p.large(now, sh.takers(name))
	if e.memory.Load()+of.Size() > e.opts.MemoryLimit {
		return nil, ErrOutOfMemory
	}
	return e.image(p, of), nil
}

// takers is how many queues take what is put to the queue called name: itself and its children.
func (sh *shard) takers(name []byte) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.families[string(name)].takers()
}
