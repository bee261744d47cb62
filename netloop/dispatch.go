package netloop

import (
	"errors"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// This file has the operations of a client, the same for every protocol. They decide whether to refuse a request,
// count it, and note what the reply must wait for. Protocols only read the arguments and word the outcome.

func (s *session) readsBlocked() bool {
	return s.refuseReads || s.unheard || s.loop.server.status.Enforced().BlocksReads()
}

func (s *session) writesBlocked() bool {
	return s.refuseWrites || s.loop.server.status.Enforced().BlocksWrites()
}

// put adds an item to the queue called name. The reply must claim the ticket, see claim.
func (s *session) put(name []byte, p engine.PutRequest) (engine.Ticket, error) {
	if s.writesBlocked() {
		return engine.Ticket{}, errSetUnavailable
	}
	s.loop.counters.CmdSet++
	p.ClientID = s.clientID
	s.puts(len(p.Data))
	l := s.loop
	work := putWork(&p)
	if l.engine.FansOut() {
		work *= l.engine.Takers(name)
	}
	s.work += work - 1
	put, err := l.engine.PutAll(l.now, name, []engine.PutRequest{p})
	l.replaced = put.Replaced
	l.latencies.count(CommandPut, put.Meter, put.Ticket, 1)
	s.afterPut(name, put.Ticket, put.Ahead)
	return put.Ticket, s.unnamed(name, err)
}

// afterPut is after, for puts to the queue called name. It notes whether that queue is ahead of the disk, and that
// the client puts and so does not catch up.
func (s *session) afterPut(name []byte, t engine.Ticket, ahead bool) {
	s.after(t)
	s.catchUp = false
	if ahead {
		s.ahead = append(s.ahead[:0], name...)
	}
}

// putAll is put for several items to one queue. It ends at the first that the engine refuses, and returns how many
// are stored.
func (s *session) putAll(name []byte, puts []engine.PutRequest) (n int, err error) {
	if s.writesBlocked() {
		return 0, errSetUnavailable
	}
	l := s.loop
	put, err := l.engine.PutAll(l.now, name, puts)
	admitted := int64(put.Count)
	if err != nil {
		admitted++
	}
	l.counters.CmdSet += admitted
	l.latencies.count(CommandPut, put.Meter, put.Ticket, admitted)
	s.afterPut(name, put.Ticket, put.Ahead)
	return put.Count, s.unnamed(name, err)
}

// fetch hands the next item of the queue called name to the protocol, or waits up to millis for one. spelt is what the
// client calls the queue. If the client repeats the request, fetch may do up to most of them at once, when they take
// items. It returns how many it did.
func (s *session) fetch(
	name, spelt []byte, access engine.Access, millis int32, most int,
) (done int) {
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return 1
	}
	l := s.loop
	if access == engine.OpenRead && s.countReads(name) >= l.server.opts.MaxOpenReads {
		s.refuse(errTooManyReads)
		return 1
	}
	if access.Holds() && s.readsShort() {
		s.loop.counters.RepliesRefused++
		s.refuse(engine.ErrOutOfMemory)
		return 1
	}
	if s.id.usage != nil && s.reserves(access) {
		if _, err := s.reserveReads(1); err != nil {
			s.refuse(err)
			return 1
		}
	}
	s.name = spelt
	wait := millis > 0 && s.mayWait()
	var got engine.Fetched
	n, err := s.try(name, access, wait, most, &got)
	s.releaseReserved(got.Waiting)
	done = max(n, 1)
	s.work += done - 1
	if access == engine.Peek {
		l.counters.CmdPeek++
	} else {
		l.counters.CmdGet += int64(done)
	}
	switch {
	case err == nil:
	case got.Waiting && !wait:
		s.beginWait(waitFetch, name, spelt, access, forever)
	case got.Waiting:
		s.beginWait(waitFetch, name, spelt, access, l.clock+moment(millis))
	case err == engine.ErrEmpty && millis > 0 && !wait:
		s.refuse(s.waitsQuota())
	case err == engine.ErrEmpty:
		s.proto.none(s)
	case err == engine.ErrNotTaken:
		s.notTaken()
	default:
		s.refuse(err)
	}
	return done
}

// readsShort reports whether memory is short, and the session already has more than a few open reads.
func (s *session) readsShort() bool { return s.reads.size > smallReads && s.loop.ledger.tight(0) }

// try fetches once, or up to most times if access is Take, and returns how many items came. If none came and wait is
// set, the session's Waiter is at the queue afterwards. If the next item is still on disk, it is there in any case. The
// outcome is in got.
func (s *session) try(
	name []byte, access engine.Access, wait bool, most int, got *engine.Fetched,
) (n int, err error) {
	l := s.loop
	f := s.fetchRequest(access, wait)
	if access == engine.Take {
		err = l.engine.FetchMany(l.now, name, &f, min(most, maxFetched), (*taker)(s), nil, got)
	} else {
		err = l.engine.FetchMany(l.now, name, &f, 1, s, nil, got)
	}
	n, s.catchUp = got.Count, got.ManyLeft
	s.after(got.Ticket)
	s.countFetch(access, got, n, err)
	switch {
	case err == nil:
		l.counters.GetHits += int64(n)
		if access.Holds() {
			s.opened(name, got.Read)
		}
	case err == engine.ErrEmpty && !got.Waiting && !got.Alias:
		l.counters.GetMisses++
	}
	return n, err
}

// taker is a session that takes several items, one for each request. It takes no second one while too many replies
// wait for the client.
type taker session

// Receive implements engine.Receiver.
func (t *taker) Receive(it engine.Item) bool {
	s := (*session)(t)
	if len(s.out) > s.replyStart && s.owesTooMuch() {
		return false
	}
	return s.Receive(it)
}

// maxFetched is how many items are fetched with a shard locked.
const maxFetched = 128

// tryMany is try for up to most items that stay open, maxFetched at most. It returns how many came. An error says why
// no more came, and there may be items all the same. Fewer may come without an error.
func (s *session) tryMany(
	name []byte, access engine.Access, wait bool, most int,
) (n int, got engine.Fetched, err error) {
	l := s.loop
	request := s.fetchRequest(access, wait)
	s.thrift.get.many = true
	l.refs = l.refs[:0]
	err = l.engine.FetchMany(l.now, name, &request, most, s, &l.refs, &got)
	s.thrift.get.many, s.catchUp = false, got.ManyLeft
	s.after(got.Ticket)
	if n = len(l.refs); n > 0 {
		s.reads.add(name, l.refs...)
		s.chargeItems(n, 0)
		s.work += n
		l.counters.GetHits += int64(n)
		l.counters.CmdMonitorGet += int64(n)
		if access == engine.Hold {
			s.wait.meter = got.Meter
			s.wait.holds += n // counted when they are confirmed
		} else {
			l.latencies.count(CommandHit, got.Meter, got.Ticket, int64(n))
		}
	}
	if err == nil {
		return n, got, nil
	}
	l.counters.CmdMonitorGet++
	s.countFetch(access, &got, 0, err)
	if err == engine.ErrEmpty && !got.Waiting && !got.Alias {
		l.counters.GetMisses++
	}
	return n, got, err
}

// fetchRequest returns a request to the engine. The session's Waiter joins the queue's waiters if there is no item and
// wait is set, or if the item is still on disk.
func (s *session) fetchRequest(access engine.Access, wait bool) engine.FetchRequest {
	w := &s.wait.waiter
	w.Notify = s
	return s.ask(engine.FetchRequest{
		Access: access, ClientID: s.clientID, Waiter: w, Immediate: !wait || s.loop.draining,
	})
}

// ask adds the terms of the fetch to a request to the engine.
func (s *session) ask(f engine.FetchRequest) engine.FetchRequest {
	if s.terms != (terms{}) {
		f.Lease, f.Delivery, f.Holder = s.terms.lease, &s.delivery, s.id.holder()
	}
	return f
}

// opened keeps a read that the fetch has opened.
func (s *session) opened(name []byte, ref engine.ReadRef) {
	s.reads.add(name, ref)
	if s.terms.lease != 0 {
		s.reads.of(name).leased = true
	}
}

// countFetch counts a fetch that brought n items at once, or notes the beginning of a wait.
func (s *session) countFetch(access engine.Access, got *engine.Fetched, n int, err error) {
	l := s.loop
	switch {
	case got.Waiting:
		s.wait.meter, s.wait.began = got.Meter, l.clock
	case err == nil && access == engine.Peek, err == engine.ErrEmpty && access == engine.Peek:
		l.latencies.count(CommandPeek, nil, got.Ticket, 1)
	case err == nil:
		l.latencies.count(CommandHit, got.Meter, got.Ticket, int64(n))
	case err == engine.ErrEmpty && !got.Alias:
		l.latencies.count(CommandMiss, got.Meter, got.Ticket, 1)
	}
}

// confirmOldest confirms the connection's oldest n open reads of the queue. It confirms none if there are fewer.
func (s *session) confirmOldest(name []byte, n int) error {
	q := s.readsOf(name)
	if n < 1 || q.len() < n {
		return errNotThatMany
	}
	var t engine.Ticket
	for range n {
		u, _ := s.loop.engine.Confirm(s.loop.now, s.reads.take(q)) // a read that has ended by itself counts as confirmed
		t = t.Merge(u)
	}
	s.work += n - 1
	s.claim(t)
	s.loop.latencies.count(CommandConfirm, nil, t, 1)
	return nil
}

// confirmAll confirms every open read of the queue that the connection has, unless a reload has taken its right to them.
func (s *session) confirmAll(name []byte) {
	if n := s.countReads(name); n > 0 && s.mayGoOn(name) {
		s.confirmOldest(name, n)
		s.claiming = false // the reply is about what comes next
	}
}

// delete, flush and flushAll call done with the outcome: now, or when a job has ended. flushExpired and
// flushAllExpired also pass how many items they removed.

func (s *session) delete(name []byte, done func(*session, error)) {
	if s.writesBlocked() {
		done(s, errDeleteUnavailable)
		return
	}
	s.clear(CommandDelete, name, s.loop.engine.Deleting(name), withoutCount(done))
}

func (s *session) flush(name []byte, done func(*session, error)) {
	if s.writesBlocked() {
		done(s, errFlushUnavailable)
		return
	}
	s.clear(CommandFlush, name, s.loop.engine.Flushing(name, s.clientID), withoutCount(done))
}

func (s *session) flushAll(done func(*session, error)) {
	if s.writesBlocked() {
		done(s, errFlushAllUnavailable)
		return
	}
	s.clear(CommandFlush, nil, s.loop.engine.FlushingAll(s.clientID), func(s *session, _ int64, err error) {
		done(s, s.unnamed([]byte("*"), err))
	})
}

func withoutCount(done func(*session, error)) func(*session, int64, error) {
	return func(s *session, _ int64, err error) { done(s, err) }
}

func (s *session) flushExpired(name []byte, done func(*session, int64, error)) {
	if s.writesBlocked() {
		done(s, 0, errFlushExpiredUnavailable)
		return
	}
	s.clear(CommandFlush, name, s.loop.engine.FlushingExpired(name), done)
}

func (s *session) flushAllExpired(done func(*session, int64, error)) {
	s.clear(CommandFlush, nil, s.loop.engine.FlushingAllExpired(), done)
}

// setNamedStatus is setStatus by the status's name.
func (s *session) setNamedStatus(name string, done func(*session, error)) {
	to, err := ParseStatus(name)
	if err != nil {
		done(s, err)
		return
	}
	s.setStatus(to, done)
}

// setStatus changes the server's status, for a client that may operate it, and calls done with the
// outcome.
func (s *session) setStatus(to Status, done func(*session, error)) {
	if err := s.mayOperate(); err != nil {
		done(s, err)
		return
	}
	server := s.loop.server
	s.startJob(func() error { return server.status.set(to) }, done)
}

// shutdown asks the server to stop, for a client that may operate it.
func (s *session) shutdown() error {
	if err := s.mayOperate(); err != nil {
		return err
	}
	s.loop.server.requestShutdown()
	return nil
}

// reason words an error for clients of the protocols that send words.
func reason(err error) string {
	switch {
	case errors.Is(err, engine.ErrOutOfDisk):
		return "out of disk space"
	case errors.Is(err, engine.ErrOutOfMemory):
		return "out of memory"
	case errors.Is(err, engine.ErrWithheld):
		return "queue is withheld"
	case errors.Is(err, engine.ErrBacklog):
		return "backlog cannot be read"
	case errors.Is(err, engine.ErrTooManyQueues):
		return "too many queues"
	case errors.Is(err, engine.ErrTooManyKeys):
		return "too many keys"
	case errors.Is(err, engine.ErrTooManyChildren):
		return "too many fanout children"
	case errors.Is(err, engine.ErrJournal):
		return "journal failed"
	case isLeaseRefusal(err):
		return leaseReason(err)
	}
	return err.Error()
}

// terms are what a client asks of a fetch beyond its access. A session has those of the fetch that it runs, or that
// waits.
type terms struct {
	lease time.Duration // as in engine.FetchRequest
	meta  bool          // a description of the item comes in front of it
	named bool          // text: the name of the queue comes in front of it
}

// leaseOf is a lease of millis milliseconds, or for 0 the lease that the queue's options give.
func leaseOf(millis int64) time.Duration {
	if millis == 0 {
		return engine.DefaultLease
	}
	return time.Duration(millis) * time.Millisecond
}

// isLeaseRefusal reports whether err refuses a lease, a delay, a key or an item that the client named. The connection
// goes on.
func isLeaseRefusal(err error) bool {
	return errors.Is(err, engine.ErrNotHeld) || errors.Is(err, engine.ErrNoLease) ||
		errors.Is(err, engine.ErrBadLease) || errors.Is(err, engine.ErrDelayTooLong) || errors.Is(err, engine.ErrBadKey) ||
		errors.Is(err, engine.ErrNoSuchItem)
}

// leaseReason words such an error.
func leaseReason(err error) string { return strings.TrimPrefix(err.Error(), "engine: ") }

// readsPerWork is how many open reads are looked at in the time of a unit of work; see maxWork.
const readsPerWork = 8

// readsOf returns the open reads that the connection has of the queue called name; nil if it has none. It forgets leases
// that have lapsed.
func (s *session) readsOf(name []byte) *queueReads {
	if s.reads.open == 0 {
		return nil
	}
	q := s.reads.of(name)
	if q.len() > 0 && q.leased {
		s.work += q.len() / readsPerWork
		s.reads.reduce(q, s.loop.engine.StillOpen(s.loop.now, q.refs[q.head:]))
	}
	return q
}

// countReads is how many readsOf returns.
func (s *session) countReads(name []byte) int { return s.readsOf(name).len() }

// endClaim is claim, for a reply that says that a read has ended. A zero ticket means that nothing was recorded:
// then the reply is true in any case.
func (s *session) endClaim(t engine.Ticket) {
	if t != (engine.Ticket{}) {
		s.claim(t)
	}
}

// returnOldest gives the connection's oldest open read of the queue back, if it has one.
func (s *session) returnOldest(name []byte, how engine.Return) error {
	q := s.readsOf(name)
	if q.len() == 0 {
		return nil
	}
	t, _, err := s.loop.engine.Return(s.loop.now, q.refs[q.head:q.head+1], how)
	if err != nil {
		return err
	}
	s.reads.take(q)
	s.endClaim(t)
	return nil
}

// returnLease gives back the item that the receipt holds.
func (s *session) returnLease(name []byte, receipt uint64, how engine.Return) error {
	t, err := s.loop.engine.ReturnLease(s.loop.now, name, receipt, how)
	if err == nil {
		s.endClaim(t)
	}
	return err
}

// confirmLease confirms the item that a receipt holds.
func (s *session) confirmLease(name []byte, receipt uint64) error {
	t, err := s.loop.engine.ConfirmLease(s.loop.now, name, receipt)
	if err == nil {
		s.endClaim(t)
		s.loop.latencies.count(CommandConfirm, nil, t, 1)
	}
	return err
}

// extendLease makes a lease end d from now, and returns that time. The lease is the one with the receipt, or for
// receipt 0 the connection's oldest one of the queue.
func (s *session) extendLease(name []byte, receipt uint64, d time.Duration) (due engine.Time, err error) {
	l := s.loop
	if receipt != 0 {
		due, t, err := l.engine.ExtendLease(l.now, name, receipt, d)
		if err == nil {
			s.endClaim(t)
		}
		return due, err
	}
	if q := s.readsOf(name); q.len() > 0 {
		for _, ref := range q.refs[q.head:] {
			if due, ok := l.engine.ExtendRead(l.now, ref, d); ok {
				return due, nil
			}
		}
	}
	return 0, engine.ErrNotHeld
}
