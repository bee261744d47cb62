package engine

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/list"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// shard is a part of the queues under one lock. A queue and its fanout children are in the same
// shard.
type shard struct {
	mu sync.Mutex // held for memory work only, never across I/O
	// Guarded by mu.
	queues    map[string]*queue
	families  map[string]*family // by the name of the parent, which need not exist
	pool      item.Pool
	freeReads [readClasses]list.List[read] // not in use, by class
	pins      pins
	lastRead  uint64 // identity of the newest read
	puts      int64  // items accepted by puts, in every queue they went to
	tokens    tokenSource

	// Queues that the operation which holds mu carries for when it has released mu; it leaves the
	// list empty. See unlock.
	moves   []*queue
	carried sync.Cond // on mu: somebody has stopped carrying for a queue
	// timed holds the queues whose open reads end by themselves and that have some.
	timed map[*queue]struct{}

	goneAges histogram.Counts // of queues that were deleted; see Meter.ages

	// Scratch of put.
	targets []*queue
	to      []record.Destination
	large   *largePut // made before mu was locked; nil: none

	_ [64]byte // keeps the locks of two shards out of one cache line
}

// family is the set of fanout children of one name.
type family struct {
	children []*queue
	withheld error // why a child is not served; nil if all are
}

// shardOf returns the shard of the queue called name.
func (e *Engine) shardOf(name []byte) *shard {
	if i := bytes.IndexByte(name, '+'); i >= 0 {
		name = name[:i]
	}
	return &e.shards[maphash.Bytes(e.seed, name)%uint64(len(e.shards))]
}

// find returns the queue called name, making it if it does not exist. The ticket is that of its
// making.
func (e *Engine) find(sh *shard, now Time, name []byte) (*queue, Ticket, error) {
	if q := sh.queues[string(name)]; q != nil {
		return q, Ticket{}, nil
	}
	return e.create(sh, now, string(name))
}

// create makes the queue called name for a client, unless a limit is in the way.
func (e *Engine) create(sh *shard, now Time, name string) (*queue, Ticket, error) {
	if err := ValidateName(name); err != nil {
		return nil, Ticket{}, err
	}
	if e.memory.Load()+queueMemory+int64(len(name)) > e.opts.MemoryLimit {
		e.notCreated.Add(1)
		return nil, Ticket{}, ErrOutOfMemory
	}
	return e.make(sh, now, name)
}

// make is create whatever memory is left: for items that would be lost otherwise.
func (e *Engine) make(sh *shard, now Time, name string) (*queue, Ticket, error) {
	if err := e.withheld.refusal(name); err != nil {
		return nil, Ticket{}, err
	}
	if parent, ok := parentOf(name); ok {
		f := sh.families[parent]
		if f != nil && len(f.children) >= e.opts.MaxFanoutChildren {
			e.notCreated.Add(1)
			return nil, Ticket{}, ErrTooManyChildren
		}
	}
	if e.queueCount.Add(1) > int64(e.opts.MaxQueues) {
		e.queueCount.Add(-1)
		e.notCreated.Add(1)
		return nil, Ticket{}, ErrTooManyQueues
	}
	opts := e.settings.Load().shared(name)
	q := &queue{
		name: name, number: e.lastNumber.Add(1), shard: sh, created: now, opts: opts, nextID: 1,
	}
	var t Ticket
	if opts.KeepJournal {
		t.Written = e.recordName(q)
	}
	sh.add(q)
	e.created.Add(1)
	return q, t, nil
}

// add enters q into the shard's tables (I5), and what it takes into the ledger.
func (sh *shard) add(q *queue) {
	sh.pool.Memory.Add(q.memory())
	sh.queues[q.name] = q
	q.family = sh.families[q.name]
	parent, ok := parentOf(q.name)
	if !ok {
		return
	}
	f := sh.families[parent]
	if f == nil {
		f = &family{}
		sh.families[parent] = f
		if p := sh.queues[parent]; p != nil {
			p.family = f
		}
	}
	f.children = append(f.children, q)
}

// list appends the queues of the shard to dst.
func (sh *shard) list(dst []*queue) []*queue {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, q := range sh.queues {
		dst = append(dst, q)
	}
	return dst
}

// unlink takes q out of the shard's tables and the ledger.
func (sh *shard) unlink(q *queue) {
	sh.pool.Memory.Add(-q.memory())
	delete(sh.queues, q.name)
	parent, ok := parentOf(q.name)
	if !ok {
		return
	}
	f := sh.families[parent]
	for i, c := range f.children {
		if c == q {
			f.children = append(f.children[:i], f.children[i+1:]...)
			break
		}
	}
	if len(f.children) == 0 && f.withheld == nil {
		delete(sh.families, parent)
		if p := sh.queues[parent]; p != nil {
			p.family = nil
		}
	}
}

// eachQueue calls f for every queue that exists when its shard's turn comes, with no lock held.
func (e *Engine) eachQueue(f func(*queue)) {
	e.eachShard(func(_ *shard, queues []*queue) {
		for _, q := range queues {
			f(q)
		}
	})
}

// eachShard calls f for every shard, with the queues that exist then and no lock held.
func (e *Engine) eachShard(f func(*shard, []*queue)) {
	var queues []*queue
	for i := range e.shards {
		sh := &e.shards[i]
		queues = sh.list(queues[:0])
		f(sh, queues)
	}
}
