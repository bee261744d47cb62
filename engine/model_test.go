package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/queuename"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// model is what an engine should do, on plain slices.
type model struct {
	settings Settings
	queues   []*modelQueue // in the order in which they were made or, after a restart, numbered
	moves    []modelMove
	notified []*modelWaiter // waits that the current operation ended, in order
	delay    time.Duration  // of the current put
	dup      Duplicate      // likewise; the key is with the item
	did      modelDid
}

// modelDid counts what a run has met of what is rare.
type modelDid struct{ delayed, leased, buried, overwritten, removed, altered, several int }

func (d *modelDid) add(o modelDid) {
	d.delayed, d.leased, d.buried = d.delayed+o.delayed, d.leased+o.leased, d.buried+o.buried
	d.overwritten, d.removed, d.altered = d.overwritten+o.overwritten, d.removed+o.removed, d.altered+o.altered
	d.several += o.several
}

func (d *modelDid) all() bool {
	return min(d.delayed, d.leased, d.buried, d.overwritten, d.removed, d.altered, d.several) > 0
}

type modelQueue struct {
	name     string
	number   uint64 // the engine's: after a restart, queues are in this order
	created  Time
	opts     QueueOptions
	nextID   uint64
	returned []modelItem
	window   []Item
	aside    []*modelAside // in the order of ids
	usesSide bool          // something has been aside
	keys     map[string]uint64
	guessed  bool         // a delayed item was removed, or overwritten, that may have been on disk
	open     []*modelRead // longest ago first
	waiters  []*modelWaiter
	want     QueueStats // counters alone
	deleted  bool
}

// modelRead is an open read, or the copy that a waiting peek got.
type modelRead struct {
	q *modelQueue
	modelItem
	opened   Time
	deadline Time // of its lease; zero without one
	copied   bool
	ended    bool
	ref      ReadRef // of the engine's
	client   int     // who has it
}

// modelItem is an item that was handed out.
type modelItem struct {
	item  Item
	count uint16
	// said is what the journal says of it, if changed says that there is something.
	said    record.Change
	changed bool
}

// modelAside is an item that is delayed, leased or ready.
type modelAside struct {
	modelItem
	state aside.State
	due   Time
	token uint64
	// passed, of what a start finds, says that the delay, or the lease, was over before it. The journal may have been
	// rewritten since, and say so.
	passed bool
	// holder is who it counts for while it is leased; nil for nobody.
	holder *Holder
}

// modelWaiter is a wait; the engine ends it too, and both must agree.
type modelWaiter struct {
	Waiter
	request  FetchRequest
	read     *modelRead // what it was handed; nil if the queue was deleted
	notified func(*modelWaiter)
	several  *modelSeveral // of a wait for one of several queues
}

func (w *modelWaiter) WaitEnded(*Waiter) { w.notified(w) }

type modelMove struct {
	item   Item
	target string
	dead   *modelQueue // from which it goes to the dead-letter queue; nil if it has expired
	why    Why
}

func (q *modelQueue) items() int64 {
	return int64(len(q.returned)+len(q.window)+len(q.aside)) - q.count(aside.Leased)
}

func (q *modelQueue) count(state aside.State) (n int64) {
	for _, a := range q.aside {
		if a.state == state {
			n++
		}
	}
	return n
}

func (q *modelQueue) bytes() (n int64) {
	for _, it := range q.queued() {
		n += int64(len(it.Data))
	}
	for _, a := range q.aside {
		if a.state == aside.Delayed {
			n += int64(len(a.item.Data))
		}
	}
	return n
}

// queued returns the items that can be handed out, in that order.
func (q *modelQueue) queued() (all []Item) {
	for _, back := range q.returned {
		all = append(all, back.item)
	}
	inLine := slices.Clone(q.window)
	for _, a := range q.aside {
		if a.state == aside.Ready {
			inLine = append(inLine, a.item)
		}
	}
	slices.SortFunc(inLine, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	return append(all, inLine...)
}

func (q *modelQueue) isChild() bool { return strings.Contains(q.name, "+") }

func (m *model) find(name string) *modelQueue {
	for _, q := range m.queues {
		if q.name == name {
			return q
		}
	}
	return nil
}

func (m *model) make(now Time, name string) *modelQueue {
	q := m.find(name)
	if q == nil {
		q = &modelQueue{name: name, created: now, opts: m.settings.For(name), nextID: 1}
		m.queues = append(m.queues, q)
	}
	return q
}

func (q *modelQueue) expired(it Item, now Time) bool {
	return it.Expiry != 0 && it.Expiry < now ||
		q.opts.MaxAge > 0 && it.Added.After(q.opts.MaxAge) < now
}

// pop removes the item to hand out next.
func (q *modelQueue) pop() modelItem {
	if len(q.returned) > 0 {
		it := q.returned[0]
		q.returned = slices.Clone(q.returned[1:])
		return it
	}
	first := q.queued()[0]
	for i, a := range q.aside {
		if a.item.ID == first.ID {
			q.aside = slices.Delete(slices.Clone(q.aside), i, i+1)
			return a.modelItem
		}
	}
	q.window = slices.Clone(q.window[1:])
	return modelItem{item: first}
}

// handOut is pop of an item that somebody gets.
func (q *modelQueue) handOut() modelItem {
	it := q.pop()
	if it.count > 0 {
		q.want.Redelivered++
	}
	return it
}

// sweep removes expired items from the head, up to limit.
func (m *model) sweep(q *modelQueue, now Time, limit int64) (n int64) {
	for ; n < limit && len(q.queued()) > 0 && q.expired(q.queued()[0], now); n++ {
		it := q.pop().item
		q.want.Expired++
		if q.opts.ExpireTo != "" {
			m.moves = append(m.moves, modelMove{item: it, target: q.opts.ExpireTo})
		}
	}
	return n
}

func (m *model) finishMoves(now Time) {
	defer func(d time.Duration) { m.delay = d }(m.delay)
	m.delay = 0
	for len(m.moves) > 0 {
		move := m.moves[0]
		m.moves = m.moves[1:]
		q := m.make(now, move.target)
		if move.dead != nil {
			move.dead.want.DeadLettered++
			m.did.buried++
			it := Item{Data: move.item.Data, Flags: move.item.Flags, Expiry: move.item.Expiry, Added: now}
			key := move.item.Key()
			if _, taken := q.ofKey(string(key), now); taken {
				key = nil
			}
			m.append(q, now, it.With(nil, key, move.dead.name, move.why))
			continue
		}
		if m.makeRoom(q, now, len(move.item.Data)) != nil {
			q.want.ExpiredLost++
			continue
		}
		q.want.ExpiredInto++
		m.append(q, now, Item{Data: move.item.Data, Flags: move.item.Flags, Added: now})
	}
}

func (m *model) makeRoom(q *modelQueue, now Time, n int) error {
	if int64(n) > q.opts.MaxItemSize {
		return ErrItemTooLarge
	}
	if q.opts.FanoutOnly && !q.isChild() {
		return nil
	}
	m.wake(q, now)
	m.sweep(q, now, q.opts.MaxExpireSweep)
	for q.items() >= q.opts.MaxItems || q.bytes() >= q.opts.MaxSize {
		if m.sweep(q, now, 1) > 0 {
			continue
		}
		if !q.opts.DiscardOldWhenFull || len(q.queued()) == 0 {
			return ErrQueueFull
		}
		q.pop()
		q.want.Discarded++
	}
	return nil
}

func (m *model) append(q *modelQueue, now Time, it Item) {
	it.ID = q.nextID
	q.nextID++
	q.noteKey(it)
	q.want.Puts++
	q.want.PutBytes += int64(len(it.Data))
	if m.delay > 0 {
		due := now.After(m.delay)
		m.did.delayed++
		q.setAside(&modelAside{
			modelItem: modelItem{item: it, said: record.Change{Due: due}, changed: true},
			state:     aside.Delayed, due: due,
		})
		return
	}
	q.window = append(q.window, it)
	m.serveWaiters(q, now)
}

func (m *model) put(now Time, name string, it Item) (first error) {
	if to, ok := m.settings.Aliases[name]; ok {
		for _, target := range to {
			if err := m.put(now, target, it); first == nil {
				first = err
			}
		}
		return first
	}
	q := m.make(now, name)
	if m.delay < 0 || q.opts.MaxDelay > 0 && m.delay > q.opts.MaxDelay {
		return ErrDelayTooLong
	}
	if err := m.admitKey(q, now, it); err != nil {
		return err
	}
	var targets []*modelQueue
	for _, child := range m.queues {
		parent, ok := queuename.Parent(child.name)
		if ok && parent == name && m.makeRoomFor(child, now, it) == nil {
			targets = append(targets, child)
		}
	}
	first = m.makeRoomFor(q, now, it)
	switch {
	case first != nil:
	case q.opts.FanoutOnly && !q.isChild():
		q.want.Puts++
		q.want.PutBytes += int64(len(it.Data))
	default:
		targets = append(targets, q)
	}
	it.Added = now
	for _, q := range targets {
		if id, ok := q.ofKey(string(it.Key()), now); ok {
			m.overwrite(q, now, it, id)
		} else {
			m.append(q, now, it)
		}
	}
	m.finishMoves(now)
	return first
}

// fetch returns the item, and the read if it is open; ok is false if there is none, and then w
// waits.
func (m *model) fetch(
	now Time, name string, access Access, lease time.Duration, token func() uint64, w *modelWaiter,
) (it Item, r *modelRead, ok bool) {
	if _, alias := m.settings.Aliases[name]; alias {
		return it, nil, false
	}
	q := m.make(now, name)
	m.wake(q, now)
	m.sweep(q, now, 1<<62)
	switch {
	case len(q.queued()) == 0:
		q.want.Misses++
		if w != nil {
			w.joins(q)
		}
	case w.isOver():
		w.several.over = true
	case access == Peek:
		q.want.Hits++
		it, ok = q.queued()[0], true
	case access == OpenRead:
		q.want.Hits++
		q.want.Opens++
		r = q.openFirst(now)
		if lease > 0 {
			r.deadline, q.usesSide = now.After(lease), true
		}
		it, ok = r.item, true
	case access == Lease:
		q.want.Hits++
		it, ok = q.queued()[0], true
		q.lease(q.handOut(), now.After(lease), token())
		m.did.leased++
	default:
		q.want.Hits++
		it, ok = q.handOut().item, true
	}
	if ok && w != nil && w.several != nil {
		m.forgetWait(w) // before expired items of q come to a queue that it waits at
	}
	m.finishMoves(now)
	return it, r, ok
}

func (q *modelQueue) openFirst(now Time) *modelRead {
	r := &modelRead{q: q, modelItem: q.handOut(), opened: now}
	q.open = append(q.open, r)
	return r
}

// serveWaiters hands items to waiters.
func (m *model) serveWaiters(q *modelQueue, now Time) {
	for len(q.waiters) > 0 {
		m.sweep(q, now, 1<<62)
		if len(q.queued()) == 0 {
			return
		}
		w := q.waiters[0]
		if w.isOver() {
			q.waiters = q.waiters[1:]
			continue
		}
		q.want.Hits++
		if w.request.Access == Peek {
			m.tell(w, &modelRead{q: q, modelItem: modelItem{item: q.queued()[0]}, copied: true})
			continue
		}
		if w.request.Access == OpenRead {
			q.want.Opens++
		}
		m.tell(w, q.openFirst(now))
	}
}

func (m *model) tell(w *modelWaiter, r *modelRead) {
	w.read = r
	m.notified = append(m.notified, w)
	if w.several != nil { // it stays at the other queues until its owner hears
		w.several.ended = true
		r.q.forgetWait(w)
		return
	}
	m.forgetWait(w)
}

// forgetWait takes a wait from all queues.
func (m *model) forgetWait(w *modelWaiter) {
	for _, q := range m.queues {
		q.forgetWait(w)
	}
}

func (q *modelQueue) forgetWait(w *modelWaiter) {
	q.waiters = slices.DeleteFunc(q.waiters, func(v *modelWaiter) bool { return v == w })
}

// end removes the item of a read for good, or forgets a copy.
func (m *model) end(r *modelRead) bool {
	was := r.ended
	r.ended = true
	r.q.forget(r)
	return !was
}

func (q *modelQueue) forget(r *modelRead) {
	q.open = slices.DeleteFunc(q.open, func(o *modelRead) bool { return o == r })
}

// abortAll brings reads of one queue back that were lost, the last of them first.
func (m *model) abortAll(now Time, reads []*modelRead) (ended int) {
	return m.giveBack(now, reads, Return{How: Lost})
}

// giveBack ends reads of one queue, the last of them first.
func (m *model) giveBack(now Time, reads []*modelRead, how Return) (ended int) {
	for _, r := range slices.Backward(reads) {
		if !m.end(r) {
			continue
		}
		ended++
		if !r.copied {
			m.giveBackOne(now, r, how)
		}
	}
	if ended > 0 {
		m.serveWaiters(reads[0].q, now)
	}
	m.finishMoves(now)
	return ended
}

// endOverdue brings the overdue reads of q back.
func (m *model) endOverdue(now Time, q *modelQueue) {
	var overdue []*modelRead
	for _, r := range q.open {
		if q.opts.OpenReadTimeout == 0 || r.opened.After(q.opts.OpenReadTimeout) > now {
			break
		}
		overdue = append(overdue, r)
	}
	m.abortAll(now, overdue)
}

func (m *model) flush(now Time, q *modelQueue) {
	if q.opts.ExpireTo != "" {
		m.sweep(q, now, 1<<62)
	}
	before := len(q.returned) + len(q.window) + len(q.aside)
	q.returned, q.window = nil, nil
	q.aside = slices.DeleteFunc(slices.Clone(q.aside), func(a *modelAside) bool { return a.state != aside.Leased })
	q.want.Flushes++
	if len(q.aside) < before { // an item that somebody has may get its key again, which a newer one had
		q.rekey()
	}
	m.finishMoves(now)
}

func (m *model) flushExpired(now Time, q *modelQueue) int64 {
	n := m.sweep(q, now, q.opts.MaxExpireSweep)
	m.finishMoves(now)
	return n
}

func (m *model) delete(q *modelQueue) {
	q.deleted = true
	m.queues = slices.DeleteFunc(m.queues, func(o *modelQueue) bool { return o == q })
	for _, r := range q.open {
		r.ended = true
	}
	for _, w := range q.waiters {
		if w.leaves() {
			m.notified = append(m.notified, w)
		}
	}
}

// reload gives every queue its new options, and returns those that they had.
func (m *model) reload(s Settings) (before []QueueOptions) {
	m.settings = s
	for _, q := range m.queues {
		before = append(before, q.opts)
		q.opts = s.For(q.name)
	}
	return before
}

// durable returns the queues as a restart should find them.
func (m *model) durable() (queues []*modelQueue) {
	for _, q := range m.queues {
		if !q.opts.KeepJournal {
			continue
		}
		c := &modelQueue{
			name: q.name, number: q.number, created: q.created, opts: q.opts, nextID: q.nextID,
			window: slices.Clone(q.window),
		}
		for _, back := range q.returned {
			c.bringBack(back, back.said.Due != 0 || back.said.Token != 0)
		}
		for _, a := range q.aside {
			c.bringBack(a.modelItem, a.state == aside.Ready && a.said.Due != 0)
		}
		for _, r := range q.open {
			c.bringBack(r.modelItem, r.said.Due != 0 || r.said.Token != 0)
		}
		slices.SortFunc(c.window, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
		c.want.Replayed = int64(len(c.window) + len(c.aside))
		c.rekey()
		queues = append(queues, c)
	}
	slices.SortFunc(queues, func(a, b *modelQueue) int { return cmp.Compare(a.number, b.number) })
	return queues
}
