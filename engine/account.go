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

// accounts is the table of the queues by account.
type accounts struct {
	mu    sync.Mutex        // taken behind a shard's mutex, and held for memory work only
	first map[string]*queue // of each account; a queue knows its next and its last, which mu guards as well
}

func (a *accounts) add(q *queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := accountname.Of(q.name)
	if q.next = a.first[name]; q.next != nil {
		q.next.last = q
	}
	a.first[name] = q
}

// remove takes q out. It still knows which one was next: a list may be at it.
func (a *accounts) remove(q *queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.next != nil {
		q.next.last = q.last
	}
	if q.last != nil {
		q.last.next = q.next
	} else if a.first[accountname.Of(q.name)] = q.next; q.next == nil {
		delete(a.first, accountname.Of(q.name))
	}
}

// list returns the queues of an account, in no order: at most so many, unless that is 0. It holds the mutex for
// manyQueues of them at a time.
func (a *accounts) list(name string, most int) (queues []*queue) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for q := a.first[name]; q != nil && (most == 0 || len(queues) < most); q = q.next {
		if queues = append(queues, q); len(queues)%manyQueues == 0 {
			a.mu.Unlock()
			queues = slices.Grow(queues, manyQueues)
			a.mu.Lock()
		}
	}
	return queues
}
