package engine

import (
	"cmp"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/accountname"
	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

// An account is a name space of queues, for protocols that serve several tenants. The queues of
// DefaultAccount are those without an account. A queue of any other account has a name with a slash:
// account, slash, queue. No other protocol can send a slash in a name, so none reaches these queues.

// DefaultAccount is the account of the queues that have none in their name.
const DefaultAccount = accountname.Default

// AppendAccountQueue appends the name of a queue of an account. Whether it is a legal name shows at its first use.
func AppendAccountQueue(dst, account, queue []byte) []byte {
	return accountname.Append(dst, account, queue)
}

// CutAccount returns the account and the queue that name stands for.
func CutAccount(name string) (account, queue string) { return accountname.Cut(name) }

// HasItems reports whether the queue called name has items for anybody: in line, delayed, leased or
// open. It removes those that have expired first.
func (e *Engine) HasItems(now Time, name []byte) bool {
	defer contain()
	sh, q := e.lockQueue(name)
	defer e.unlock(sh, now)
	left := int64(sweepBatch)
	return q != nil && e.hasItemsLocked(q, now, &left)
}

// hasItemsLocked is HasItems; the caller holds the shard's mutex, and gives it back with unlock. It removes as many expired
// items as left says, which it counts down: one that goes to another queue counts as several. It takes what is behind
// these for items.
func (e *Engine) hasItemsLocked(q *queue, now Time, left *int64) bool {
	if !q.headBusy() {
		each := sweepBatch / q.sweepMost()
		most := *left / each
		n := e.sweep(q, now, most)
		if *left -= n * each; n == most && q.items() > 0 {
			e.sweepLater(q)
		}
	}
	return q.items() > 0 || q.leased() > 0 || q.open.Len() > 0 || q.moving.Len() > 0
}

// hasItems is hasItemsLocked for a caller that does not hold the shard's mutex.
func (e *Engine) hasItems(q *queue, now Time, left *int64) bool {
	q.shard.mu.Lock()
	defer e.unlock(q.shard, now)
	return !q.deleted && e.hasItemsLocked(q, now, left)
}

// byAge orders queues by when they were made.
func byAge(a, b *queue) int {
	return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
}

// manyQueues is how many queues AccountHasItems looks at.
const manyQueues = 1000

// AccountHasItems reports whether any queue of the account has items. It looks at no more than a thousand queues, and
// removes no more expired items than HasItems. An account with more has items as well, as far as it knows.
func (e *Engine) AccountHasItems(now Time, account []byte) bool {
	defer contain()
	queues := e.accounts.List(accountname.InName(account), manyQueues)
	left := int64(sweepBatch)
	return len(queues) == manyQueues ||
		slices.ContainsFunc(queues, func(q *queue) bool { return e.hasItems(q, now, &left) })
}

// AccountQueues returns the queues of the account that have items, as the account's clients spell them,
// in the order in which they were made. It takes time in proportion to how many there are, and holds no
// lock for longer than one queue takes.
func (e *Engine) AccountQueues(now Time, account []byte) []string {
	defer contain()
	var names []string
	for _, q := range e.withItems(now, accountname.InName(account)) {
		_, name := CutAccount(q.name)
		names = append(names, name)
	}
	return names
}

// withItems returns the queues of an account that have items, in the order in which they were made.
func (e *Engine) withItems(now Time, account string) []*queue {
	queues := slices.DeleteFunc(e.accounts.List(account, 0), func(q *queue) bool {
		left := int64(sweepBatch)
		return !e.hasItems(q, now, &left)
	})
	slices.SortFunc(queues, byAge)
	return queues
}

// Accounts returns the accounts that have items. Their order is that in which the oldest queue with items of each was
// made. It takes time in proportion to the number of queues.
func (e *Engine) Accounts(now Time) []string {
	defer contain()
	var first []*queue
	for _, account := range e.accounts.Accounts() {
		if queues := e.withItems(now, account); len(queues) > 0 {
			first = append(first, queues[0])
		}
	}
	slices.SortFunc(first, byAge)
	names := make([]string, len(first))
	for i, q := range first {
		names[i], _ = CutAccount(q.name)
	}
	return names
}

// QueueNumber returns the number of the queue called name, which no other queue ever has; ok is false if
// there is no such queue.
func (e *Engine) QueueNumber(name []byte) (number uint64, ok bool) {
	defer contain()
	sh, q := e.lockQueue(name)
	defer sh.mu.Unlock()
	if q == nil {
		return 0, false
	}
	return q.number, true
}

// AccountUse is what an account takes.
type AccountUse struct {
	Queues int64 // empty ones as well
	Items  int64 // in line, delayed, leased and open
	Bytes  int64 // of their bodies
}

// Plus returns the sums of u and more.
func (u AccountUse) Plus(more AccountUse) AccountUse {
	return AccountUse{u.Queues + more.Queues, u.Items + more.Items, u.Bytes + more.Bytes}
}

// AccountUse returns what an account takes. It takes time in proportion to its queues, and holds no lock for longer
// than one queue takes.
func (e *Engine) AccountUse(account []byte) (u AccountUse) {
	defer contain()
	for _, q := range e.accounts.List(accountname.InName(account), 0) {
		q.shard.mu.Lock()
		if !q.deleted {
			u.Queues++
			u.Items += q.items() + q.open.Len()
			u.Bytes += q.bytes() + q.open.bytes
			if q.aside != nil {
				leased := q.aside.Tally(aside.Leased)
				u.Items, u.Bytes = u.Items+leased.Count, u.Bytes+leased.Bytes
			}
		}
		q.shard.mu.Unlock()
	}
	return u
}
