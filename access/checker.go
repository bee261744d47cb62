package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrFailed says that a name and a password do not belong together. It does not say which is wrong.
	ErrFailed = errors.New("authentication failure")
	// ErrBusy says that so many passwords wait to be checked, or so many attempts have failed, that this one was
	// not checked.
	ErrBusy = errors.New("too many attempts to authenticate; try again later")
)

const (
	// maxChecked is how many checks may wait for their turn.
	maxChecked = 256
	// maxSlowed is how many more may wait of addresses whose free failures are used up. They wait for seconds, and must
	// not take the room of others.
	maxSlowed = 64
	// maxDelay is how long an attempt waits at most because of earlier ones of its address that have failed. One
	// that would wait longer is not checked.
	maxDelay = 5 * time.Second
	// maxUserDelay bounds the same for attempts as a user, from whatever address. Anybody can make attempts fail, so
	// it must not keep the user out.
	maxUserDelay = time.Second
	// firstDelay is that behind the last free failure; each further one doubles it.
	firstDelay = 100 * time.Millisecond
	// forgetTime is how long failures count.
	forgetTime = 10 * time.Minute
	// maxRecords is how many addresses, and how many names, there are records of.
	maxRecords = 4096
)

// DefaultFreeFailures is how many failures have no consequence.
const DefaultFreeFailures = 3

// Options configure a [Checker].
type Options struct {
	// Parallel is how many passwords are checked at once; each takes a processor and the hash's memory for some
	// 20 ms. A hash of several lanes takes a processor for each, and counts as so many. Zero is one.
	Parallel int
	// FreeFailures is how many attempts of an address, or as a user, may fail before further ones are slowed down.
	// Zero is DefaultFreeFailures.
	FreeFailures int
	// Account takes bytes of memory that a check holds, and gives back; nil counts nothing.
	Account func(bytes int64)
}

// Checker says who users are. Its methods may be called from any goroutine.
type Checker struct {
	opts    Options
	users   atomic.Pointer[Users]
	slots   chan struct{}   // held by checks, one for each processor that they take
	next    chan struct{}   // held by the check that takes slots: it may need several
	waiting atomic.Int64    // checks, without those of slowed
	slowed  atomic.Int64    // checks of addresses whose free failures are used up
	counts  [3]atomic.Int64 // by outcome
	key     []byte          // of good

	mu        sync.Mutex
	addresses map[string]*record   // guarded by mu
	names     map[string]*record   // guarded by mu
	good      map[string]knownGood // by user: what was right before; guarded by mu
}

// knownGood is a keyed hash of a password that was right, and of what it was compared with.
type knownGood [sha256.Size]byte

// record is what failed lately for an address or a name. An address has one as well while attempts of it are under way.
type record struct {
	failures int
	last     time.Time     // of them
	next     time.Time     // when the next attempt of an address may be made
	pending  int           // attempts of an address that are under way: each may be one more failure
	ended    chan struct{} // closed when one of these ends; nil: nobody waits for that
}

// NewChecker returns a checker of users.
func NewChecker(users *Users, opts Options) *Checker {
	if opts.FreeFailures == 0 {
		opts.FreeFailures = DefaultFreeFailures
	}
	c := &Checker{
		opts: opts, slots: make(chan struct{}, max(opts.Parallel, 1)), next: make(chan struct{}, 1), key: make([]byte, sha256.Size),
		addresses: map[string]*record{}, names: map[string]*record{}, good: map[string]knownGood{},
	}
	rand.Read(c.key) // never fails
	c.users.Store(users)
	return c
}

// Users returns the users of now.
func (c *Checker) Users() *Users { return c.users.Load() }

// SetUsers replaces the users.
func (c *Checker) SetUsers(users *Users) { c.users.Store(users) }

// Still returns what u is now, after its password was right: a reload may have come meanwhile. It returns nil if the user
// is gone, or has no password any more. It reports again if the user has another hash: then the caller must check the
// password once more.
func (c *Checker) Still(u *User) (now *User, again bool) {
	if now = c.Users().Named(u.Name); now == nil || now.Password.IsZero() {
		return nil, false
	}
	return now, now.Password != u.Password
}

// LogName returns how the log calls the user that somebody claims to be. A name that no user has is not repeated: it may
// be a password that was sent in the place of a name.
func (c *Checker) LogName(name string) string {
	if c.Users().Named(name) == nil {
		return "(no such user)"
	}
	return name
}

// Counts are the attempts so far.
type Counts struct{ Passed, Failed, Busy int64 }

// Counts returns how many attempts there were.
func (c *Checker) Counts() Counts {
	return Counts{c.counts[0].Load(), c.counts[1].Load(), c.counts[2].Load()}
}

// Password returns the user with a name and a password. from is the address of the attempt, without a port. Password
// takes some 20 ms of a processor. It waits longer if attempts from that address, or as that user, have failed
// lately. So an event loop must not call it. It returns ErrFailed, ErrBusy or the error of ctx.
func (c *Checker) Password(ctx context.Context, from, name string, password []byte) (*User, error) {
	var u *User
	var err error
	for again := true; again; {
		if u, err = c.password(ctx, from, name, password); err != nil {
			break
		}
		if u, again = c.Still(u); u == nil {
			err = ErrFailed
		}
	}
	switch err {
	case nil:
		c.counts[0].Add(1)
	case ErrFailed:
		c.counts[1].Add(1)
	case ErrBusy:
		c.counts[2].Add(1)
	}
	return u, err
}

// Token returns the user that has a token, or ErrFailed. It compares hashes, which takes a microsecond, and slows
// nobody down: a token is too long to be guessed.
func (c *Checker) Token(token string) (*User, error) {
	if u := c.Users().WithToken(token); u != nil {
		c.counts[0].Add(1)
		return u, nil
	}
	c.counts[1].Add(1)
	return nil, ErrFailed
}

func (c *Checker) password(ctx context.Context, from, name string, password []byte) (*User, error) {
	users := c.Users()
	u := users.Named(name)
	hashes, own := users.against(u)
	if c.wasGood(name, hashes[max(own, 0)], password) && own >= 0 {
		return u, nil
	}
	waiting, most := &c.waiting, int64(maxChecked)
	if c.isSlow(from) {
		waiting, most = &c.slowed, maxSlowed
	}
	defer waiting.Add(-1)
	if waiting.Add(1) > most {
		return nil, ErrBusy
	}
	delay, turn, err := c.begin(from, name)
	for turn != nil {
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if c.wasGood(name, hashes[max(own, 0)], password) && own >= 0 { // one of those before it was the same
			return u, nil
		}
		delay, turn, err = c.begin(from, name)
	}
	if err != nil {
		return nil, err
	}
	defer c.end(from)
	if err := pause(ctx, delay); err != nil {
		return nil, err
	}
	processors := min(lanesOf(hashes), cap(c.slots))
	if err := c.enter(ctx, processors); err != nil {
		return nil, err
	}
	defer c.leave(processors)
	if c.opts.Account != nil {
		memory := memoryOf(hashes)
		c.opts.Account(memory)
		defer c.opts.Account(-memory)
	}
	right := false
	for i, h := range hashes {
		if len(password) <= MaxPassword && h.matches(password) && i == own {
			right = true
		}
	}
	if !right {
		c.failed(from, name)
		return nil, ErrFailed
	}
	c.passed(name, hashes[own], password)
	return u, nil
}

// against returns the hashes that a password given for u is compared with, one after the other. It also returns which
// of them is the user's own, or -1 for none. The comparisons cost the same for every name, even if there is no such
// user or it has no password. So their time does not say which users there are.
func (us *Users) against(u *User) (hashes []Hash, own int) {
	if us == nil {
		return []Hash{decoy(defaultCost())}, -1
	}
	if u == nil || u.Password.IsZero() {
		return us.decoys, -1
	}
	own = slices.IndexFunc(us.decoys, u.Password.costsAs)
	hashes = slices.Clone(us.decoys)
	hashes[own] = u.Password
	return hashes, own
}

// memoryOf is how much memory comparisons with hashes take, one after the other.
func memoryOf(hashes []Hash) (most int64) {
	for _, h := range hashes {
		most = max(most, h.Memory())
	}
	return most
}

// lanesOf is how many processors comparisons with hashes take, one after the other.
func lanesOf(hashes []Hash) (most int) {
	for _, h := range hashes {
		most = max(most, int(h.lanes))
	}
	return most
}

// enter waits until that many processors are free for a check.
func (c *Checker) enter(ctx context.Context, processors int) error {
	select {
	case c.next <- struct{}{}:
		defer func() { <-c.next }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for taken := range processors {
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			c.leave(taken)
			return ctx.Err()
		}
	}
	return nil
}

// leave gives them back.
func (c *Checker) leave(processors int) {
	for range processors {
		<-c.slots
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// proof is what is kept of a password that was right, and of the hash it was compared with.
func (c *Checker) proof(h Hash, password []byte) (p knownGood) {
	mac := hmac.New(sha256.New, c.key)
	mac.Write([]byte(h.String()))
	mac.Write([]byte{0})
	mac.Write(password)
	mac.Sum(p[:0])
	return p
}

// wasGood reports whether a password, compared with h, was right for name before. It saves clients that connect often
// the time, and keeps failures of others from slowing them down. It does the same work whether name was.
func (c *Checker) wasGood(name string, h Hash, password []byte) bool {
	p := c.proof(h, password)
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.good[name]
	return hmac.Equal(known[:], p[:]) && ok
}

// nameKey is what failures as a user are counted under. Names that are too long for a user count as one: their bytes are
// the peer's choice, and records keep them.
func nameKey(name string) string {
	if len(name) > maxName {
		return "\x00" // no user has this name
	}
	return name
}

// begin takes in an attempt of an address, which end ends, and returns how long the attempt has to wait. If it would
// wait too long, begin returns ErrBusy. Before the first failure of an address, as many of its attempts are under way
// as are checked at once. Behind it, while failures are free, no more are under way than may fail. For others turn is
// closed when they may ask again.
func (c *Checker) begin(from, name string) (wait time.Duration, turn <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := recordOf(c.addresses, from, time.Now()); r != nil {
		free := c.opts.FreeFailures - r.failures
		most := free
		if r.failures == 0 {
			most = max(free, cap(c.slots))
		}
		if free > 0 && r.pending >= most {
			if r.ended == nil {
				r.ended = make(chan struct{})
			}
			return 0, r.ended, nil
		}
	}
	wait, ok := c.delay(from, name)
	if !ok {
		return 0, nil, ErrBusy
	}
	return wait, nil, nil
}

// isSlow reports whether the free failures of an address are used up.
func (c *Checker) isSlow(from string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := recordOf(c.addresses, from, time.Now())
	return r != nil && r.failures >= c.opts.FreeFailures
}

// delay reserves a time for an attempt, and returns how long it is away; false if that is too long. Attempts of one
// address come one behind the other, as if all that are under way had failed. So many at once gain nothing. The caller
// holds mu.
func (c *Checker) delay(from, name string) (time.Duration, bool) {
	now := time.Now()
	r := recordFor(c.addresses, from, now)
	wait := max(r.next.Sub(now), 0)
	if wait > maxDelay {
		return 0, false
	}
	if r.pending++; r.failures >= c.opts.FreeFailures {
		r.next = now.Add(wait + c.penalty(r.failures+r.pending, maxDelay))
	}
	if r := recordOf(c.names, nameKey(name), now); r != nil {
		wait = max(wait, c.penalty(r.failures, maxUserDelay))
	}
	return wait, true
}

// end takes in that an attempt of an address has ended.
func (c *Checker) end(from string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.addresses[from] // nobody drops it while an attempt is under way
	r.pending--
	if r.ended != nil {
		close(r.ended)
		r.ended = nil
	}
	if r.pending == 0 && r.failures == 0 {
		delete(c.addresses, from)
	}
}

// penalty is the delay behind that many failures.
func (c *Checker) penalty(failures int, most time.Duration) time.Duration {
	if failures < c.opts.FreeFailures {
		return 0
	}
	return min(firstDelay<<min(failures-c.opts.FreeFailures, 16), most)
}

// recordOf returns the record of key, or nil if there is none that still counts.
func recordOf(records map[string]*record, key string, now time.Time) *record {
	r := records[key]
	if r != nil && r.pending == 0 && now.Sub(r.last) > forgetTime {
		delete(records, key)
		return nil
	}
	return r
}

func (c *Checker) failed(from, name string) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	a := note(c.addresses, from, now)
	if next := now.Add(c.penalty(a.failures, maxDelay)); next.After(a.next) {
		a.next = next
	}
	note(c.names, nameKey(name), now)
}

// note adds a failure to the record of key.
func note(records map[string]*record, key string, now time.Time) *record {
	r := recordFor(records, key, now)
	r.failures++
	r.last = now
	return r
}

// recordFor returns the record of key, which it makes if there is none that still counts. If there are too many records,
// it drops some other.
func recordFor(records map[string]*record, key string, now time.Time) *record {
	r := recordOf(records, key, now)
	if r == nil {
		if len(records) >= maxRecords {
			dropOne(records, now)
		}
		r = &record{}
		records[strings.Clone(key)] = r // it may be a piece of a whole request
	}
	return r
}

// dropOne forgets a record: of a few, the one that failed least. It drops none of an address whose attempts are under way.
func dropOne(records map[string]*record, now time.Time) {
	least, looked := "", 0
	for key, r := range records {
		if r.pending > 0 {
			continue // there are maxChecked of them at most
		}
		if now.Sub(r.last) > forgetTime {
			delete(records, key)
			return
		}
		if looked == 0 || r.failures < records[least].failures {
			least = key
		}
		if looked++; looked == 8 {
			break
		}
	}
	if looked > 0 {
		delete(records, least)
	}
}

func (c *Checker) passed(name string, h Hash, password []byte) {
	p := c.proof(h, password)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, name)
	if len(c.good) >= maxRecords {
		clear(c.good)
	}
	c.good[name] = p
}
