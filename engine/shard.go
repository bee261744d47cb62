package engine

import (
	"iter"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/engine/internal/accountname"
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/list"
	"github.com/kestrelmq/kestrel/engine/internal/namehash"
	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/engine/internal/queuename"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
)

// shard is a part of the queues under one lock. A queue and its fanout children are in the same shard.
type shard struct {
	mu      sync.Mutex   // held for memory work only, never across I/O
	parents atomic.Int64 // how many families there are; written with mu held
	// allParents is the sum of parents of all shards.
	allParents *atomic.Int64
	// Guarded by mu.
	queues    map[string]*queue
	recent    *queue             // what was asked for last; nil: no such queue
	families  map[string]*family // by the name of the parent, which need not exist
	pool      item.Pool
	accounts  *accountname.Table[*queue]    // of the engine
	freeReads [readClasses]list.Stack[read] // not in use, by class
	pins      trim.Pins
	lastRead  uint64 // identity of the newest read
	puts      int64  // items accepted by puts, in every queue they went to
	tokens    aside.Tokens
	warm      aside.Warm
	leased    *atomic.Int64 // bytes that leased items take, of all shards

	// Queues that the operation which holds mu carries for when it has released mu; it leaves the
	// list empty. See unlock.
	moves   []*queue
	carried sync.Cond // on mu: somebody has stopped carrying for a queue
	// timed holds the queues whose open reads end by themselves and that have some.
	timed map[*queue]struct{}

	goneAges histogram.Counts // of queues that were deleted; see Meter.ages
	deleted  Ticket           // what their deletions wait for

	// Scratch of put.
	targets []*queue
	to      []record.Destination
	over    []record.Destination // items that others take the place of
	ids     []uint64             // of those of a key, by target
	scratch []byte               // for a copy of an item
	large   *largePut            // made before mu was locked; nil: none

	found []leaseAt // scratch of leasedBy

	_ [64]byte // keeps the locks of two shards out of one cache line
}

// queueMemory is about how many bytes an empty queue takes: itself with its histograms, and its places in tables. The
// histograms of a busy queue take more. TestQueueMemory holds it to what is measured.
const queueMemory = 1280

// memory is what of the memory limit the queue takes beside its items.
func (q *queue) memory() int64 { return queueMemory + int64(len(q.name)) }

// family is the set of fanout children of one name.
type family struct {
	children []*queue
	withheld error // why a child is not served; nil if all are
}

// takers is how many queues take what is put to the parent: itself and its children. There is no family without any.
func (f *family) takers() int {
	if f == nil {
		return 1
	}
	return len(f.children) + 1
}

// shardOf returns the shard of the queue called name, which is that of its parent.
func (e *Engine) shardOf(name []byte) *shard {
	i, _ := bits.Mul64(namehash.Of(e.seed, name), uint64(len(e.shards)))
	return &e.shards[i]
}

// called returns the queue called name, or nil. Clients often name one queue many times in a row. The caller holds mu.
func (sh *shard) called(name []byte) *queue {
	if q := sh.recent; q == nil || q.name != string(name) {
		sh.recent = sh.queues[string(name)]
	}
	return sh.recent
}

// lockQueue locks the shard of the queue called name, and returns both; the queue is nil if there is none.
func (e *Engine) lockQueue(name []byte) (*shard, *queue) {
	sh := e.shardOf(name)
	sh.mu.Lock()
	return sh, sh.called(name)
}

// findOrCreate returns the queue called name, making it if it does not exist. The ticket is that of its making.
func (e *Engine) findOrCreate(sh *shard, now Time, name []byte) (*queue, Ticket, error) {
	if q := sh.called(name); q != nil {
		return q, Ticket{}, nil
	}
	return e.create(sh, now, string(name))
}

// create makes the queue called name for a client, unless a limit is in the way.
func (e *Engine) create(sh *shard, now Time, name string) (*queue, Ticket, error) {
	if e.memory.Load()+queueMemory+int64(len(name)) > e.opts.MemoryLimit {
		e.notCreated.Add(1)
		return nil, Ticket{}, ErrOutOfMemory
	}
	return e.make(sh, now, name)
}

// make is create whatever memory is left: for items that would be lost otherwise.
func (e *Engine) make(sh *shard, now Time, name string) (*queue, Ticket, error) {
	if err := ValidateName(name); err != nil { // that of a dead-letter queue may be too long
		return nil, Ticket{}, err
	}
	if err := e.withheld.refusal(name); err != nil {
		return nil, Ticket{}, err
	}
	if parent, ok := queuename.Parent(name); ok {
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
	sh.accounts.Add(q.name, q)
	q.family = sh.families[q.name]
	parent, ok := queuename.Parent(q.name)
	if q.child = ok; !ok {
		return
	}
	f := sh.families[parent]
	if f == nil {
		f = sh.addFamily(parent)
	}
	f.children = append(f.children, q)
}

// addFamily makes the family of the children of a queue.
func (sh *shard) addFamily(parent string) *family {
	f := &family{}
	sh.families[parent] = f
	sh.countFamilies()
	if p := sh.queues[parent]; p != nil {
		p.family = f
	}
	return f
}

// countFamilies notes that a family was added or removed. The caller holds mu.
func (sh *shard) countFamilies() {
	n := int64(len(sh.families))
	sh.allParents.Add(n - sh.parents.Swap(n))
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
	sh.recent = nil
	sh.accounts.Remove(q.name, q)
	parent, ok := queuename.Parent(q.name)
	if !ok {
		return
	}
	f := sh.families[parent]
	f.children = slices.DeleteFunc(f.children, func(c *queue) bool { return c == q })
	if len(f.children) == 0 && f.withheld == nil {
		delete(sh.families, parent)
		sh.countFamilies()
		if p := sh.queues[parent]; p != nil {
			p.family = nil
		}
	}
}

// eachQueue calls f for every queue that exists when its shard's turn comes, with no lock held.
func (e *Engine) eachQueue(f func(*queue)) {
	e.eachShard(func(_ *shard, queues iter.Seq[*queue]) {
		for q := range queues {
			f(q)
		}
	})
}

// eachShard calls f for every shard, with the queues that exist then and no lock held.
func (e *Engine) eachShard(f func(*shard, iter.Seq[*queue])) {
	var queues []*queue
	passed := 0
	for i := range e.shards {
		sh := &e.shards[i]
		queues = sh.list(queues[:0])
		f(sh, processor.InTurn(queues, &passed, e.opts.yield))
	}
}

// recordName records that q exists, and its next id.
func (e *Engine) recordName(q *queue) LSN {
	return e.journal.Record(q.number, func(b []byte) []byte {
		return record.AppendQueue(b, q.number, q.nextID, q.created, q.name)
	})
}

// smallScratch returns scratch memory to be used again, unless it is large.
func smallScratch(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b[:0]
}

// WithheldQueue is a queue that Open found in the journal and could not bring back whole. The file of a run is missing,
// cut short or unreadable, or its records do not fit together. The engine does not serve it, and changes or removes
// nothing of it. Its runs stay, and so does every segment from the first one that mentions it. All other queues are
// served. A start after a repair, or after a good copy of the file has been put in its place, brings it back.
type WithheldQueue struct {
	Name   string
	Number uint64 // names the queue in the journal
	Reason error  // wraps ErrWithheld
}

// withheld is what of a data directory is not served. It does not change after Open.
type withheld struct {
	queues []WithheldQueue // by name and number
	names  map[string]error
	oldest uint64          // the first segment of the journal that any of them is in; zero without any
	runs   map[uint64]bool // numbers of their runs
}

// Withheld returns the queues that are not served, sorted by name.
func (e *Engine) Withheld() []WithheldQueue {
	defer contain()
	return e.withheld.queues
}

// refusal returns why the queue called name is not served; nil if it is, or does not exist.
func (w *withheld) refusal(name string) error {
	if len(w.names) == 0 {
		return nil
	}
	return w.names[name]
}

// has reports whether the queue of a number is withheld.
func (w *withheld) has(number uint64) bool {
	return slices.ContainsFunc(w.queues, func(q WithheldQueue) bool { return q.Number == number })
}

// withholdChild notes that a fanout child is not served: what is put to its parent would miss it.
func (sh *shard) withholdChild(name string, err error) {
	parent, ok := queuename.Parent(name)
	if !ok {
		return
	}
	if sh.families[parent] == nil {
		sh.addFamily(parent)
	}
	sh.families[parent].withheld = err
}
