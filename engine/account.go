package engine

import (
	"slices"
	"sync"

	"github.com/kestrelmq/kestrel/engine/internal/accountname"
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

// accountsPiece is how many queues, or accounts, are listed before the table is unlocked.
const accountsPiece = 1024

// accounts is the table of the queues by account.
type accounts struct {
	yield  func()     // lets others have the processor
	mu     sync.Mutex // taken behind a shard's mutex, and held for memory work only
	queues map[string]map[*queue]struct{}
}

func (a *accounts) add(q *queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := accountname.Of(q.name)
	of := a.queues[name]
	if of == nil {
		of = make(map[*queue]struct{})
		if a.queues == nil {
			a.queues = make(map[string]map[*queue]struct{})
		}
		a.queues[name] = of
	}
	of[q] = struct{}{}
}

func (a *accounts) remove(q *queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := accountname.Of(q.name)
	of := a.queues[name]
	delete(of, q)
	if len(of) == 0 {
		delete(a.queues, name)
	}
}

// list returns the queues of an account, in no order: at most so many, unless that is 0.
func (a *accounts) list(name string, most int) []*queue {
	a.mu.Lock()
	defer a.mu.Unlock()
	return collect(a, a.queues[name], most)
}

// names returns the accounts.
func (a *accounts) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return collect(a, a.queues, 0)
}

// collect returns the keys of a map of a, at most so many, in pieces. A shard may be locked by who waits for a, which the
// caller has locked. The map may change while a is unlocked, as range allows.
func collect[K comparable, V any](a *accounts, from map[K]V, most int) (keys []K) {
	for key := range from {
		if keys = append(keys, key); len(keys) == most {
			break
		}
		if len(keys)%accountsPiece == 0 {
			a.mu.Unlock()
			keys = slices.Grow(keys, accountsPiece)
			a.yield()
			a.mu.Lock()
		}
	}
	return keys
}
