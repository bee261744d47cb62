package main

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// errBroken is what a link returns when the connection is over, or the process dead.
var errBroken = errors.New("sim: connection is over")

// errUnsure is an answer that says that nobody knows whether what was asked for has happened.
var errUnsure = errors.New("sim: nobody knows")

// errFull is an answer that says the same, and that the disk is full, or that a part was stored.
var errFull = errors.New("sim: nobody knows, the disk is full")

// errRefused is an answer that says that nothing has happened.
var errRefused = errors.New("sim: refused")

// errNone says that there is no item.
var errNone = errors.New("sim: no item")

// handed is an item that a link has brought, and what names its open read.
type handed struct {
	data []byte
	id   any
}

// link is how a client speaks with the server. Every method sends a request and waits for what comes
// back: nil, or one of the errors above; errBroken is for good.
type link interface {
	put(queue string, life time.Duration, items [][]byte) []error
	take(queue string, wait time.Duration, n int) ([]handed, error)
	open(queue string, wait time.Duration) (handed, error)
	confirm(queue string, id any) error
	abort(queue string, id any) error
	// closeOpen confirms the oldest open read of the queue, which is id, and opens the next.
	closeOpen(queue string, id any, wait time.Duration) (handed, error)
	peek(queue string) ([]byte, error)
	flush(queue string) error
	expire(queue string) error
	delete(queue string) error
	// stuff asks for a peek so many times and reads nothing.
	stuff(queue string, n int)
	// blindPut and blindTake send a request and wait for nothing.
	blindPut(queue string, life time.Duration, items [][]byte)
	blindTake(queue string, n int)
	// reset ends the connection; with half, after the client has closed its sending side, and reads on.
	reset(half bool)
}

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
	asking bool      // guarded by the ledger's mutex, as are
	doubts []problem // laws that are broken if the connection is not over
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
		ended := c.w.ledger.asks(c)
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
	switch op.Do {
	case opPut:
		return c.put(op)
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
	case opStuff:
		c.stuff(op)
	case opBlindPut:
		c.put(op)
		c.reconnect(false)
	case opBlindTake:
		c.forgetReads() // with one of the queue, the server ends the connection
		c.w.ledger.take(op.Queue, op.N)
		c.link.blindTake(op.Queue, op.N)
		time.Sleep(op.Think)
		c.reconnect(false)
		c.w.ledger.abandon(op.Queue, op.N)
	}
	return nil
}

// stuff has some more connections ask for items, and read nothing.
func (c *caller) stuff(op Op) {
	var links []link
	for range op.N {
		l := c.w.dial(c)
		l.stuff(op.Queue, op.Size)
		links = append(links, l)
	}
	time.Sleep(50 * time.Millisecond)
	for _, l := range links {
		l.reset(false)
	}
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
	if c.client.Protocol == "memcache" {
		life = (life + time.Second - 1).Truncate(time.Second)
	}
	var numbers []int
	var items [][]byte
	for range op.N {
		n, data := c.w.ledger.putting(op.Queue, op.Size, life)
		numbers, items = append(numbers, n), append(items, data)
	}
	if op.Do == opBlindPut {
		c.link.blindPut(op.Queue, life, items)
		time.Sleep(op.Think)
		return nil // what came of it nobody knows
	}
	cause := c.w.cause()
	var broken error
	for i, err := range c.link.put(op.Queue, life, items) {
		state := unsure
		switch err {
		case nil:
			state = confirmed
		case errRefused:
			state = refused
		case errBroken:
			broken = err
		case errUnsure:
			cause.judge("a put")
		}
		c.w.ledger.putEnded(numbers[i], state)
	}
	return broken
}

func (c *caller) take(op Op) error {
	if c.count(op.Queue) > 0 && c.client.Protocol == "memcache" {
		return nil // the server would end the connection
	}
	began, n, cause := time.Now(), op.N, c.w.cause()
	c.w.ledger.take(op.Queue, n)
	ended := c.w.ledger.fetch(op.Queue)
	defer ended()
	got, err := c.link.take(op.Queue, op.Wait, n)
	for i, h := range got {
		e := c.w.ledger.handedOut(c, op.Queue, h.data, began, true)
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
	return broken(err)
}

func (c *caller) open(op Op) error {
	began := time.Now()
	ended := c.w.ledger.fetch(op.Queue)
	defer ended()
	h, err := c.link.open(op.Queue, op.Wait)
	if err == nil {
		e := c.w.ledger.handedOut(c, op.Queue, h.data, began, false)
		c.reads = append(c.reads, openRead{e, op.Queue, h.id})
	}
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
		if r.entry != nil {
			c.w.ledger.givenBack(r.entry)
		}
		return broken(c.link.abort(r.queue, r.id))
	}
	c.drop(i)
	return c.confirmed(r, func() error { return c.link.confirm(r.queue, r.id) })
}

func (c *caller) drop(i int) { c.reads = append(c.reads[:i:i], c.reads[i+1:]...) }

// confirmed confirms an open read by what confirm asks for.
func (c *caller) confirmed(r openRead, confirm func() error) error {
	if r.entry == nil {
		return broken(confirm())
	}
	cause := c.w.cause()
	c.w.ledger.confirming(r.entry, r.queue)
	err := confirm()
	switch err {
	case nil, errNone:
		c.w.ledger.confirmEnded(r.entry, gone)
	case errUnsure:
		cause.judge("a confirm")
		c.w.ledger.confirmEnded(r.entry, maybe)
	default:
		c.w.ledger.confirmEnded(r.entry, maybe)
	}
	return broken(err)
}

func (c *caller) closeOpen(op Op) error {
	for i, r := range c.reads {
		if r.queue != op.Queue {
			continue
		}
		c.drop(i)
		began := time.Now()
		var h handed
		var opened error
		cause := c.w.cause()
		ended := c.w.ledger.fetch(op.Queue)
		defer ended()
		err := c.confirmed(r, func() error {
			h, opened = c.link.closeOpen(op.Queue, r.id, op.Wait)
			return opened
		})
		if !cause.stillHealthy() {
			c.w.ledger.mayReturn(r.entry) // the reply, the next item, comes also when the journal fails
		}
		if opened == nil {
			e := c.w.ledger.handedOut(c, op.Queue, h.data, began, false)
			c.reads = append(c.reads, openRead{e, op.Queue, h.id})
		}
		return err
	}
	return c.open(op)
}

func (c *caller) flush(op Op, open bool, flush func(string) error) error {
	s := c.w.ledger.flushing(op.Queue, open)
	err := flush(op.Queue)
	c.w.ledger.flushed(s, err == nil)
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
	fired, _ := w.disk.faultsTold()
	return cause{w, w.engine.Health() == engine.Health{}, fired, time.Now()}
}

// stillHealthy reports whether the journal was in order all the time since.
func (c cause) stillHealthy() bool {
	fired, _ := c.w.disk.faultsTold()
	return c.healthy && fired == c.fired && c.w.engine.Health() == engine.Health{}
}

// causeTime is how long a fault may have been there before somebody notices that the journal has failed.
const causeTime = 50 * time.Millisecond

// judge is called when a request has failed because of the journal: there must be a reason.
func (c cause) judge(what string) {
	_, at := c.w.disk.faultsTold()
	if c.stillHealthy() && at.Add(causeTime).Before(c.began) && !c.w.over.Load() {
		c.w.ledger.report("cause", "%s of %s got an error of the journal at %s; the last fault came at %s",
			what, since(c.began), since(time.Now()), since(at))
	}
}
