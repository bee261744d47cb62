package engine

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// The operations of a modelRun. Each draws its arguments, does the same to the engine and to the
// model, and compares what they say.

// item draws an item to put.
func (r *modelRun) item() Item {
	r.puts++
	it := Item{Data: fmt.Appendf(nil, "%d:", r.puts), Flags: r.Uint32N(4)}
	if size := r.IntN(300); size > len(it.Data) {
		letter := []byte{byte('a' + r.IntN(26))}
		it.Data = append(it.Data, bytes.Repeat(letter, size-len(it.Data))...)
	} else if size == 0 {
		it.Data = []byte{}
	}
	switch {
	case r.spilling && r.IntN(20) > 0:
		it.Expiry = r.now + neverReached
	case !r.spilling && r.IntN(3) == 0:
		it.Expiry = r.now + Time(r.IntN(5000)) - 100
	}
	return it
}

func (r *modelRun) put() {
	name := r.name()
	if r.IntN(10) == 0 {
		name = []string{"alias", "alias of it"}[r.IntN(2)]
	}
	if r.IntN(3) == 0 {
		r.putAll(name)
		return
	}
	it := r.item()
	p := PutRequest{Data: it.Data, Flags: it.Flags, Expiry: it.Expiry}
	if r.IntN(4) == 0 {
		p.Extra = &PutExtra{Delay: r.instant(4000)}
		r.m.delay = p.Extra.Delay
		defer func() { r.m.delay = 0 }()
	}
	if r.keyed && (r.busyKeys || r.IntN(2) == 0) {
		if p.Extra == nil {
			p.Extra = new(PutExtra)
		}
		p.Extra.Key, p.Extra.OnDuplicate = r.key(), Duplicate(r.IntN(3))
		it, r.m.dup = it.With(nil, p.Extra.Key, "", 0), p.Extra.OnDuplicate
	}
	r.op = fmt.Sprintf("put %q %d bytes, delay %v, key %q, %d", name, len(it.Data), r.m.delay, it.Key(), r.m.dup)
	ticket, err := r.e.Put(r.now, []byte(name), p)
	if want := r.m.put(r.now, name, it); !errors.Is(err, want) {
		r.fail("error %v, want %v", err, want)
	}
	r.maybeCommit(ticket)
}

// putAll puts several items at once; the model puts one after the other.
func (r *modelRun) putAll(name string) {
	var puts []PutRequest
	var want error
	taken := 0
	for range r.IntN(6) {
		it := r.item()
		puts = append(puts, PutRequest{Data: it.Data, Flags: it.Flags, Expiry: it.Expiry})
		if want == nil {
			if want = r.m.put(r.now, name, it); want == nil {
				taken++
			}
		}
	}
	r.op = fmt.Sprintf("put %q %d items at once", name, len(puts))
	s, err := r.e.PutAll(r.now, []byte(name), puts)
	if s.Count != taken || !errors.Is(err, want) {
		r.fail("%d put, error %v, want %d, %v", s.Count, err, taken, want)
	}
	r.maybeCommit(s.Ticket)
}

// maybeCommit commits now and then, so that some batches hold many operations.
func (r *modelRun) maybeCommit(ticket Ticket) {
	if r.IntN(4) == 0 {
		r.commit(ticket)
	}
}

func (r *modelRun) fetch() {
	name, access := r.name(), Access(r.IntN(4))
	var about Delivery
	request := FetchRequest{Access: access, Delivery: &about}
	if access == Lease || access == OpenRead && r.IntN(2) == 0 {
		request.Lease = r.instant(3000)
	}
	r.op = fmt.Sprintf("fetch %q, access %d, lease %v", name, access, request.Lease)
	var w *modelWaiter
	if r.IntN(3) == 0 {
		w = &modelWaiter{request: request, notified: func(w *modelWaiter) { r.notified = append(r.notified, w) }}
		w.Notify = w
		request.Waiter = &w.Waiter
	}
	var got copied
	f, err := r.e.Fetch(r.now, []byte(name), request, &got)
	for ; err == ErrComing && !f.Waiting && !r.fsys.Stopped(); f, err = r.e.Fetch(r.now, []byte(name), request, &got) {
		r.bring(name)
	}
	if r.fsys.Stopped() {
		return
	}
	if err == ErrComing {
		r.fetchComing(name, request, w)
		return
	}
	it, read, ok := r.m.fetch(r.now, name, access, request.Lease, r.token(name, &about), w)
	if _, alias := r.m.settings.Aliases[name]; f.Waiting != (!ok && w != nil && !alias) {
		r.fail("waiting = %v", f.Waiting)
	}
	switch {
	case !ok && err != ErrEmpty || ok && err != nil:
		r.fail("error %v, want that there is an item = %v", err, ok)
	case ok:
		r.compareItem(name, got.item, it)
	case f.Waiting:
		r.waits = append(r.waits, w)
	}
	if read != nil {
		read.ref, read.client = f.Read, r.IntN(3)
		r.reads = append(r.reads, read)
	}
	r.maybeCommit(f.Ticket)
}

// token returns what notes the receipt of a delivery of the queue called name, and returns it.
func (r *modelRun) token(name string, about *Delivery) func() uint64 {
	return func() uint64 {
		r.receipts = append(r.receipts, modelReceipt{name, about.Receipt})
		return about.Receipt
	}
}

// spool does what the spool has to do.
func (r *modelRun) spool() {
	spoolAll(r.e)
	r.noteSpooled()
}

// bring has the spool bring what a fetch of the queue called name asked for. That has woken what was due, and what it
// recorded may be written before the fetch is over.
func (r *modelRun) bring(name string) {
	if q := r.m.find(name); q != nil {
		r.m.wake(q, r.now)
	}
	r.m.finishMoves(r.now)
	r.noteWritten()
	r.spool()
}

// fetchComing completes a fetch that waits for an item on its way from disk.
func (r *modelRun) fetchComing(name string, request FetchRequest, w *modelWaiter) {
	r.op += ", coming"
	r.bring(name)
	if r.fsys.Stopped() {
		return
	}
	var got copied
	ticket, collected := Ticket{}, false
	if len(r.notified) == 1 && r.notified[0] == w {
		ticket, collected = r.e.Collect(r.now, w.Read, request, &got)
	}
	it, read, ok := r.m.fetch(r.now, name, request.Access, request.Lease, r.token(name, request.Delivery), nil)
	if !ok || len(r.notified) != 1 || r.notified[0] != w || w.Read.IsZero() {
		r.fail("notified %d waits, the item came = %v, want that it is there = %v",
			len(r.notified), !w.Read.IsZero(), ok)
		return
	}
	r.notified = nil
	if !collected {
		r.fail("the read has ended")
	}
	r.compareItem(name, got.item, it)
	if read != nil {
		read.ref, read.client = w.Read, r.IntN(3)
		r.reads = append(r.reads, read)
	}
	r.maybeCommit(ticket)
}

// endRead confirms or aborts any open read, or one that has ended.
func (r *modelRun) endRead() {
	if len(r.reads) == 0 {
		return
	}
	i := r.IntN(len(r.reads))
	read := r.reads[i]
	if r.IntN(2) == 0 {
		r.op = fmt.Sprintf("confirm item %d of %q", read.item.ID, read.q.name)
		ticket, ok := r.e.Confirm(r.now, read.ref)
		if want := r.m.end(read); ok != want {
			r.fail("ok = %v, want %v", ok, want)
		}
		r.maybeCommit(ticket)
	} else {
		[]func(*modelRead){r.returnRead, r.abort, r.leaseRead}[r.IntN(3)](read)
	}
	if r.IntN(4) > 0 { // else it is tried again
		r.reads = slices.Delete(r.reads, i, i+1)
	}
}

func (r *modelRun) abort(read *modelRead) {
	r.op = fmt.Sprintf("abort item %d of %q", read.item.ID, read.q.name)
	ok := r.e.Abort(r.now, read.ref)
	if want := r.m.abortAll(r.now, []*modelRead{read}) == 1; ok != want {
		r.fail("ok = %v, want %v", ok, want)
	}
}

// loseClient aborts all reads of one client, queue by queue.
func (r *modelRun) loseClient() {
	client := r.IntN(3)
	r.op = fmt.Sprint("lose client ", client)
	var queues []*modelQueue
	reads := make(map[*modelQueue][]*modelRead)
	for _, read := range r.reads {
		if read.client == client {
			if reads[read.q] == nil {
				queues = append(queues, read.q)
			}
			reads[read.q] = append(reads[read.q], read)
		}
	}
	for _, q := range queues {
		var refs []ReadRef
		for _, read := range reads[q] {
			refs = append(refs, read.ref)
		}
		ended := r.e.AbortAll(r.now, refs)
		if want := r.m.abortAll(r.now, reads[q]); ended != want {
			r.fail("%d reads ended, want %d", ended, want)
		}
	}
	r.reads = slices.DeleteFunc(r.reads, func(read *modelRead) bool {
		return read.client == client
	})
}

func (r *modelRun) endWait() {
	if len(r.waits) == 0 {
		return
	}
	w := r.waits[r.IntN(len(r.waits))]
	r.op = "cancel a wait"
	cancel := func() bool { return r.e.CancelWait(&w.Waiter) }
	if w.several != nil {
		cancel = func() bool { return r.e.CancelAny(&w.several.wait) }
	}
	if !cancel() {
		r.fail("the wait had ended")
	}
	r.m.forgetWait(w)
	r.waits = slices.DeleteFunc(r.waits, func(v *modelWaiter) bool { return v == w })
	if cancel() {
		r.fail("cancelled twice")
	}
}

// collect completes a wait that has ended, or lets its client disappear.
func (r *modelRun) collect() {
	if len(r.ready) == 0 {
		return
	}
	i := r.IntN(len(r.ready))
	w := r.ready[i]
	r.ready = slices.Delete(r.ready, i, i+1)
	if r.IntN(3) == 0 {
		r.abort(w.read)
		return
	}
	access := w.request.Access
	if w.request.Lease > 0 { // it begins now
		w.request.Lease = r.instant(3000)
	}
	r.op = fmt.Sprintf("collect item %d of %q, access %d", w.read.item.ID, w.read.q.name, access)
	var got copied
	ticket, ok := r.e.Collect(r.now, w.Read, w.request, &got)
	if ok == w.read.ended {
		r.fail("ok = %v, want %v", ok, !w.read.ended)
	}
	if ok {
		r.compareItem(w.read.q.name, got.item, w.read.item)
	}
	switch {
	case access == OpenRead:
		w.read.client = r.IntN(3)
		r.reads = append(r.reads, w.read)
		if w.request.Lease > 0 && ok {
			w.read.deadline = r.now.After(w.request.Lease)
		}
	case r.m.end(w.read) && access == Lease:
		w.read.q.lease(w.read.modelItem, r.now.After(w.request.Lease), r.token(w.read.q.name, w.request.Delivery)())
	}
	r.maybeCommit(ticket)
}

// queueOperation does what concerns a whole queue.
func (r *modelRun) queueOperation() {
	name := r.name()
	q := r.m.find(name)
	switch r.IntN(4) {
	case 0:
		r.op = fmt.Sprintf("delete %q", name)
		ticket := r.e.Delete(r.now, []byte(name))
		if q != nil {
			r.m.delete(q)
		}
		r.maybeCommit(ticket)
	case 1:
		r.flush(name, q)
	default:
		r.op = fmt.Sprintf("flush expired %q", name)
		n, ticket := r.e.FlushExpired(r.now, []byte(name))
		want := int64(0)
		if q != nil {
			want = r.m.flushExpired(r.now, q)
		}
		if n != want {
			r.fail("%d items, want %d", n, want)
		}
		r.maybeCommit(ticket)
	}
}

// neverReached is how far ahead, in milliseconds, items of a run that spills expire. Nothing but a flush meets them
// when they have, and only those that go to the queue called afterlife.
const (
	neverReached = Time(1) << 40
	afterlife    = "afterlife"
)

// flush flushes a queue; now and then it begins to while items are being written to the backlog.
func (r *modelRun) flush(name string, q *modelQueue) {
	r.op = fmt.Sprintf("flush %q", name)
	now := r.now
	if r.spilling && r.IntN(2) == 0 {
		now += 2 * neverReached
		r.op += " when all has expired"
	}
	c := r.e.Flushing([]byte(name), "")
	if q != nil && q.opts.ExpireTo == "" && r.between > 0 && r.IntN(2) == 0 {
		r.flushBetween(c, name, q)
		return
	}
	if r.spilling && r.IntN(2) == 0 {
		r.fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
			if op.Kind == segmenttest.OpWriteAt && strings.HasSuffix(op.Path, runs.Ext) {
				c.Do(now, 1+r.IntN(10))
			}
			return segmenttest.Fault{}
		})
		spoolSome(r.e, 1+r.IntN(3))
		r.fsys.SetFault(nil)
		r.noteSpooled()
	}
	for c.Do(now, 1+r.IntN(10)) {
		if c.Wait(); r.fsys.Stopped() {
			return
		}
	}
	_, ticket, err := c.Result()
	if err != nil {
		r.fail("error %v", err)
	}
	if q != nil {
		r.m.flush(now, q)
	}
	r.maybeCommit(ticket)
}

// flushBetween flushes a queue, and does other things between two pieces, at times another flush of it. Now and then it
// gives up, or the process ends. The items go in one step, which the engine counts.
func (r *modelRun) flushBetween(c *Clearing, name string, q *modelQueue) {
	r.between--
	defer func() { r.between++ }()
	e, live := r.e, r.e.shardOf([]byte(name)).queues[name]
	for more := true; more && !r.Failed(); {
		r.op = fmt.Sprintf("flush %q, a piece", name)
		before := live.counters.flushes
		if more = c.Do(r.now, 1); live.counters.flushes > before {
			r.m.flush(r.now, q)
		}
		if !more {
			break
		}
		c.Wait()
		r.compareTold()
		r.compare()
		r.noteWritten()
		if r.IntN(20) == 0 {
			c.GiveUp()
			return
		}
		for n := r.IntN(4); n > 0 && !r.Failed(); n-- {
			if r.do(); r.e != e {
				r.m.notified, r.notified = nil, nil
				return
			}
		}
		r.m.notified, r.notified = nil, nil
	}
	_, ticket, err := c.Result()
	if err != nil {
		r.fail("error %v", err)
	}
	r.maybeCommit(ticket)
}

// background does what maintenance does.
func (r *modelRun) background() {
	switch r.IntN(7) {
	case 6:
		r.wakeQueues()
	case 4, 5:
		r.op = "spool"
		r.e.spool.tend()
		r.spool()
	case 0:
		r.op = "trim"
		if r.IntN(2) == 0 {
			r.e.boundJournal()
		}
		if err := r.e.trimJournal(); err != nil {
			r.fail("error %v", err)
		}
	case 1:
		r.op = "prepare"
		r.e.journal.Prepare()
	case 2:
		r.op = "mark"
		r.e.journal.Mark()
	case 3:
		r.op = "end overdue reads"
		for _, q := range r.m.queues {
			r.endOverdue(q.name) // one queue at a time, so that moves have an order
			r.m.endOverdue(r.now, q)
		}
	}
}

func (r *modelRun) endOverdue(name string) {
	sh := r.e.shardOf([]byte(name))
	sh.mu.Lock()
	if q := sh.queues[name]; q.open.Len() > 0 && q.opts.OpenReadTimeout > 0 {
		if _, ok := sh.timed[q]; !ok {
			r.fail("queue %q is not in the list of those with a timeout", name)
		}
		sh.mu.Unlock()
		r.e.endOverdueReadsOf(q, r.now)
		return
	}
	sh.mu.Unlock()
}

func (r *modelRun) reload() {
	r.op = "reload"
	s := r.draw()
	err := r.e.Reload(s)
	if err != nil {
		r.fail("error %v", err)
	}
	before := r.m.reload(s)
	r.opts.Settings = s
	if err != nil {
		r.keepOut(before)
	}
}

// keepOut has the model leave queues out of the journal that a Reload could not bring into it. If the
// machine stops while the backlog of such a queue is synced, Reload fails and the queue keeps its options. The journal
// has nothing of it. Nothing is appended then, so the check for crashes would take the new state for acknowledged
// together with the one before. No other queue may keep its options.
func (r *modelRun) keepOut(before []QueueOptions) {
	for i, q := range r.m.queues {
		live := r.e.shardOf([]byte(q.name)).queues[q.name]
		enters := !before[i].KeepJournal && q.opts.KeepJournal
		if enters && live.backlog != nil && !live.opts.KeepJournal {
			q.opts = before[i]
		}
		if !reflect.DeepEqual(*live.opts, q.opts) {
			r.Errorf("seed %d, step %d: after a failed reload queue %q has options\n%+v, want\n%+v",
				r.seed, r.step, q.name, *live.opts, q.opts)
		}
	}
}

// restart closes or kills the process and starts another.
func (r *modelRun) restart() {
	if r.noRestart {
		return
	}
	if r.noKill || r.IntN(2) == 0 {
		r.op = "restart"
		for _, w := range r.waits {
			w.notified = func(*modelWaiter) {}
		}
		if err := r.e.Close(); err != nil {
			r.fail("Close = %v", err)
		} else {
			r.closed()
		}
		r.onDisk = r.m.durable()
	} else {
		r.op = "kill"
		r.fsys = r.fsys.Kill()
	}
	r.m.queues = nil
	for _, q := range r.onDisk {
		if q.opts = r.opts.Settings.For(q.name); q.opts.KeepJournal {
			r.m.queues = append(r.m.queues, q)
		}
	}
	r.open()
	if r.fsys.Stopped() {
		return
	}
	for _, q := range r.m.queues {
		sh := r.e.shardOf([]byte(q.name))
		if live := sh.queues[q.name]; live == nil || live.nextID != q.nextID {
			r.fail("queue %q: is there = %v, or the next id is not %d",
				q.name, live != nil, q.nextID)
		} else if live.aside != nil {
			r.notePassed(q, live)
		}
	}
}
