package netloop

import (
	"cmp"
	"container/heap"
	crand "crypto/rand"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// reliableReads are the open reads that have been handed out by the Thrift protocol, by id. They
// outlive the connection that opened them: any connection may end them, and what nobody has ended
// by its deadline goes back to its queue. Its methods may be called from any goroutine.
//
// Ids are drawn at random, so that nobody can guess those of others, and one that is left over from
// an earlier run of the server names nothing.
type reliableReads struct {
	engine *engine.Engine
	clock  clock

	mu      sync.Mutex
	random  *rand.ChaCha8         // guarded by mu, as is all that follows
	reads   map[int64]placeInCall // those that are open, by id
	calls   callHeap              // that have open reads, earliest deadline first
	free    []*readsOfCall        // to use again
	opened  uint64                // calls that have opened reads
	bytes   int64                 // about what the open reads take
	found   []placeInCall         // scratch of takeLocked
	taken   []takenRead           // scratch of take
	timer   *time.Timer           // rings at the deadline of calls[0], or in vain; nil until the first
	stopped bool
}

// placeInCall is where a read is.
type placeInCall struct {
	call  *readsOfCall
	index int
}

// readsOfCall are the reads that one call has opened. They have a queue and a deadline in common.
type readsOfCall struct {
	queue    string
	reader   *reader
	deadline moment
	order    uint64 // among all calls
	reads    []readOfCall
	left     int   // reads that are open
	bytes    int64 // about what these take
	heap     int   // index in reliableReads.calls
}

type readOfCall struct {
	id  int64 // 0 once it has ended
	ref engine.ReadRef
}

// reader counts the reads that one connection has open, by queue. It is guarded by
// reliableReads.mu.
type reader struct{ open map[string]int }

func newReader() *reader { return &reader{open: make(map[string]int)} }

// forget takes n reads of a queue off the count.
func (r *reader) forget(queue string, n int) {
	if r.open[queue] -= n; r.open[queue] == 0 {
		delete(r.open, queue)
	}
}

// maxFreeCalls and maxFreeReads bound what is kept to be used again.
const (
	maxFreeCalls = 256
	maxFreeReads = 256 // per call
)

func newReliableReads(e *engine.Engine, c clock) *reliableReads {
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	return &reliableReads{
		engine: e, clock: c, random: rand.NewChaCha8(seed), reads: make(map[int64]placeInCall),
	}
}

// newID returns an id above 0 that no open read has. The caller holds mu.
func (t *reliableReads) newID() int64 {
	for {
		id := int64(t.random.Uint64() >> 1)
		if _, taken := t.reads[id]; !taken && id > 0 {
			return id
		}
	}
}

// count is the number of reads that r has open on the queue called name. A nil r has none.
func (t *reliableReads) count(r *reader, name []byte) int {
	if r == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.open[string(name)]
}

const (
	// heldShare is the part of the memory limit that the table's reads may take when memory is short.
	heldShare = 4
	// entrySize is about how many bytes the table takes for a read.
	entrySize = 128
)

// room reports whether another call may open reads. Past the memory limit it may not while the reads
// of the table take one part in heldShare of the limit: reads outlive their connections, so nothing
// else bounds them. A smaller table may grow, or consumers could not empty the queues.
func (t *reliableReads) room() bool {
	if t.engine.MemoryLeft() > 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes < t.engine.MemoryLimit()/heldShare
}

// add takes over the open reads of one call, in the order they were opened, and appends their ids
// to dst. Their items have about so many bytes together.
func (t *reliableReads) add(
	r *reader, name []byte, refs []engine.ReadRef, bytes int, deadline moment, dst []int64,
) []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.newCall()
	if c.queue != string(name) {
		c.queue = string(name)
	}
	t.opened++
	c.reader, c.deadline, c.order, c.left = r, deadline, t.opened, len(refs)
	c.bytes = int64(bytes + len(refs)*entrySize)
	t.bytes += c.bytes
	t.engine.Account(int64(len(refs) * entrySize)) // the engine counts the items itself
	for i, ref := range refs {
		id := t.newID()
		c.reads = append(c.reads, readOfCall{id, ref})
		t.reads[id] = placeInCall{c, i}
		dst = append(dst, id)
	}
	r.open[c.queue] += len(refs)
	heap.Push(&t.calls, c)
	if t.calls[0] == c {
		t.setTimer()
	}
	return dst
}

func (t *reliableReads) newCall() *readsOfCall {
	if n := len(t.free); n > 0 {
		c := t.free[n-1]
		t.free = t.free[:n-1]
		return c
	}
	return new(readsOfCall)
}

// take ends the reads with the given ids, those that are open and of the queue called name, as far
// as this table is concerned. It returns how many there were, and appends them to dst, in the order
// they were opened.
func (t *reliableReads) take(
	name []byte, ids thrift.IDs, dst []engine.ReadRef,
) ([]engine.ReadRef, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = t.takeLocked(name, ids, t.taken[:0])
	for _, r := range t.taken {
		dst = append(dst, r.ref)
	}
	return dst, len(t.taken)
}

// takeReads is take for a caller that needs the reads' places. Those of one call of takeReads are in order.
func (t *reliableReads) takeReads(name []byte, ids thrift.IDs, dst []takenRead) []takenRead {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeLocked(name, ids, dst)
}

func (t *reliableReads) takeLocked(name []byte, ids thrift.IDs, dst []takenRead) []takenRead {
	found := t.found[:0]
	for id := range ids.All() {
		place, ok := t.reads[id]
		if ok && place.call.queue == string(name) {
			delete(t.reads, id)
			found = append(found, place)
		}
	}
	slices.SortFunc(found, func(a, b placeInCall) int {
		return cmp.Or(cmp.Compare(a.call.order, b.call.order), cmp.Compare(a.index, b.index))
	})
	ended := 0 // of the call at hand
	for i, place := range found {
		c := place.call
		r := &c.reads[place.index]
		dst = append(dst, takenRead{c.order, place.index, r.ref})
		*r = readOfCall{}
		ended++
		if i == len(found)-1 || found[i+1].call != c {
			t.end(c, ended)
			ended = 0
		}
	}
	t.found = found
	return dst
}

// end forgets n reads of a call that are no longer among t.reads. The caller holds mu.
func (t *reliableReads) end(c *readsOfCall, n int) {
	c.reader.forget(c.queue, n)
	ended := c.bytes / int64(c.left) * int64(n)
	if n == c.left {
		ended = c.bytes
	}
	t.shrink(c, n, ended)
	if c.left -= n; c.left > 0 {
		return
	}
	heap.Remove(&t.calls, c.heap)
	if len(t.free) < maxFreeCalls && cap(c.reads) <= maxFreeReads {
		c.reader, c.reads = nil, c.reads[:0]
		t.free = append(t.free, c)
	}
}

// shrink takes n reads of a call, and their bytes, off the counts. The caller holds mu.
func (t *reliableReads) shrink(c *readsOfCall, n int, bytes int64) {
	c.bytes -= bytes
	t.bytes -= bytes
	t.engine.Account(-int64(n * entrySize))
}

// setTimer makes the timer ring at the earliest deadline. The caller holds mu.
func (t *reliableReads) setTimer() {
	if len(t.calls) == 0 || t.stopped {
		return
	}
	d := time.Duration(max(t.calls[0].deadline-t.clock.now(), 1)) * time.Millisecond
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.abortDue)
		return
	}
	t.timer.Reset(d)
}

// abortDue brings back the reads whose deadline has passed.
func (t *reliableReads) abortDue() {
	now := t.clock.now()
	t.mu.Lock()
	var due []*readsOfCall
	for n := 0; !t.stopped && len(t.calls) > 0 && t.calls[0].deadline <= now; {
		c := heap.Pop(&t.calls).(*readsOfCall)
		due = append(due, c)
		c.reader.forget(c.queue, c.left)
		t.shrink(c, c.left, c.bytes)
		for _, r := range c.reads {
			delete(t.reads, r.id)
		}
		if n += len(c.reads); n >= abortPiece { // loops wait for the table
			n = 0
			t.mu.Unlock()
			t.mu.Lock()
		}
	}
	t.setTimer()
	t.mu.Unlock()
	// The call made last goes first, so that the oldest item of all comes to the head.
	slices.SortFunc(due, func(a, b *readsOfCall) int { return cmp.Compare(b.order, a.order) })
	for _, c := range due {
		var refs []engine.ReadRef
		for _, r := range c.reads {
			if r.id != 0 {
				refs = append(refs, r.ref)
			}
		}
		t.engine.AbortAll(engine.Now(), refs)
	}
}

// stop ends the timer. Reads that are still open are left to the engine.
func (t *reliableReads) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// callHeap implements heap.Interface, earliest deadline first.
type callHeap []*readsOfCall

func (h callHeap) Len() int           { return len(h) }
func (h callHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }

func (h callHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}

// Push implements heap.Interface.
func (h *callHeap) Push(c any) {
	c.(*readsOfCall).heap = len(*h)
	*h = append(*h, c.(*readsOfCall))
}

// Pop implements heap.Interface.
func (h *callHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
