package netloop

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// AccountQuota is what one account may use, over all of its clients together. Zero is no limit.
type AccountQuota struct {
	Queues     int64 // that exist
	Items      int64 // in all of them: in line, hidden and leased
	Bytes      int64 // of these
	Waits      int64 // requests that wait
	Operations int64 // requests a second
	Traffic    int64 // bytes of requests a second
}

// accountQuotas are the quotas of accounts, by name. The set of accounts changes by whole maps. So a request of an
// account without a quota, or of a server without quotas, takes no lock.
type accountQuotas struct {
	byName atomic.Pointer[map[string]*accountUse]
	mu     sync.Mutex // held while the map is replaced
}

// accountUse is what one account uses. It outlives reloads.
type accountUse struct {
	name  string
	limit atomic.Pointer[AccountQuota]

	waits      atomic.Int64
	operations allowance
	traffic    allowance

	counting sync.Mutex // held by the job that counts

	mu     sync.Mutex        // held for no longer than it takes to count countAtOnce queues
	used   engine.AccountUse // guarded by mu: as counted last, and what was put since; never too little
	since  engine.AccountUse // guarded by mu: what was put since a job began to count
	counts bool              // guarded by mu: it has been counted
	next   time.Time         // guarded by mu: when it may be counted again
}

// countAtOnce is up to how many queues of an account a loop counts itself.
const countAtOnce = 1000

// errUncounted says that a job has to count what the account has, before anybody knows whether there is room.
var errUncounted = errors.New("the account is to be counted")

// set makes quotas those that hold from now on.
func (a *accountQuotas) set(quotas map[string]AccountQuota) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(quotas) == 0 {
		a.byName.Store(nil)
		return
	}
	was := a.byName.Load()
	now := make(map[string]*accountUse, len(quotas))
	for name, quota := range quotas {
		var u *accountUse
		if was != nil {
			u = (*was)[name]
		}
		if u == nil {
			u = &accountUse{name: name}
		}
		u.limit.Store(&quota)
		now[name] = u
	}
	a.byName.Store(&now)
}

// of returns the use of an account, or nil if it has no quota.
func (a *accountQuotas) of(account []byte) *accountUse {
	if m := a.byName.Load(); m != nil {
		return (*m)[string(account)]
	}
	return nil
}

// overAccountError refuses what would exceed the quota of an account.
type overAccountError struct {
	what string
	most int64
	wait int64 // seconds after which it may be tried again; 0: when something has gone from the account
}

func (e *overAccountError) Error() string {
	return fmt.Sprintf("The account may have %d %s, and has as many.", e.most, e.what)
}

// admit takes a request of size bytes in, and returns why it is not to be run, or nil. Now is on the server's clock.
func (u *accountUse) admit(size int, now moment) error {
	limit := u.limit.Load()
	if wait := u.operations.wait(now); limit.Operations > 0 && wait > 0 {
		return &overAccountError{"requests a second", limit.Operations, wait}
	}
	if wait := u.traffic.wait(now); limit.Traffic > 0 && wait > 0 {
		return &overAccountError{"bytes of requests a second", limit.Traffic, wait}
	}
	u.operations.use(1, limit.Operations, now)
	u.traffic.use(int64(size), limit.Traffic, now)
	return nil
}

// admitWait returns why the account may have no further request that waits, or nil.
func (u *accountUse) admitWait() error {
	if most := u.limit.Load().Waits; most > 0 && u.waits.Load() >= most {
		return &overAccountError{"requests that wait", most, 1}
	}
	return nil
}

// reserve takes room for more, and returns why there is none, or nil. What the account has is counted when it seems to
// have too much. That takes time in proportion to its queues, and no more than a tenth of the time. If these may be many,
// it returns errUncounted.
func (u *accountUse) reserve(e *engine.Engine, more engine.AccountUse) error {
	limit := u.limit.Load()
	if limit.Queues|limit.Items|limit.Bytes == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	err := limit.over(u.used, more)
	if start := time.Now(); (err != nil || !u.counts) && !start.Before(u.next) {
		if !u.counts || u.used.Queues > countAtOnce {
			return errUncounted
		}
		u.counted(e.AccountUse([]byte(u.name)), start)
	}
	return u.take(limit, more)
}

// take takes room for more beside what was counted. The caller holds mu.
func (u *accountUse) take(limit *AccountQuota, more engine.AccountUse) error {
	err := limit.over(u.used, more)
	if err == nil {
		u.used, u.since = u.used.Plus(more), u.since.Plus(more)
	}
	return err
}

// counted takes in what was counted, from start on. The caller holds mu.
func (u *accountUse) counted(used engine.AccountUse, start time.Time) {
	u.used, u.counts = used, true
	u.next = start.Add(10 * time.Since(start))
}

// reserveInJob is reserve for a job, which counts what the account has if it must. Loops may reserve meanwhile.
func (u *accountUse) reserveInJob(e *engine.Engine, more engine.AccountUse) error {
	err := u.reserve(e, more)
	if err != errUncounted {
		return err
	}
	u.count(e)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.take(u.limit.Load(), more)
}

// count counts what the account has, unless another job has just done so. What is put meanwhile may count twice.
func (u *accountUse) count(e *engine.Engine) {
	u.counting.Lock()
	defer u.counting.Unlock()
	start := time.Now()
	u.mu.Lock()
	fresh := u.counts && start.Before(u.next)
	u.since = engine.AccountUse{}
	u.mu.Unlock()
	if fresh {
		return
	}
	used := e.AccountUse([]byte(u.name))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counted(used.Plus(u.since), start)
}

// over returns why more is too much beside what is used, or nil.
func (q *AccountQuota) over(used, more engine.AccountUse) error {
	for _, is := range []struct {
		what             string
		most, used, more int64
	}{
		{"queues", q.Queues, used.Queues, more.Queues}, {"messages", q.Items, used.Items, more.Items},
		{"bytes of messages", q.Bytes, used.Bytes, more.Bytes},
	} {
		if is.most > 0 && is.more > 0 && is.used+is.more > is.most {
			return &overAccountError{is.what, is.most, 0}
		}
	}
	return nil
}

// allowance is how much of something a second may be used, and up to a second's worth at once.
type allowance struct{ until atomic.Int64 } // all that was used is paid for then: µs on the server's clock

const (
	allowanceBurst = int64(1e6)      // µs that may be used at once
	allowanceMost  = 60 * int64(1e6) // that a single request can get an account into debt by
)

// use adds n to what was used.
func (a *allowance) use(n, most int64, now moment) {
	if most == 0 || n == 0 {
		return
	}
	at := int64(now) * 1000
	cost := min(int64(float64(n)/float64(most)*1e6), allowanceMost)
	for {
		until := a.until.Load()
		if a.until.CompareAndSwap(until, max(until, at)+cost) {
			return
		}
	}
}

// wait returns in how many seconds, rounded up, more may be used; 0 for now.
func (a *allowance) wait(now moment) int64 {
	return (max(a.until.Load()-int64(now)*1000-allowanceBurst, 0) + 1e6 - 1) / 1e6
}
