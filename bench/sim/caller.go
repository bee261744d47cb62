package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// openRead is one that a caller has.
type openRead struct {
	entry *entry
	queue string
	id    any
}

// caller carries out what a Client of the script does.
type caller struct {
	w      *world
	client Client
	link   link
	reads  []openRead
	asker
}

// run carries out all ops, until the process is dead.
func (c *caller) run() {
	c.connect()
	for _, op := range c.client.Ops {
		if op.Think > 0 {
			time.Sleep(op.Think)
		}
		if c.w.over.Load() {
			return
		}
		c.w.ops.Add(1)
		ended := c.w.ledger.asks(&c.asker)
		err := c.do(op)
		ended(err)
		if err == errBroken {
			c.reconnect(false)
		}
	}
}

func (c *caller) connect() { c.link = c.w.dial(c) }

// reconnect ends the connection, which gives the open reads back, and opens another.
func (c *caller) reconnect(half bool) {
	c.forgetReads()
	c.link.reset(half)
	c.connect()
}

// forgetReads notes that the open reads go back.
func (c *caller) forgetReads() {
	for _, r := range c.reads {
		if r.entry != nil {
			c.w.ledger.givenBack(r.entry)
		}
	}
	c.reads = nil
}

// count is how many open reads of a queue the caller has.
func (c *caller) count(queue string) (n int) {
	for _, r := range c.reads {
		if r.queue == queue {
			n++
		}
	}
	return n
}

func (c *caller) do(op Op) error {
	if c.client.Protocol == "text" && (op.Do == opTake || op.Do == opOpen) {
		op.Do = opCloseOpen // it knows no other get
	}
	if c.leasesAlone() {
		if to, ok := leaseInstead[op.Do]; ok {
			op.Do = to
			if to == opLease && op.For == 0 {
				op.For = reliableLife
			}
		}
	}
	if trace := c.w.ledger.traced; trace != nil {
		trace("%s: %s %p does %s on %s, %d, wait %v, for %v", since(time.Now()), c.client.Protocol, c, op.Do, op.Queue, op.N, op.Wait, op.For)
	}
	switch op.Do {
	case opPut, opDelay:
		return c.put(op)
	case opLease:
		return c.lease(op)
	case opMonitor:
		return c.monitor(op)
	case opConfirmLease, opAbortLease, opReleaseLease, opRejectLease, opExtendLease:
		return c.endLease(op)
	case opPutKeyed, opPutNew, opPutReplace:
		return c.putKeyed(op)
	case opRemoveKey:
		return c.removeKey(op)
	case opTakeAny, opOpenAny:
		return c.fetchAny(op)
	case opTake:
		return c.take(op)
	case opOpen:
		for range op.N {
			if c.count(op.Queue) >= c.w.script.Config.MaxOpenReads {
				return nil // the server would end the connection
			}
			if err := c.open(op); err != nil {
				return err
			}
		}
	case opConfirm, opAbort:
		return c.end(op)
	case opCloseOpen:
		return c.closeOpen(op)
	case opPeek:
		began := time.Now()
		data, err := c.link.peek(op.Queue)
		if err == nil && data != nil {
			c.w.ledger.peeked(op.Queue, data, began)
		}
		return err
	case opFlush:
		if c.client.Protocol == "burrow" {
			return nil // it has no word for that
		}
		return c.flush(op, false, c.link.flush)
	case opDelete:
		if strings.HasPrefix(op.Queue, "fan") {
			return nil
		}
		return c.flush(op, true, c.link.delete)
	case opExpire:
		return c.link.expire(op.Queue)
	case opReload:
		c.w.reload(op.N)
	case opReset:
		c.reconnect(false)
	case opHalfClose:
		c.reconnect(true)
	case opLastPut:
		return c.lastPut(op)
	case opStuff:
		c.stuff(op)
	case opAnnounce:
		c.announce(op)
	case opBadEnd:
		if l, ok := c.link.(*memcacheLink); ok {
			c.forgetReads()
			return c.badEnd(op, l)
		}
	case opBlindPut:
		c.put(op)
		c.reconnect(false)
	case opBlindTake:
		c.forgetReads() // with one of the queue, the server ends the connection
		c.w.ledger.take(op.Queue, op.N)
		f := c.w.ledger.fetch(op.Queue, 0)
		c.link.blindTake(op.Queue, op.N)
		time.Sleep(op.Think)
		c.reconnect(false)
		c.w.ledger.ended(f, errBroken)
		c.w.ledger.abandon(op.Queue, op.N)
	}
	return nil
}

// leasesAlone reports whether the client's protocol has no open reads: its reliable reads are leases.
func (c *caller) leasesAlone() bool {
	return c.client.Protocol == "thrift" || c.client.Protocol == "burrow"
}

// leaseInstead are what such a client does instead.
var leaseInstead = map[string]string{opOpen: opLease, opCloseOpen: opLease, opConfirm: opConfirmLease, opAbort: opAbortLease}

// reliableLife is how long these last.
const reliableLife = 3 * time.Second

// lastPut puts an item and closes the sending side at once: the reply must come all the same.
func (c *caller) lastPut(op Op) error {
	link, ok := c.link.(*memcacheLink)
	if !ok {
		return nil
	}
	c.forgetReads()
	n, data := c.w.ledger.putting(op.Queue, op.Size, 0, 0)
	link.blindPut(op.Queue, 0, [][]byte{data})
	link.conn.CloseWrite()
	err := link.next()
	if err != nil && !c.w.over.Load() {
		c.w.ledger.report("reply", "a client that put item %d and closed its sending side got no reply", n)
	}
	c.w.ledger.putEnded(n, putStateOf(link.outcome(err)))
	return errBroken
}

// put puts items when there is room for them, by the op's idea of room.
func (c *caller) put(op Op) error {
	for range 100 {
		if op.Lag == 0 || c.w.ledger.outstanding(op.Queue) < op.Lag || c.w.over.Load() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	life := op.Wait
	if op.Do == opDelay {
		life = 0
	}
	if c.client.Protocol == "memcache" {
		life = (life + time.Second - 1).Truncate(time.Second)
	}
	var numbers []int
	var items [][]byte
	for range op.N {
		n, data := c.w.ledger.putting(op.Queue, op.Size, life, op.For)
		numbers, items = append(numbers, n), append(items, data)
	}
	if op.Do == opBlindPut {
		c.link.blindPut(op.Queue, life, items)
		time.Sleep(op.Think)
		return nil // what came of it nobody knows
	}
	cause := c.w.cause()
	put := func() []error { return c.link.put(op.Queue, life, items) }
	if op.Do == opDelay {
		put = func() []error { return c.link.putDelayed(op.Queue, op.For, items) }
	}
	var broken error
	if c.w.ledger.traced != nil {
		c.w.ledger.traced("%s puts items %d of %s, delay %v", c.client.Protocol, numbers, op.Queue, op.For)
	}
	for i, err := range put() {
		switch err {
		case errBroken:
			broken = err
		case errUnsure:
			cause.judge("a put")
		}
		c.w.ledger.putEnded(numbers[i], putStateOf(err))
	}
	return broken
}

func (c *caller) take(op Op) error {
	if c.count(op.Queue) > 0 && c.client.Protocol == "memcache" {
		return nil // the server would end the connection
	}
	n, cause := op.N, c.w.cause()
	c.w.ledger.take(op.Queue, n)
	f := c.w.ledger.fetch(op.Queue, 0)
	f.alone = f.alone && c.client.Protocol != "burrow" // whose messages come as they were put, also those that are back
	got, err := c.link.take(op.Queue, op.Wait, n)
	for i, h := range got {
		e := c.w.ledger.handedOut(&c.asker, f, h, forGood)
		closed := err == errBroken && c.client.Protocol == "engine" && i == len(got)-1 // it comes with the error
		if err == errUnsure || closed || !cause.stillHealthy() {
			c.w.ledger.mayReturn(e) // items leave also when the journal fails
		}
	}
	if err == errBroken || err == errUnsure {
		c.w.ledger.abandon(op.Queue, n)
	} else {
		c.w.ledger.take(op.Queue, -n)
	}
	c.fetched(f, op, len(got), err)
	return broken(err)
}

// fetched notes that a fetch has ended, with so many items. One that has none, and did not wait, must not
// have missed any.
func (c *caller) fetched(f *fetching, op Op, n int, err error) {
	most := c.w.script.Config.MaxOpenReads // some gets open items, or hold them, and Thrift leases count
	full := c.count(op.Queue) >= most || c.leasesAlone() && most < mostLeases
	if n == 0 && !full && op.Wait == 0 && (err == nil || err == errNone) {
		c.w.ledger.foundNone(f)
	}
	c.w.ledger.ended(f, err)
}

// lease fetches an item for some time.
func (c *caller) lease(op Op) error {
	link, ok := c.link.(leaser)
	if !ok || c.client.Protocol == "text" && c.count(op.Queue) > 0 {
		return nil // it would confirm
	}
	cause := c.w.cause()
	f := c.w.ledger.fetch(op.Queue, op.For)
	h, err := link.lease(op.Queue, op.For, op.Wait)
	n := 0
	if err == nil {
		n = 1
		c.w.ledger.leased(&c.asker, f, h, op.For, cause.stillHealthy())
	}
	c.fetched(f, op, n, err)
	return broken(err)
}

// endLease ends one of the leases that any client has got, or makes it longer.
func (c *caller) endLease(op Op) error {
	link, ok := c.link.(leaser)
	if !ok {
		return nil
	}
	le := c.w.ledger.pickLease(op.N)
	if le == nil {
		return nil
	}
	how := ending(op.Do)
	if c.client.Protocol == "burrow" && how == endAbort {
		how = endRelease // which it knows alone
	}
	x := c.w.ledger.ending(le, how, op.For)
	cause := c.w.cause()
	err := link.endLease(le.queue, le.receipt, how, op.For)
	if err == errUnsure {
		cause.judge(op.Do)
	}
	if err == nil && !cause.stillHealthy() {
		err = errUnsure
	}
	c.w.ledger.leaseEnded(x, err)
	return broken(err)
}

// monitor opens some items, and waits for them.
func (c *caller) monitor(op Op) error {
	link, ok := c.link.(monitorer)
	if !ok || c.client.Protocol == "text" && c.count(op.Queue) > 0 {
		return nil
	}
	n := min(op.N, c.w.script.Config.MaxOpenReads-c.count(op.Queue))
	if n <= 0 {
		return nil
	}
	f := c.w.ledger.fetch(op.Queue, 0)
	got, err := link.monitor(op.Queue, op.Wait, n)
	for _, h := range got {
		e := c.w.ledger.handedOut(&c.asker, f, h, opened)
		c.reads = append(c.reads, openRead{e, op.Queue, h.id})
	}
	c.w.ledger.ended(f, err)
	return broken(err)
}

func (c *caller) open(op Op) error {
	f, n := c.w.ledger.fetch(op.Queue, 0), 0
	h, err := c.link.open(op.Queue, op.Wait)
	if err == nil {
		n = 1
		e := c.w.ledger.handedOut(&c.asker, f, h, opened)
		c.reads = append(c.reads, openRead{e, op.Queue, h.id})
	}
	c.fetched(f, op, n, err)
	return broken(err)
}

// end confirms or aborts one of the open reads. Protocols that know their reads by order end the oldest
// of the queue.
func (c *caller) end(op Op) error {
	if len(c.reads) == 0 {
		return nil
	}
	i := op.N % len(c.reads)
	if c.client.Protocol == "memcache" || c.client.Protocol == "text" {
		for j, r := range c.reads {
			if r.queue == c.reads[i].queue {
				i = j
				break
			}
		}
	}
	r := c.reads[i]
	if op.Do == opAbort {
		if c.client.Protocol == "text" {
			return nil // it has no word for that
		}
		c.drop(i)
		began := time.Now()
		if r.entry != nil {
			c.w.ledger.givenBack(r.entry)
		}
		err := c.link.abort(r.queue, r.id)
		if err == nil && r.entry != nil && !c.w.ledger.mayTimeOut(r.queue) {
			c.w.ledger.aborted(r.entry, began, c.client.Protocol == "memcache")
		}
		return broken(err)
	}
	c.drop(i)
	return c.confirmed([]openRead{r}, func() error { return c.link.confirm(r.queue, r.id) })
}

func (c *caller) drop(i int) { c.reads = append(c.reads[:i:i], c.reads[i+1:]...) }

// dropAll forgets the open reads of a queue, and returns them.
func (c *caller) dropAll(queue string) (all []openRead) {
	c.reads = slices.DeleteFunc(c.reads, func(r openRead) bool {
		if r.queue == queue {
			all = append(all, r)
		}
		return r.queue == queue
	})
	return all
}

// confirmed confirms open reads by what confirm asks for.
func (c *caller) confirmed(reads []openRead, confirm func() error) error {
	cause := c.w.cause()
	for _, r := range reads {
		if r.entry != nil {
			c.w.ledger.confirming(r.entry, r.queue)
		}
	}
	err := confirm()
	state := maybe
	switch err {
	case nil, errNone:
		state = gone
	case errUnsure:
		cause.judge("a confirm")
	}
	for _, r := range reads {
		if r.entry != nil {
			c.w.ledger.confirmEnded(r.entry, state)
		}
	}
	return broken(err)
}

func (c *caller) closeOpen(op Op) error {
	for i, r := range c.reads {
		if r.queue != op.Queue {
			continue
		}
		c.drop(i)
		reads := []openRead{r}
		if c.client.Protocol == "text" { // a get confirms all
			reads = append(reads, c.dropAll(op.Queue)...)
		}
		var h handed
		var failed error
		cause := c.w.cause()
		f := c.w.ledger.fetch(op.Queue, 0)
		err := c.confirmed(reads, func() error {
			h, failed = c.link.closeOpen(op.Queue, r.id, op.Wait)
			return failed
		})
		if !cause.stillHealthy() {
			for _, r := range reads {
				c.w.ledger.mayReturn(r.entry) // the reply, the next item, comes also when the journal fails
			}
		}
		if failed == nil {
			e := c.w.ledger.handedOut(&c.asker, f, h, opened)
			c.reads = append(c.reads, openRead{e, op.Queue, h.id})
		}
		c.w.ledger.ended(f, failed)
		return err
	}
	return c.open(op)
}

func (c *caller) flush(op Op, open bool, flush func(string) error) error {
	s := c.w.ledger.beginClearing(op.Queue, open)
	err := flush(op.Queue)
	c.w.ledger.endClearing(s, err == nil)
	return broken(err)
}

// duplicates are the engine's words for what puts with a key do.
var duplicates = map[string]engine.Duplicate{
	opPutKeyed: engine.Overwrite, opPutNew: engine.OnlyNew, opPutReplace: engine.OnlyReplace,
}

func (c *caller) putKeyed(op Op) error {
	link, ok := c.link.(keyer)
	if !ok {
		return nil
	}
	how, cause := duplicates[op.Do], c.w.cause()
	e, data := c.w.ledger.putsKeyed(op.Queue, op.Key, op.Size, how)
	err := link.putKeyed(op.Queue, op.Key, how, data)
	if err == errUnsure {
		cause.judge(op.Do)
	}
	c.w.ledger.putEnded(e.n, putStateOf(err))
	c.w.ledger.keyedEnded(e, how, err)
	return broken(err)
}

func (c *caller) removeKey(op Op) error {
	link, ok := c.link.(keyer)
	if !ok {
		return nil
	}
	r, cause := c.w.ledger.removes(op.Queue, op.Key), c.w.cause()
	err := link.removeKey(op.Queue, op.Key)
	if err == errUnsure {
		cause.judge(op.Do)
	}
	c.w.ledger.removalEnded(r, err)
	return broken(err)
}

// fetchAny fetches from several queues at once.
func (c *caller) fetchAny(op Op) error {
	link, ok := c.link.(severaler)
	open := op.Do == opOpenAny
	if !ok || open && c.client.Protocol == "engine" {
		return nil
	}
	queues := append([]string{op.Queue}, op.Or...)
	for _, queue := range queues { // the server would end the connection
		n := c.count(queue)
		if open && n >= c.w.script.Config.MaxOpenReads || !open && n > 0 && c.client.Protocol == "memcache" {
			return nil
		}
	}
	cause := c.w.cause()
	var fetches []*fetching
	for _, queue := range queues {
		if !open {
			c.w.ledger.take(queue, 1)
		}
		fetches = append(fetches, c.w.ledger.fetch(queue, 0))
	}
	which, h, err := link.fetchAny(queues, open, op.Wait)
	n := 0
	if h.data != nil {
		n = 1
		if open {
			e := c.w.ledger.handedOut(&c.asker, fetches[which], h, opened)
			c.reads = append(c.reads, openRead{e, queues[which], h.id})
		} else if e := c.w.ledger.handedOut(&c.asker, fetches[which], h, forGood); err != nil || !cause.stillHealthy() {
			c.w.ledger.mayReturn(e) // items leave also when the journal fails
		}
	}
	for i, queue := range queues {
		switch {
		case open:
		case err == errBroken || err == errUnsure || err == errFull:
			c.w.ledger.abandon(queue, 1)
		default:
			c.w.ledger.take(queue, -1)
		}
		c.fetched(fetches[i], Op{Queue: queue, Wait: op.Wait}, n, err)
	}
	return broken(err)
}

// broken returns err if it ends the connection.
func broken(err error) error {
	if err == errBroken || errors.Is(err, io.EOF) {
		return errBroken
	}
	return nil
}

// cause remembers what could make a request fail.
type cause struct {
	w       *world
	healthy bool
	fired   int
	began   time.Time
}

func (w *world) cause() cause {
	fired, _ := w.disk.faultsReported()
	return cause{w, w.engine.Health() == engine.Health{}, fired, time.Now()}
}

// stillHealthy reports whether the journal was in order all the time since.
func (c cause) stillHealthy() bool {
	fired, _ := c.w.disk.faultsReported()
	return c.healthy && fired == c.fired && c.w.engine.Health() == engine.Health{}
}

// causeTime is how long a fault may have been there before somebody notices that the journal has failed.
const causeTime = 50 * time.Millisecond

// judge is called when a request has failed because of the journal: there must be a reason.
func (c cause) judge(what string) {
	_, at := c.w.disk.faultsReported()
	if c.stillHealthy() && at.Add(causeTime).Before(c.began) && !c.w.over.Load() {
		c.w.ledger.report("cause", "%s of %s got an error of the journal at %s; the last fault came at %s",
			what, since(c.began), since(time.Now()), since(at))
	}
}
