package netloop

import (
	"sync"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// usage is what one user uses of what a quota bounds, over all connections. Any goroutine may use it.
type usage struct {
	connections atomic.Int64
	reads       atomic.Int64 // open ones, and those that fetches have reserved
	waits       atomic.Int64
	leases      engine.Holder
	operations  pacer
	bytes       pacer
}

// usages are those of the users that have, or had, a quota, by name. They outlive reloads.
type usages struct {
	mu     sync.Mutex
	byName map[string]*usage // guarded by mu
}

// of returns the usage of u, or nil if u has no quota.
func (us *usages) of(u *access.User) *usage {
	if u == nil || u.Quota.IsZero() {
		return nil
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	found := us.byName[u.Name]
	if found == nil {
		found = &usage{leases: engine.Holder{Client: engine.Client{User: u.Name}}}
		if us.byName == nil {
			us.byName = make(map[string]*usage)
		}
		us.byName[u.Name] = found
	}
	return found
}

// pacer says when a user has had too much of something a second. Time pays off what was used.
type pacer struct{ paid atomic.Int64 } // when all will be: ns on the server's clock

const (
	paceSecond = int64(1e9) // what may be used at once: what a second allows
	// maxAtOnce is for how many seconds one request may use the quota up. The server refuses one that says from the
	// start that it wants more.
	maxAtOnce = 60
	// maxDebt bounds how long a user waits after replies that are larger than that.
	maxDebt = 3600 * paceSecond
)

// costOf is how many ns it takes to pay n off.
func costOf(n, most int64) int64 {
	return int64(min(float64(n)/float64(most)*float64(paceSecond), float64(maxDebt)))
}

// use adds n to what was used until now.
func (p *pacer) use(n, most, now int64) {
	if n <= 0 || most == 0 {
		return
	}
	cost := costOf(n, most)
	for {
		paid := p.paid.Load()
		if p.paid.CompareAndSwap(paid, min(max(paid, now)+cost, now+maxDebt)) {
			return
		}
	}
}

// take is use, unless more may be used only later: then it uses nothing, and returns in how many ns that is.
func (p *pacer) take(n, most, now int64) (wait int64) {
	for most > 0 {
		paid := p.paid.Load()
		if wait := paid - now - paceSecond; wait > 0 {
			return wait
		}
		if p.paid.CompareAndSwap(paid, max(paid, now)+costOf(n, most)) {
			break
		}
	}
	return 0
}

// wait returns how many ns it takes until more may be used; 0 if it may now.
func (p *pacer) wait(now int64) int64 { return max(p.paid.Load()-now-paceSecond, 0) }

// maxFreeReplies is how many bytes of replies of a session that refuse requests, and have not left, are free.
const maxFreeReplies = 64 << 10

// charges are how far a user was charged for what a session does. It may be further than the session is.
type charges struct {
	requests, sent int64 // of the session's tally, that the user was charged for, or that are free
	admitted       bool  // the request that comes next was admitted and charged before
}

// overQuota returns why the session's next request, which has size bytes, must not run, or nil. It charges the user for
// the request now: of many connections that ask at once, no more get through than of one.
func (s *session) overQuota(size int) error {
	u, q, c, now := s.id.usage, &s.id.user.Quota, &s.id.charges, int64(s.loop.clock)*1e6
	s.chargeQuota()
	if c.admitted {
		c.admitted = false
		return nil
	}
	err := s.overRate(0, size)
	c.requests++ // what is refused costs nothing
	if err != nil {
		c.sent = max(c.sent, min(c.sent+int64(len(err.Error())), s.tally.sent+maxFreeReplies))
		return s.refusedByQuota(err)
	}
	u.operations.use(1, q.Operations, now)
	u.bytes.use(int64(size), q.Bytes, now)
	return nil
}

// overRate returns why the user may not do something now that counts as so many operations and has size bytes, or nil.
func (s *session) overRate(operations, size int) *access.OverQuota {
	u, q, now := s.id.usage, &s.id.user.Quota, int64(s.loop.clock)*1e6
	switch {
	case q.Operations > 0 && u.operations.wait(now) > 0:
		return &access.OverQuota{What: "operations", Most: q.Operations, Wait: 1 + u.operations.wait(now)/1e6}
	case q.Bytes > 0 && u.bytes.wait(now) > 0:
		return &access.OverQuota{What: "bytes", Most: q.Bytes, Wait: 1 + u.bytes.wait(now)/1e6}
	case q.Operations > 0 && int64(operations)/maxAtOnce >= q.Operations:
		return &access.OverQuota{What: "operations", Most: q.Operations * maxAtOnce}
	case q.Bytes > 0 && int64(size)/maxAtOnce >= q.Bytes:
		return &access.OverQuota{What: "bytes", Most: q.Bytes * maxAtOnce}
	}
	return nil
}

// chargeQuota charges the user for what the session has done and was not charged for yet.
func (s *session) chargeQuota() {
	u, q, c, now := s.id.usage, &s.id.user.Quota, &s.id.charges, int64(s.loop.clock)*1e6
	u.operations.use(s.tally.requests-c.requests, q.Operations, now)
	u.bytes.use(s.tally.sent-c.sent, q.Bytes, now)
	c.requests, c.sent = max(c.requests, s.tally.requests), max(c.sent, s.tally.sent)
}

// refusedByQuota counts a refusal. The server logs one a second at most.
func (s *session) refusedByQuota(err *access.OverQuota) error {
	l := s.loop
	*l.counters.OverQuota.of(err.What)++
	s.overQuotas++
	if refused, ok := l.server.logPaces.quota.due(l.clock); ok {
		l.log.Warn("request refused: the user is over its quota", "user", s.id.user.Name, "peer", s.sink.peer(),
			"quota", err.What, "most", err.Most, "refused", refused)
	}
	return err
}

// chargeItems charges the user for items that one request puts or fetches, and for bytes of them that are not those of
// the request.
func (s *session) chargeItems(n, size int) {
	if u := s.id.usage; u != nil {
		now := int64(s.loop.clock) * 1e6
		u.operations.use(int64(n), s.id.user.Quota.Operations, now)
		u.bytes.use(int64(size), s.id.user.Quota.Bytes, now)
	}
}

// overItems returns why the user may not put so many items, of size bytes beyond those of their request, by one request
// that was admitted. If it may, it is charged.
func (s *session) overItems(n, size int) error {
	if s.id.usage == nil {
		return nil
	}
	q := &s.id.user.Quota
	if q.Operations > 0 && int64(n)/maxAtOnce >= q.Operations {
		return s.refusedByQuota(&access.OverQuota{What: "operations", Most: q.Operations * maxAtOnce})
	}
	s.chargeItems(n, size)
	return nil
}

// admitItems is overItems for a job, whose request was admitted a while ago: others of the user may have used the quota
// up since then. The refusal is still to be counted. Now is in ns on the server's clock.
func (u *usage) admitItems(n int, operations, now int64) *access.OverQuota {
	if operations > 0 && int64(n)/maxAtOnce >= operations {
		return &access.OverQuota{What: "operations", Most: operations * maxAtOnce}
	}
	if wait := u.operations.take(int64(n), operations, now); wait > 0 {
		return &access.OverQuota{What: "operations", Most: operations, Wait: 1 + wait/1e6}
	}
	return nil
}

// overItem is overItems for the next item of a request that brings them one by one. One request may use the quota up
// for maxAtOnce seconds.
func (s *session) overItem(size int) error {
	u, q, now := s.id.usage, &s.id.user.Quota, int64(s.loop.clock)*1e6
	if wait := max(u.operations.wait(now), u.bytes.wait(now)); wait > (maxAtOnce-1)*paceSecond {
		return s.refusedByQuota(s.overRate(0, 0))
	}
	u.operations.use(1, q.Operations, now)
	u.bytes.use(int64(size), q.Bytes, now)
	return nil
}

// chargeReply charges the user for an item of size bytes in a reply, before the reply leaves: many connections may have
// such replies at once.
func (s *session) chargeReply(size int) {
	if u := s.id.usage; u != nil {
		u.bytes.use(int64(size), s.id.user.Quota.Bytes, int64(s.loop.clock)*1e6)
		s.id.charges.sent += int64(size)
	}
}

// Admit charges a user for a request that did not come over a connection of the server's. It returns why the request
// must not run, or nil. It returns an *access.OverQuota.
func (s *Server) Admit(u *access.User) error {
	us := s.usages.of(u)
	if us == nil || u.Quota.Operations == 0 {
		return nil
	}
	now := int64(s.clock.now()) * 1e6
	if wait := us.operations.wait(now); wait > 0 {
		s.overQuota.Add(1)
		return &access.OverQuota{What: "operations", Most: u.Quota.Operations, Wait: 1 + wait/1e6}
	}
	us.operations.use(1, u.Quota.Operations, now)
	return nil
}

// reserveReads reserves open reads for a fetch that begins, most at most, and returns how many, or why it may have none.
// They count like open ones until releaseReserved gives them back: other connections fetch at the same time.
func (s *session) reserveReads(most int) (int, error) {
	u := s.id.usage
	if u == nil || most <= 0 {
		return most, nil
	}
	n := int64(most)
	reads := u.reads.Add(n)
	if limit := s.id.user.Quota.OpenReads; limit > 0 {
		if over := min(reads+int64(u.leases.Leases())-limit, n); over > 0 {
			u.reads.Add(-over)
			n -= over
		}
		if n == 0 {
			return 0, s.refusedByQuota(&access.OverQuota{What: "open_reads", Most: limit})
		}
	}
	s.wait.reserved += int(n)
	return int(n), nil
}

// halfOfReads returns how many open reads, most at most, a fetch that goes on afterwards should reserve: half of what the
// user has left. If it reserved them all, it would have others refused even where it finds no item.
func (s *session) halfOfReads(most int) int {
	limit := s.id.user.Quota.OpenReads
	if limit == 0 {
		return most
	}
	left := limit - s.id.usage.reads.Load() - int64(s.id.usage.leases.Leases())
	return max(1, int(min(int64(most), (left+1)/2)))
}

// releaseReserved gives back what a fetch has reserved, when its items are open. If it waits for one, that stays reserved.
func (s *session) releaseReserved(waits bool) {
	keep := 0
	if waits {
		keep = min(1, s.wait.reserved)
	}
	if n := s.wait.reserved - keep; n > 0 {
		s.wait.reserved = keep
		s.id.usage.reads.Add(-int64(n))
	}
}

// reserves reports whether the items of the fetch that runs, or waits, stay open or leased. Those of other fetches that
// hold them are gone when their reply leaves.
func (s *session) reserves(how engine.Access) bool {
	return how == engine.OpenRead || how == engine.Lease || how == engine.Hold && s.terms.meta
}

// mayWait reports whether the user may have another request that waits.
func (s *session) mayWait() bool {
	u := s.id.usage
	return u == nil || s.id.user.Quota.Waits == 0 || u.waits.Load() < s.id.user.Quota.Waits
}

// waitsQuota is why a request that would wait is refused.
func (s *session) waitsQuota() error {
	return s.refusedByQuota(&access.OverQuota{What: "waits", Most: s.id.user.Quota.Waits})
}

// become makes the client u, unless u has as many connections as it may.
func (s *session) become(u *access.User) error {
	us := s.loop.server.usages.of(u)
	if us != nil {
		n, most := us.connections.Add(1), u.Quota.Connections
		if us == s.id.usage {
			n-- // it is one of them already
		}
		if most > 0 && n > most {
			us.connections.Add(-1)
			s.loop.counters.OverQuota.Connections++
			return &access.OverQuota{What: "connections", Most: most}
		}
	}
	s.leaveUsage() // not before: a client that is refused stays one that is counted
	s.id.become(u)
	s.id.usage, s.reads.usage = us, us
	s.id.charges = charges{requests: s.tally.requests + 1, sent: s.tally.sent} // what it was asked by is not charged
	return nil
}

// joinAs makes the client u, whatever u uses already: its connection is open.
func (s *session) joinAs(u *access.User) {
	s.leaveUsage()
	us := s.loop.server.usages.of(u)
	s.id.become(u)
	s.id.usage, s.reads.usage = us, us
	if us == nil {
		return
	}
	us.connections.Add(1)
	us.reads.Add(int64(s.reads.open))
	s.id.charges = charges{requests: s.tally.requests, sent: s.tally.sent}
	if s.state != waiting {
		return
	}
	if s.wait.kind != waitJob && s.reserves(s.wait.access) {
		s.wait.reserved = 1
		us.reads.Add(1)
	}
	if s.wait.heapIndex >= 0 {
		s.countWait()
	}
}

// leaveUsage gives back what the session uses of its user's quota.
func (s *session) leaveUsage() {
	u := s.id.usage
	if u == nil {
		return
	}
	s.uncountWait()
	s.releaseReserved(false)
	s.chargeQuota()
	u.connections.Add(-1)
	u.reads.Add(-int64(s.reads.open))
	s.id.usage, s.reads.usage = nil, nil
}

// countWait counts that the session waits for an item.
func (s *session) countWait() {
	if u := s.id.usage; u != nil && !s.wait.counted {
		s.wait.counted = true
		u.waits.Add(1)
	}
}

// uncountWait is called when the wait has ended.
func (s *session) uncountWait() {
	if s.wait.counted {
		s.wait.counted = false
		s.id.usage.waits.Add(-1)
	}
}
