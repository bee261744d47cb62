package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// What the model does with keys, and the operations of a modelRun on single items.

func whyDead(how Return) Why {
	if how.How == Reject {
		return Rejected
	}
	return TooOften
}

func (q *modelQueue) noteKey(it Item) {
	if !it.HasKey() {
		return
	}
	if q.keys == nil {
		q.keys = make(map[string]uint64)
	}
	q.keys[string(it.Key())] = it.ID
}

// all returns the items that the queue has, those that somebody has included, in the order of their ids.
func (q *modelQueue) all() (all []Item) {
	all = slices.Clone(q.window)
	for _, back := range q.returned {
		all = append(all, back.item)
	}
	for _, a := range q.aside {
		all = append(all, a.item)
	}
	for _, r := range q.open {
		all = append(all, r.item)
	}
	slices.SortFunc(all, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (q *modelQueue) find(id uint64) (it Item, ok bool) {
	all := q.all()
	i := slices.IndexFunc(all, func(it Item) bool { return it.ID == id })
	if i < 0 {
		return it, false
	}
	return all[i], true
}

// rekey is what a start does.
func (q *modelQueue) rekey() {
	q.keys = nil
	for _, it := range q.all() {
		q.noteKey(it)
	}
}

// forgetKeys forgets the keys of items that are not there.
func (q *modelQueue) forgetKeys() {
	for key, id := range q.keys {
		if _, ok := q.find(id); !ok {
			delete(q.keys, key)
		}
	}
}

func (q *modelQueue) ofKey(key string, now Time) (id uint64, ok bool) {
	if id, ok = q.keys[key]; !ok {
		return 0, false
	}
	it, ok := q.find(id)
	return id, ok && !q.expired(it, now)
}

func (m *model) admitKey(q *modelQueue, now Time, it Item) error {
	if !it.HasKey() {
		return nil
	}
	_, ok := q.ofKey(string(it.Key()), now)
	switch {
	case ok && m.dup == OnlyNew:
		return ErrKeyExists
	case !ok && m.dup == OnlyReplace:
		return ErrNoSuchItem
	}
	return nil
}

// makeRoomFor is makeRoom of an item that may take the place of another one.
func (m *model) makeRoomFor(q *modelQueue, now Time, it Item) (err error) {
	defer func() {
		if err != nil {
			q.want.RefusedPuts++
		}
	}()
	if !it.HasKey() || q.opts.FanoutOnly && !q.isChild() {
		return m.makeRoom(q, now, len(it.Data))
	}
	m.wake(q, now)
	if _, ok := q.ofKey(string(it.Key()), now); !ok {
		if q.forgetKeys(); q.opts.MaxKeys > 0 && int64(len(q.keys)) >= q.opts.MaxKeys {
			return ErrTooManyKeys
		}
		return m.makeRoom(q, now, len(it.Data))
	}
	if int64(len(it.Data)) > q.opts.MaxItemSize {
		return ErrItemTooLarge
	}
	return nil
}

// take takes the item with that id out, wherever it is.
func (q *modelQueue) take(id uint64) modelItem {
	out := modelItem{}
	is := func(it Item) bool { return it.ID == id }
	for _, back := range q.returned {
		if is(back.item) {
			out = back
		}
	}
	for _, a := range q.aside {
		if is(a.item) {
			out = a.modelItem
			q.guessed = q.guessed || a.state == aside.Delayed
		}
	}
	for _, r := range slices.Clone(q.open) {
		if is(r.item) {
			out = r.modelItem
			r.ended = true
			q.forget(r)
		}
	}
	for _, it := range q.window {
		if is(it) {
			out.item = it
		}
	}
	q.window = slices.DeleteFunc(slices.Clone(q.window), is)
	q.returned = slices.DeleteFunc(slices.Clone(q.returned), func(it modelItem) bool { return is(it.item) })
	q.aside = slices.DeleteFunc(slices.Clone(q.aside), func(a *modelAside) bool { return is(a.item) })
	return out
}

// overwrite puts it in the place of the item with that id.
func (m *model) overwrite(q *modelQueue, now Time, it Item, id uint64) {
	q.take(id)
	m.did.overwritten++
	it.ID = id
	a := &modelAside{modelItem: modelItem{item: it, changed: true}, state: aside.Ready}
	if m.delay > 0 {
		a.state, a.due = aside.Delayed, now.After(m.delay)
		a.said.Due = a.due
	}
	q.setAside(a)
	q.want.Puts++
	q.want.PutBytes += int64(len(it.Data))
	m.serveWaiters(q, now)
}

// modelKeys are the keys that are used.
var modelKeys = []string{"a", "b", "k 3", "ключ"}

func (r *modelRun) key() []byte {
	if r.busyKeys {
		return []byte(modelKeys[r.IntN(2)])
	}
	return []byte(modelKeys[r.IntN(len(modelKeys))])
}

// oneItem looks at, removes or changes one item.
func (r *modelRun) oneItem() {
	name := r.name()
	q := r.m.find(name)
	var which Which
	switch {
	case r.IntN(2) == 0:
		which.Key = r.key()
	case q != nil && len(q.all()) > 0 && r.IntN(4) > 0:
		all := q.all()
		which.ID = all[r.IntN(len(all))].ID
	case q != nil:
		which.ID = r.Uint64N(q.nextID + 2)
	}
	var it Item
	found := false
	if q != nil {
		r.m.wake(q, r.now)
		id := which.ID
		if which.Key != nil {
			id, _ = q.ofKey(string(which.Key), r.now)
		}
		if it, found = q.find(id); found {
			found = !q.expired(it, r.now)
		}
	}
	switch r.IntN(6) {
	case 4, 5:
		r.scan(name)
	case 0:
		r.lookAt(name, q, which, it, found)
	case 1:
		r.removeOne(name, q, which, it, found)
	default:
		r.changeOne(name, q, which, it, found)
	}
	r.m.finishMoves(r.now)
}

// heldIn reports whether somebody has the item, and what there is to know of it.
func (q *modelQueue) heldIn(id uint64) (held bool, d Delivery) {
	for _, o := range q.open {
		if o.item.ID == id {
			return true, Delivery{Deliveries: int(o.count) + 1, Due: o.deadline}
		}
	}
	for _, a := range q.aside {
		if a.item.ID == id {
			if a.state == aside.Leased {
				return true, Delivery{Deliveries: int(a.count) + 1, Due: a.due}
			}
			d = Delivery{Deliveries: int(a.count)}
			if a.state == aside.Delayed {
				d.Due = a.due
			}
		}
	}
	for _, back := range q.returned {
		if back.item.ID == id {
			d.Deliveries = int(back.count)
		}
	}
	return false, d
}

func (r *modelRun) lookAt(name string, q *modelQueue, which Which, it Item, found bool) {
	r.op = fmt.Sprintf("look at %q %+v", name, which)
	var got copied
	var about Delivery
	ticket, err := r.e.Look(r.now, []byte(name), &LookRequest{Which: which, Wait: true, Delivery: &about}, &got)
	switch {
	case !found && !errors.Is(err, ErrNoSuchItem) || found && err != nil:
		r.fail("error %v, want that it is there = %v", err, found)
	case found:
		r.compareItem(name, got.item, it)
		if _, want := q.heldIn(it.ID); about != want {
			r.fail("item %d is %+v, want %+v", it.ID, about, want)
		}
	}
	r.maybeCommit(ticket)
}

func (r *modelRun) removeOne(name string, q *modelQueue, which Which, it Item, found bool) {
	r.op = fmt.Sprintf("remove of %q %+v", name, which)
	ticket, err := r.e.Remove(r.now, []byte(name), "", which)
	var want error
	switch {
	case !found:
		want = ErrNoSuchItem
	default:
		if held, _ := q.heldIn(it.ID); held {
			want = ErrHeld
			break
		}
		q.take(it.ID)
		r.m.did.removed++
	}
	if !errors.Is(err, want) {
		r.fail("error %v, want %v", err, want)
	}
	r.maybeCommit(ticket)
}

// changeOne draws what to change of an item.
func (r *modelRun) changeOne(name string, q *modelQueue, which Which, it Item, found bool) {
	var to Changes
	if to.SetExpiry = r.IntN(2) == 0; to.SetExpiry && r.IntN(2) == 0 {
		to.Expiry = r.now + Time(r.IntN(5000))
		if r.spilling {
			to.Expiry = r.now + neverReached
		}
	}
	if to.SetDelay = r.IntN(2) == 0; to.SetDelay && r.IntN(3) > 0 {
		to.Delay = r.instant(4000)
	}
	r.op = fmt.Sprintf("change of %q %+v %+v", name, which, to)
	ticket, err := r.e.Change(r.now, []byte(name), &LookRequest{Which: which, Wait: true}, to)
	var want error
	held := false
	if found {
		held, _ = q.heldIn(it.ID)
	}
	switch {
	case !found:
		want = ErrNoSuchItem
	case to.SetDelay && q.refusesDelay(to.Delay):
		want = ErrDelayTooLong
	case to.SetDelay && held:
		want = ErrHeld
	default:
		r.m.change(q, r.now, it.ID, to)
		r.m.did.altered++
	}
	if !errors.Is(err, want) {
		r.fail("error %v, want %v", err, want)
	}
	r.maybeCommit(ticket)
}

// change is Engine.Change of an item that is there.
func (m *model) change(q *modelQueue, now Time, id uint64, to Changes) {
	for _, o := range q.open {
		if o.item.ID == id && !to.SetDelay {
			if to.SetExpiry {
				o.item.Expiry = to.Expiry
			}
			o.said, o.changed = record.Change{Count: o.count}, true
			return
		}
	}
	a := &modelAside{state: aside.Ready}
	for _, b := range q.aside {
		if b.item.ID == id {
			*a = *b
		}
	}
	a.modelItem = q.take(id)
	if to.SetExpiry {
		a.item.Expiry = to.Expiry
	}
	if to.SetDelay {
		a.state, a.due, a.token = aside.Ready, 0, 0
		if to.Delay > 0 {
			a.state, a.due = aside.Delayed, now.After(to.Delay)
		}
	}
	a.said, a.changed = record.Change{Due: a.due, Token: a.token, Count: a.count}, true
	q.setAside(a)
	m.serveWaiters(q, now)
}

// guesses reports whether the queue may count other bytes than there are. It counts too many for items that are gone
// from the disk. For an item that left a hidden run before anybody saw its size, it guesses.
func (r *modelRun) guesses(q *modelQueue, more bool) bool {
	sh := r.e.shardOf([]byte(q.name))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	live := sh.queues[q.name]
	if live.aside == nil || len(live.aside.hidden.Runs()) == 0 {
		q.guessed = false
	}
	return q.guessed || more && live.backlog != nil && !live.backlog.unsized.IsEmpty()
}

// compareKeys checks which item each key stands for, changing nothing else.
func (r *modelRun) compareKeys(q *modelQueue) {
	sh := r.e.shardOf([]byte(q.name))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, key := range modelKeys {
		at, ok := sh.queues[q.name].ofKey([]byte(key), r.now)
		id := at.it.ID
		if want, there := q.ofKey(key, r.now); ok != there || ok && id != want {
			r.fail("queue %q: key %q is that of item %d, %v, want %d, %v", q.name, key, id, ok, want, there)
		}
	}
}

// scanned is a Receiver that keeps copies, and what it is said of each, and now and then does not take an item.
type scanned struct {
	*modelRun
	s       *Scan
	items   []Item
	about   []Delivery
	refused uint64
}

func (c *scanned) Receive(it Item) bool {
	if c.refused != it.ID && c.IntN(4) == 0 {
		c.refused = it.ID
		return false
	}
	c.items, c.about = append(c.items, it.Clone()), append(c.about, *c.s.Delivery())
	return true
}

// scan lists, changes or removes items of a queue, in pieces with nothing between them.
func (r *modelRun) scan(name string) {
	q := r.m.find(name)
	m := Match{Hidden: r.IntN(2) == 0}
	if q != nil {
		m.From = r.Uint64N(q.nextID + 1)
	}
	if r.IntN(2) == 0 {
		m.Limit = 1 + r.IntN(4)
	}
	var s *Scan
	var to Changes
	kind := r.IntN(4)
	switch kind {
	case 0:
		if to.SetExpiry = r.IntN(2) == 0; to.SetExpiry {
			to.Expiry = r.now + neverReached
		}
		if to.SetDelay = !to.SetExpiry || r.IntN(2) == 0; to.SetDelay && r.IntN(2) == 0 {
			to.Delay, m.Limit = r.instant(4000), 1 // of items due at the same moment any may come first
		}
		s = r.e.Changing([]byte(name), "", m, to)
	case 1:
		m.Limit = 1 + r.IntN(2)
		s = r.e.Removing([]byte(name), "", m)
	default:
		s = r.e.List([]byte(name), m)
	}
	r.op = fmt.Sprintf("scan %d of %q %+v %+v", kind, name, m, to)
	got := scanned{modelRun: r, s: s}
	for s.Do(r.now, &got, 1+r.IntN(300)) {
		if s.Wait(); r.fsys.Stopped() {
			return
		}
	}
	count, ticket, err := s.Result()
	if r.fsys.Stopped() {
		return
	}
	var want error
	if q != nil {
		r.m.wake(q, r.now)
		if kind == 0 && to.SetDelay && q.refusesDelay(to.Delay) {
			want = ErrDelayTooLong
		}
	}
	if !errors.Is(err, want) {
		r.fail("error %v, want %v", err, want)
	}
	if want == nil && q != nil {
		if wanted := r.matching(q, m, &got, kind, to); wanted != count {
			r.fail("%d items, want %d", count, wanted)
		}
		r.m.serveWaiters(q, r.now)
	}
	r.m.finishMoves(r.now)
	r.maybeCommit(ticket)
}

// matching does to the model what a scan does, compares what it handed out, and returns how many items it met.
func (r *modelRun) matching(q *modelQueue, m Match, got *scanned, kind int, to Changes) (n int) {
	for _, it := range q.all() {
		held, d := q.heldIn(it.ID)
		hidden := held || d.Due != 0
		if it.ID < m.From || hidden && !m.Hidden || q.expired(it, r.now) || m.Limit > 0 && n == m.Limit {
			continue
		}
		if to.SetExpiry {
			it.Expiry = to.Expiry
		}
		if to.SetDelay {
			if d.Due = 0; to.Delay > 0 {
				d.Due = r.now.After(to.Delay)
			}
		}
		if n < len(got.items) {
			r.compareItem(q.name, got.items[n], it)
			if got.about[n] != d {
				r.fail("item %d is %+v, want %+v", it.ID, got.about[n], d)
			}
		}
		switch kind {
		case 0:
			r.m.change(q, r.now, it.ID, to)
		case 1:
			q.take(it.ID)
		}
		n++
	}
	return n
}
