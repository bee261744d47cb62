package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// What the model does with items that are not in line, and the operations of a modelRun on them.

// setAside adds an item.
func (q *modelQueue) setAside(a *modelAside) {
	q.usesSide = true
	i, _ := slices.BinarySearchFunc(q.aside, a, func(a, b *modelAside) int { return cmp.Compare(a.item.ID, b.item.ID) })
	q.aside = slices.Insert(slices.Clone(q.aside), i, a)
}

// lease leases an item that was handed out.
func (q *modelQueue) lease(it modelItem, due Time, token uint64) {
	q.want.Opens++
	q.leaseRead(it, due, token)
}

// leaseRead is lease of an item that was opened before.
func (q *modelQueue) leaseRead(it modelItem, due Time, token uint64) *modelAside {
	it.said, it.changed = record.Change{Due: due, Token: token, Count: it.count}, true
	a := &modelAside{modelItem: it, state: aside.Leased, due: due, token: token}
	q.setAside(a)
	return a
}

// bringBack adds an item to a queue as a start finds it, whose delay was over before if passed is set.
func (q *modelQueue) bringBack(it modelItem, passed bool) {
	if !it.changed {
		q.window = append(q.window, it.item)
		return
	}
	a := &modelAside{modelItem: it, state: aside.Ready, due: it.said.Due, token: it.said.Token}
	a.count = it.said.Count
	switch {
	case a.due != 0 && a.token != 0:
		a.state = aside.Leased
	case a.due != 0:
		a.state = aside.Delayed
	}
	a.passed = passed
	q.setAside(a)
}

// held finds the item of a receipt.
func (q *modelQueue) held(token uint64, lapsed bool) *modelAside {
	for _, a := range q.aside {
		if a.token == token && (lapsed || a.state == aside.Leased) {
			return a
		}
	}
	return nil
}

func (q *modelQueue) dropAside(gone *modelAside) {
	q.aside = slices.DeleteFunc(slices.Clone(q.aside), func(a *modelAside) bool { return a == gone })
}

// wake moves what is due: delays first and leases, then leases that connections hold.
func (m *model) wake(q *modelQueue, now Time) {
	n := 0
	for {
		var first *modelAside
		for _, a := range q.aside {
			if a.state != aside.Ready && a.due < now && (first == nil || a.due < first.due) {
				first = a
			}
		}
		if first == nil {
			break
		}
		n++
		if first.state == aside.Delayed {
			first.state, first.due = aside.Ready, 0
			continue
		}
		m.returnLeased(q, first, now, Return{How: Lost})
	}
	for {
		var first *modelRead
		for _, r := range q.open {
			if r.deadline != 0 && r.deadline < now && (first == nil || r.deadline < first.deadline) {
				first = r
			}
		}
		if first == nil {
			break
		}
		n++
		m.end(first)
		m.giveBackOne(now, first, Return{How: Lost})
	}
	if n > 0 {
		m.serveWaiters(q, now)
	}
}

// modelCount is Return.counted, in other words.
func modelCount(how Return, count uint16) uint16 {
	if how.How == Release {
		return count
	}
	return count + 1
}

// deadTarget is where an item goes that comes back after so many deliveries; "" if it stays.
func (q *modelQueue) deadTarget(how Return, count uint16) string {
	target := q.opts.DeadLetterQueue
	if target == "" {
		target = map[string]string{
			"a": "a_dead", "b": "b_dead", "c": "c_dead", "dead": "dead_dead", "a+x": "a_dead+x", "a+y": "a_dead+y",
			"a+y+z": "a_dead+y+z", "b+x": "b_dead+x", afterlife: afterlife + "_dead",
			"alias": "alias_dead", // a queue while no alias has the name
		}[q.name]
	}
	if target == q.name {
		return ""
	}
	most := uint16(q.opts.MaxDeliveries)
	if how.How == Reject || how.How != Release && most > 0 && count >= most {
		return target
	}
	return ""
}

// hide is for how long an item stays hidden that comes back.
func (q *modelQueue) hide(how Return, count uint16) time.Duration {
	if how.Delayed || how.How != Abort {
		return how.Delay
	}
	var delays []time.Duration
	for i, d := range q.opts.RedeliveryDelay {
		if d > 0 {
			delays = q.opts.RedeliveryDelay[:i+1]
		}
	}
	if len(delays) == 0 {
		return 0
	}
	return delays[min(int(count), len(delays))-1]
}

func (m *model) returnLeased(q *modelQueue, a *modelAside, now Time, how Return) {
	a.count = modelCount(how, a.count)
	q.want.Returns++
	if target := q.deadTarget(how, a.count); target != "" {
		q.dropAside(a)
		m.moves = append(m.moves, modelMove{item: a.item, target: target, dead: q, why: whyDead(how)})
		return
	}
	a.state, a.due = aside.Ready, 0
	if how.How != Lost {
		a.token = 0
	}
	if d := q.hide(how, a.count); d > 0 {
		a.state, a.due = aside.Delayed, now.After(d)
	}
	a.said = record.Change{Due: a.due, Token: a.token, Count: a.count}
}

// giveBackOne brings back the item of a read that has ended.
func (m *model) giveBackOne(now Time, r *modelRead, how Return) {
	q, back := r.q, r.modelItem
	q.want.Returns++
	back.count = modelCount(how, back.count)
	if target := q.deadTarget(how, back.count); target != "" {
		m.moves = append(m.moves, modelMove{item: back.item, target: target, dead: q, why: whyDead(how)})
		return
	}
	if d := q.hide(how, back.count); d > 0 {
		back.said, back.changed = record.Change{Due: now.After(d), Count: back.count}, true
		q.setAside(&modelAside{modelItem: back, state: aside.Delayed, due: back.said.Due})
		return
	}
	if how.How != Release && (q.opts.MaxDeliveries > 0 || back.changed) {
		back.said, back.changed = record.Change{Count: back.count}, true
	}
	q.returned = slices.Insert(slices.Clone(q.returned), 0, back)
}

// modelReceipt is a lease, or one that has ended.
type modelReceipt struct {
	name  string
	token uint64
}

// instant draws how long something is to take. It never ends twice at the same instant, because the engine may handle
// things that are due at one instant in any order.
func (r *modelRun) instant(most int) time.Duration {
	for {
		d := time.Duration(1+r.IntN(most)) * time.Millisecond
		if at := r.now.After(d); !r.instants[at] {
			r.instants[at] = true
			return d
		}
	}
}

// how draws how an item comes back.
func (r *modelRun) how() Return {
	how := Return{How: []ReturnKind{Abort, Release, Reject, Lost}[r.IntN(4)]}
	if r.IntN(3) == 0 {
		how.Delayed = true
		if r.IntN(3) > 0 {
			how.Delay = r.instant(4000)
		}
	}
	return how
}

// refusesDelay is whether the queue called name refuses a delay.
func (q *modelQueue) refusesDelay(d time.Duration) bool {
	return q.opts.MaxDelay > 0 && d > q.opts.MaxDelay
}

// returnRead gives the item of an open read back, or of one that has ended.
func (r *modelRun) returnRead(read *modelRead) {
	how := r.how()
	r.op = fmt.Sprintf("return item %d of %q %+v", read.item.ID, read.q.name, how)
	ticket, ended, err := r.e.Return(r.now, []ReadRef{read.ref}, how)
	if !read.ended && !read.copied && read.q.refusesDelay(how.Delay) {
		if err != ErrDelayTooLong || ended > 0 {
			r.fail("%d ended, error %v, want none, %v", ended, err, ErrDelayTooLong)
		}
		return
	}
	if want := r.m.giveBack(r.now, []*modelRead{read}, how); ended != want || err != nil {
		r.fail("%d ended, error %v, want %d", ended, err, want)
	}
	r.maybeCommit(ticket)
}

// endLease confirms, extends or ends a lease, or one that has ended.
func (r *modelRun) endLease() {
	if len(r.receipts) == 0 {
		return
	}
	if r.IntN(2) == 0 {
		r.endLeases()
		return
	}
	i := r.IntN(len(r.receipts))
	at := r.receipts[i]
	if r.IntN(3) > 0 { // else it is tried again
		r.receipts = slices.Delete(r.receipts, i, i+1)
	}
	q := r.m.find(at.name)
	held := func(lapsed bool) *modelAside {
		if q == nil {
			return nil
		}
		r.m.wake(q, r.now)
		a := q.held(at.token, lapsed)
		if a == nil {
			r.m.finishMoves(r.now)
		}
		return a
	}
	var ticket Ticket
	var err, want error
	switch r.IntN(3) {
	case 0:
		r.op = fmt.Sprintf("confirm a lease of %q", at.name)
		ticket, err = r.e.ConfirmLease(r.now, []byte(at.name), at.token)
		if a := held(true); a != nil {
			q.dropAside(a)
		} else {
			want = ErrNotHeld
		}
	case 1:
		d := r.instant(3000)
		r.op = fmt.Sprintf("extend a lease of %q", at.name)
		var due Time
		due, ticket, err = r.e.ExtendLease(r.now, []byte(at.name), at.token, d)
		if a := held(false); a != nil {
			a.due = r.now.After(d)
			a.said.Due = a.due
			if due != a.due {
				r.fail("due at %d, want %d", due, a.due)
			}
		} else {
			want = ErrNotHeld
		}
	default:
		how := r.how()
		if how.How == Lost {
			how.How = Abort
		}
		r.op = fmt.Sprintf("return a lease of %q %+v", at.name, how)
		ticket, err = r.e.ReturnLease(r.now, []byte(at.name), at.token, how)
		switch a := held(false); {
		case a == nil:
			want = ErrNotHeld
		case q.refusesDelay(how.Delay):
			want = ErrDelayTooLong
		default:
			r.m.returnLeased(q, a, r.now, how)
			r.m.serveWaiters(q, r.now)
		}
	}
	if r.m.finishMoves(r.now); !errors.Is(err, want) {
		r.fail("error %v, want %v", err, want)
	}
	r.maybeCommit(ticket)
}

// extendRead extends the lease of an open read, or tries to.
func (r *modelRun) extendRead() {
	if len(r.reads) == 0 {
		return
	}
	read, d := r.reads[r.IntN(len(r.reads))], r.instant(3000)
	r.op = fmt.Sprintf("extend item %d of %q", read.item.ID, read.q.name)
	due, ok := r.e.ExtendRead(r.now, read.ref, d)
	if !read.ended {
		r.m.wake(read.q, r.now)
	}
	want := !read.ended && read.deadline != 0
	if want {
		read.deadline = r.now.After(d)
	}
	if r.m.finishMoves(r.now); ok != want || ok && due != read.deadline {
		r.fail("ok = %v at %d, want %v at %d", ok, due, want, read.deadline)
	}
}

// wakeQueues does what the alarm does.
func (r *modelRun) wakeQueues() {
	r.op = "wake"
	for _, q := range slices.Clone(r.m.queues) { // one at a time, so that moves have an order
		sh := r.e.shardOf([]byte(q.name))
		sh.mu.Lock()
		if live := sh.queues[q.name]; live != nil && live.aside != nil {
			r.e.wake(live, r.now)
		}
		r.e.unlock(sh, r.now)
		r.m.wake(q, r.now)
		r.m.finishMoves(r.now)
	}
}

// notePassed takes over what a start found of delays that were over before it.
func (r *modelRun) notePassed(q *modelQueue, live *queue) {
	for _, a := range q.aside {
		if !a.passed {
			continue
		}
		a.passed = false
		if ref, ok := live.aside.Find(a.item.ID); ok && live.aside.Get(ref) == (aside.Entry{State: aside.Ready, Count: a.count}) {
			a.state, a.due, a.token, a.said = aside.Ready, 0, 0, record.Change{Count: a.count}
		}
	}
}

// compareAside checks everything that can be asked of what is aside.
func (r *modelRun) compareAside(q *modelQueue) {
	sh := r.e.shardOf([]byte(q.name))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	live := sh.queues[q.name]
	if live.aside == nil {
		if len(q.aside) > 0 {
			r.fail("queue %q has nothing aside, want %d items", q.name, len(q.aside))
		}
		return
	}
	restored := int(live.aside.Tally(aside.Restored).Count)
	onDisk := hiddenEntries(r.e, live)
	if live.aside.Len()-live.aside.Dropped()+len(onDisk) != len(q.aside)+restored {
		r.fail("queue %q has %d items aside, %d of them restored, and %d hidden, want %d",
			q.name, live.aside.Len(), restored, len(onDisk), len(q.aside))
	}
	for _, a := range q.aside {
		ref, ok := live.aside.Find(a.item.ID)
		if found, is := onDisk[a.item.ID]; is {
			if a.state != aside.Delayed || found.Due != a.due || found.Count != a.count {
				r.fail("queue %q: hidden item %d is due at %d with count %d, want %+v", q.name, a.item.ID, found.Due, found.Count, a)
			}
			r.compareItem(q.name, found.Item, a.item)
			continue
		}
		if !ok {
			r.fail("queue %q: item %d is not aside", q.name, a.item.ID)
			continue
		}
		want := aside.Entry{State: a.state, Due: a.due, Token: a.token, Count: a.count}
		if got := live.aside.Get(ref); got != want {
			r.fail("queue %q: item %d is %+v, want %+v", q.name, a.item.ID, got, want)
		}
		r.compareItem(q.name, live.aside.Item(ref), a.item)
	}
}
