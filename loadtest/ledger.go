package loadtest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Ledger knows what was put to which queues, and checks every item that is got. The item must have been put to this
// queue with these bytes. It must come once, and in the order in which its producer put it. One Ledger may serve
// several runs, one after the other: producers go on counting where they ended, consumers expect what follows. Its
// exported methods may be called at any time.
type Ledger struct {
	// Immutable.
	run     uint16 // in all stamps
	begin   time.Time
	foreign bool

	// Set up before a run's threads start, read by them.
	queues    map[string]*ledgerQueue
	producers []*producer
	byPlace   map[place]*producer
	consumers map[place]*consumer

	put     atomic.Int64 // acknowledged, each once however many queues it went to
	got     atomic.Int64 // checked and right, duplicates that are allowed included
	owed    atomic.Int64 // acknowledged and not yet got, over all queues; below 0 while acks are late
	again   atomic.Int64 // got once more, as is allowed after a leak or a kill
	strange atomic.Int64 // items of other runs
}

// NewLedger returns an empty Ledger. Items of other seeds are taken for wrong ones unless foreign
// is set, which has them passed over and counted.
func NewLedger(seed uint64, foreign bool) *Ledger {
	return &Ledger{
		run:       uint16(seed ^ seed>>16 ^ seed>>32 ^ seed>>48),
		begin:     time.Now(),
		foreign:   foreign,
		queues:    make(map[string]*ledgerQueue),
		byPlace:   make(map[place]*producer),
		consumers: make(map[place]*consumer),
	}
}

// Counts is what a Ledger has counted.
type Counts struct {
	Put         int64 // items acknowledged
	Got         int64 // items got
	Owed        int64 // acknowledged and not got; a fanout item counts for each queue
	Redelivered int64 // got again, as they had to be or might be
	Foreign     int64 // items of other runs, passed over
}

// Counts returns the counts so far.
func (l *Ledger) Counts() Counts {
	return Counts{
		Put:         l.put.Load(),
		Got:         l.got.Load(),
		Owed:        l.owed.Load(),
		Redelivered: l.again.Load(),
		Foreign:     l.strange.Load(),
	}
}

// Item names an item.
type Item struct {
	Queue    string
	Producer int    // index of the producer among all of the Ledger
	Seq      uint64 // counts the producer's items from 0
}

func (i Item) String() string {
	return fmt.Sprintf("item %d of producer %d in %q", i.Seq, i.Producer, i.Queue)
}

// Missing returns up to limit items that were acknowledged and not got, by queue and producer, and
// how many there are. It is exact while no run is on.
func (l *Ledger) Missing(limit int) (items []Item, total int64) {
	for _, p := range l.producers {
		for _, f := range p.feeds {
			f.queue.mu.Lock()
			note := func(seq uint64) {
				if total++; len(items) < limit {
					items = append(items, Item{f.queue.name, int(p.id), seq})
				}
			}
			for seq := range f.seen.missing(p.acknowledged.Load()) {
				note(seq)
			}
			for _, seq := range f.dueAgain() {
				note(seq)
			}
			f.queue.mu.Unlock()
		}
	}
	return items, total
}

// place identifies a connection's role over several runs.
type place struct {
	queue string
	index int // among those of the queue
}

// ledgerQueue is a queue that items are expected in.
type ledgerQueue struct {
	name  string
	feeds int // producers so far

	mu sync.Mutex // guards its feeds' fields and its consumers'
}

// feed is what one producer has put to one queue.
type feed struct {
	queue *ledgerQueue
	index int // among the feeds of the queue

	// Guarded by queue.mu.
	seen     seenSet
	returned map[uint64]bool // items that may come again; true: must
}

// dueAgain returns the items that must come again, in order.
func (f *feed) dueAgain() (due []uint64) {
	for seq, must := range f.returned {
		if must {
			due = append(due, seq)
		}
	}
	slices.Sort(due)
	return due
}

// producer numbers the items of a connection. Its methods belong to the connection's thread.
type producer struct {
	ledger       *Ledger
	id           uint16
	size         int // bytes of its items
	feeds        []*feed
	sent         atomic.Uint64
	acknowledged atomic.Uint64
}

// queue returns the queue of a name.
func (l *Ledger) queue(name string) *ledgerQueue {
	q := l.queues[name]
	if q == nil {
		q = &ledgerQueue{name: name}
		l.queues[name] = q
	}
	return q
}

// producer returns the index-th producer of the queue and of those that get its items too. Only
// says that the queue itself keeps none.
func (l *Ledger) producer(queue string, index, size int, fanout []string, only bool) (*producer,
	error) {
	at := place{queue, index}
	if p := l.byPlace[at]; p != nil {
		p.size = size
		return p, nil
	}
	if len(l.producers) >= MaxConnections {
		return nil, fmt.Errorf("loadtest: more than %d producers in one ledger", MaxConnections)
	}
	p := &producer{ledger: l, id: uint16(len(l.producers)), size: size}
	names := fanout
	if !only {
		names = append([]string{queue}, fanout...)
	}
	for _, name := range names {
		q := l.queue(name)
		p.feeds = append(p.feeds, &feed{queue: q, index: q.feeds})
		q.feeds++
	}
	l.producers = append(l.producers, p)
	l.byPlace[at] = p
	return p, nil
}

// next returns the stamp of the next item.
func (p *producer) next(at time.Time) stamp {
	seq := p.sent.Add(1) - 1
	return stamp{p.ledger.run, p.id, seq & maxSeq, at.Sub(p.ledger.begin) & maxTime}
}

// acknowledge takes note that n more items were acknowledged. Those are the oldest that were not.
func (p *producer) acknowledge(n int) {
	p.acknowledged.Add(uint64(n))
	p.ledger.put.Add(int64(n))
	p.ledger.owed.Add(int64(n * len(p.feeds)))
}

// drained reports whether everything acknowledged was got.
func (l *Ledger) drained() bool { return l.owed.Load() <= 0 }
