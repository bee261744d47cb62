package engine

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// QueueStats is a queue at one moment. Counters are since the queue was made or the process started.
type QueueStats struct {
	Name     string
	Created  Time
	Options  QueueOptions
	Children []string // fanout children, sorted
	// JournalBytes is about what the queue's items in memory and open reads take in the journal.
	JournalBytes int64

	Items, Bytes       int64 // queued, without open reads
	MemItems, MemBytes int64 // the part of them held in memory, less what is leaving it
	// ReadBehind says that the queue has outgrown its memory: part of it is on disk alone.
	ReadBehind   bool
	BacklogBytes int64 // of disk that the queue's runs take
	ReadErrors   int64 // reads of the backlog that failed
	OpenReads    int64
	Waiters      int64
	// Age is how long ago the item removed last was added, in ms. Before any removal it is the age of the item at the
	// head. It is zero for an empty queue.
	Age int64
	// OldestRead is how long ago the read was opened that has been open for longest, in ms; 0 without one. Leases that
	// a receipt ends are not among them: each lapses by itself.
	OldestRead int64

	Puts, PutBytes int64 // accepted
	Replayed       int64 // items found in the journal at start
	Hits, Misses   int64 // fetches and peeks that found an item, or none
	Expired        int64
	Discarded      int64
	Flushes        int64
	Opens, Returns int64 // open reads begun; brought back
	ExpiredInto    int64 // items that other queues expired into this one
	ExpiredLost    int64 // … and those that were refused

	Delayed, Leased int64 // items that are hidden until they are due; that are leased. Items has the former
	DeadLettered    int64 // items that went to the dead-letter queue
	Redelivered     int64 // deliveries of items that had been delivered before, as far as that counts
	RefusedPuts     int64 // because the queue was full, the item too large, or a key one too many
}

// TotalItems is how many items were added, those found in the journal at start included.
func (s *QueueStats) TotalItems() int64 { return s.Puts + s.Replayed }

// LogSize is about what the queue takes of the disk, in bytes: in the journal, and in its backlog.
func (s *QueueStats) LogSize() int64 { return s.JournalBytes + s.BacklogBytes }

// AliasStats is an alias at one moment.
type AliasStats struct {
	Name               string
	Created            Time // when the process began to know it
	Destinations       []string
	PutItems, PutBytes int64 // offered
}

// Stats are sums over all queues, and of the engine itself.
type Stats struct {
	Queues       int64
	Withheld     int64 // queues that are not served; see Engine.Withheld
	TotalItems   int64 // accepted by puts, in every queue that they went to
	Created      int64 // queues made, those found at start included
	NotCreated   int64 // queues not made, because of MaxQueues, MaxFanoutChildren or MemoryLimit
	Deleted      int64 // expired ones included
	Expired      int64 // queues deleted by MaxQueueAge
	MemoryBytes  int64 // taken by queues, items, open reads and what Account has counted
	MemoryLimit  int64
	JournalBytes int64 // of disk
	// SyncErrors counts the syncs that failed, by the name of the error: "EIO", "ENOSPC", "other".
	SyncErrors     map[string]int64
	JournalFailing bool
	DiskFull       bool
	DiskFree       int64 // bytes of the disk, as measured last; -1 if that is not known
	DiskReserve    int64 // bytes of it that puts leave free; 0 if that is not known
}

// since is when the item removed last was added; before any removal, the item at the head, also one that is only on
// disk. It is zero for an empty queue. The caller holds the shard's mutex.
func (q *queue) since() Time {
	var it Item
	switch ok := q.first(&it); {
	case q.items() == 0:
		return 0
	case q.lastGone > 0:
		return q.lastGone
	case ok:
		return it.Added
	case q.backlog == nil:
		return 0
	case q.backlog.oldest > 0:
		return q.backlog.oldest
	}
	for _, w := range []*item.Window{&q.backlog.leaving, &q.backlog.recent} {
		if w.Count > 0 {
			w.First(&it)
			return it.Added
		}
	}
	return 0
}

// ageBegins forgets what the age was taken from: the next item is the first of an empty queue. The caller holds the
// shard's mutex.
func (q *queue) ageBegins() {
	q.lastGone = 0
	if q.backlog != nil {
		q.backlog.oldest = 0
	}
}

// stats describes q. The caller holds the shard's mutex.
func (q *queue) stats(now Time) QueueStats {
	c := &q.counters
	s := QueueStats{
		Name: q.name, Created: q.created, Options: *q.opts,
		Items: q.items(), Bytes: q.bytes(),
		MemItems: q.items(), MemBytes: q.bytes(), ReadErrors: c.readErrors,
		OpenReads: q.open.Len(), Waiters: int64(q.waiters.Len()),
		Puts: c.puts, PutBytes: c.putBytes, Replayed: c.replayed, Hits: c.hits, Misses: c.misses,
		Expired: c.expired, Discarded: c.discarded, Flushes: c.flushes, Opens: c.opens,
		Returns: c.returns, ExpiredInto: c.movedIn, ExpiredLost: c.lostIn,
		Leased: q.leased(), DeadLettered: c.deadLettered, Redelivered: c.redelivered,
		RefusedPuts: c.refusedPuts,
	}
	var leased item.Tally
	if q.aside != nil {
		disk := q.hiddenDisk()
		s.Delayed, leased = q.aside.Tally(aside.Delayed).Count+disk.Count, q.aside.Tally(aside.Leased)
		s.OpenReads += leased.Count
		s.MemItems, s.MemBytes = s.MemItems-disk.Count, s.MemBytes-disk.Bytes
		s.BacklogBytes += q.aside.hidden.Size()
	}
	if b := q.backlog; b != nil {
		s.MemItems, s.MemBytes = s.MemItems-b.count, s.MemBytes-b.bytes
		s.ReadBehind = b.inReadBehind
		for _, r := range b.runs {
			s.BacklogBytes += r.written.End
		}
	}
	if q.opts.KeepJournal {
		s.JournalBytes = (s.MemItems+s.OpenReads)*record.UsualPutSize + s.MemBytes + q.open.bytes + leased.Bytes
	}
	if since := q.since(); since > 0 {
		s.Age = max(int64(now-since), 0)
	}
	if r := q.open.First(); r != nil {
		s.OldestRead = max(int64(now-r.opened), 0)
	}
	if q.family != nil {
		for _, child := range q.family.children {
			s.Children = append(s.Children, child.name)
		}
		slices.Sort(s.Children)
	}
	return s
}

// QueueStats describes the queue called name; ok is false if it does not exist.
func (e *Engine) QueueStats(now Time, name []byte) (s QueueStats, ok bool) {
	defer contain()
	sh, q := e.lockQueue(name)
	defer sh.mu.Unlock()
	if q == nil {
		return s, false
	}
	return q.stats(now), true
}

// Queues describes every queue, sorted by name. No lock is held for longer than one queue takes, or
// the list of a shard's queues.
func (e *Engine) Queues(now Time) []QueueStats {
	defer contain()
	w := e.Walk()
	all := make([]QueueStats, 0, w.Left())
	for s, ok := w.Next(now); ok; s, ok = w.Next(now) {
		all = append(all, s)
	}
	return all
}

// QueueCount returns how many queues there are, aliases not included.
func (e *Engine) QueueCount() int64 {
	defer contain()
	return e.queueCount.Load()
}

// Walk is a way past every queue, sorted by name, for a caller that cannot take all of them at
// once. One goroutine at a time may use it.
type Walk struct {
	e    *Engine
	left []*queue
}

// Walk begins a walk past the queues that exist now. No lock is held for longer than the list of one shard takes.
func (e *Engine) Walk() *Walk {
	defer contain()
	return &Walk{e, e.sorted()}
}

// Next describes the next queue that still exists; ok is false if there is none.
func (w *Walk) Next(now Time) (s QueueStats, ok bool) {
	defer contain()
	for !ok && len(w.left) > 0 {
		s, ok = w.e.describe(w.left[0], now)
		w.left = w.left[1:]
	}
	return s, ok
}

// Left is how many queues have not been passed, those included that are gone.
func (w *Walk) Left() int { return len(w.left) }

// sorted returns the queues that exist when their shard's turn comes, sorted by name, with no lock held.
func (e *Engine) sorted() []*queue {
	queues := make([]*queue, 0, e.queueCount.Load())
	for i := range e.shards {
		queues = e.shards[i].list(queues)
	}
	slices.SortFunc(queues, func(a, b *queue) int { return strings.Compare(a.name, b.name) })
	return queues
}

// describe is stats for a caller that does not hold the shard's mutex; ok is false if q is gone.
func (e *Engine) describe(q *queue, now Time) (s QueueStats, ok bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.deleted {
		return s, false
	}
	return q.stats(now), true
}

// Aliases describes every alias, sorted by name.
func (e *Engine) Aliases() []AliasStats {
	defer contain()
	var all []AliasStats
	for name, to := range e.settings.Load().Aliases {
		if c, ok := e.aliases.Of(name); ok { // else Reload is about to take it away
			all = append(all, AliasStats{name, c.Created, to, c.Items, c.Bytes})
		}
	}
	slices.SortFunc(all, func(a, b AliasStats) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Stats describes the engine.
func (e *Engine) Stats() Stats {
	defer contain()
	s := Stats{
		Queues: e.queueCount.Load(), Withheld: int64(len(e.withheld.queues)), Created: e.created.Load(),
		NotCreated: e.notCreated.Load(), Deleted: e.deletes.Load(),
		Expired: e.expires.Load(), MemoryBytes: e.memory.Load(), MemoryLimit: e.opts.MemoryLimit,
		JournalFailing: e.journal.Failing(), DiskFull: e.journal.Full() || e.disk.Low.Load(),
		SyncErrors: e.journal.SyncErrors(), DiskFree: e.disk.Free(),
		DiskReserve: e.disk.Reserve(),
	}
	for i := range e.shards {
		e.shards[i].mu.Lock()
		s.TotalItems += e.shards[i].puts
		e.shards[i].mu.Unlock()
	}
	for _, seg := range e.journal.Segments() {
		s.JournalBytes += seg.Size
	}
	return s
}

// SyncMetrics returns how many µs each sync of the journal took. Of each periodic sync it also
// returns how many µs later than the queue's period the oldest write was synced. Both are copies.
func (e *Engine) SyncMetrics() (took, late *histogram.Counts) {
	defer contain()
	return e.journal.SyncMetrics()
}

// SyncTimes returns how many syncs of the journal have ended, how long they took together, and for how long
// one has been under way.
func (e *Engine) SyncTimes() (ended int64, took, underWay time.Duration) {
	defer contain()
	return e.journal.SyncTimes()
}

// trace logs what happens to an open read of a queue whose options ask for it.
func (e *Engine) trace(what string, r *read) {
	e.log.Info("open read", "what", what, "queue", r.q.name, "item", r.item.ID, "read", r.id)
}

// Health says whether the engine takes puts.
type Health struct {
	// DiskFull says that the disk has no room for the journal to grow, or less than its reserve. Puts are refused, or
	// will be when what room is left is used up.
	DiskFull bool
	// JournalError is why the last write or sync of the journal failed, and puts are refused; nil
	// if it did not. With ErrOutOfDisk it ends by itself when there is room.
	JournalError error
}

// Health describes the engine. It takes no lock.
func (e *Engine) Health() Health {
	defer contain()
	return Health{
		DiskFull: e.journal.Full() || e.disk.Low.Load(), JournalError: e.journal.Failure(),
	}
}

// Measure is something that a Meter keeps the distribution of.
type Measure uint8

const (
	PutTime  Measure = iota // µs that puts took
	HitTime                 // µs that fetches took which found an item at once
	MissTime                // µs that fetches took which found none, and did not wait
	WaitTime                // ms that fetches waited in vain

	measures
)

// Meter keeps how long what clients did to one queue took. The engine cannot know when a reply leaves, so the server
// reports it, in Samples. A queue gets its Meter when it is first used. One that outlives its queue may still be
// recorded to, and nobody reads it any more.
type Meter struct {
	ages  histogram.Counts            // ms from put to hand-out; guarded by the shard
	times [measures]*histogram.Counts // nil until something was recorded; guarded by Engine.metersMu
}

// Sample says that Count operations on the queue of a Meter took Value each.
type Sample struct {
	Meter *Meter
	Value int64
	Count int32
	What  Measure
}

// Record takes in samples. One lock is taken for all of them: event loops gather some hundreds first.
func (e *Engine) Record(samples []Sample) {
	defer contain()
	e.metersMu.Lock()
	defer e.metersMu.Unlock()
	for _, s := range samples {
		c := s.Meter.times[s.What]
		if c == nil {
			c = new(histogram.Counts)
			s.Meter.times[s.What] = c
		}
		c.Record(s.Value, int64(s.Count))
	}
}

// measured makes sure that q has a Meter, unless nothing is to be measured. The caller holds the shard's mutex.
func (e *Engine) measured(q *queue) *Meter {
	if q.meter == nil && !e.opts.NoHistograms {
		q.meter = new(Meter)
	}
	return q.meter
}

// handOut notes that an item is handed out. The caller holds the shard's mutex.
func (q *queue) handOut(it *Item, now Time) {
	if q.meter != nil {
		q.meter.ages.Record(int64(now-it.Added), 1)
	}
}

// forgetMeter keeps for the sum over all queues what a queue that is deleted has measured. The
// caller holds the shard's mutex.
func (q *queue) forgetMeter() {
	if q.meter != nil {
		q.shard.goneAges.Add(&q.meter.ages)
	}
}

// QueueMetrics are the distributions of one queue, as copies. One that is nil has no values.
type QueueMetrics struct {
	Name  string
	Times [measures]*histogram.Counts // by Measure
	// Ages are how many ms items had been in the queue when they were handed out.
	Ages *histogram.Counts
}

// Metrics returns the distributions of every queue that has any, sorted by name. It also returns the ages of all items
// handed out since the start, including those of queues that are gone. No lock is held for longer than one queue takes.
func (e *Engine) Metrics() (queues []QueueMetrics, ages *histogram.Counts) {
	defer contain()
	ages = new(histogram.Counts)
	for _, q := range e.sorted() {
		m, own := q.metrics()
		if m == nil {
			continue
		}
		ages.Add(own)
		metrics := QueueMetrics{Name: q.name, Times: e.copyTimes(m)}
		if own.Total() > 0 {
			metrics.Ages = own
		}
		if metrics != (QueueMetrics{Name: q.name}) {
			queues = append(queues, metrics)
		}
	}
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		ages.Add(&sh.goneAges)
		sh.mu.Unlock()
	}
	return queues, ages
}

// metrics returns the queue's Meter and a copy of the ages in it; nil if the queue has none or is gone.
func (q *queue) metrics() (*Meter, *histogram.Counts) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.meter == nil || q.deleted {
		return nil, nil
	}
	return q.meter, q.meter.ages.Clone()
}

func (e *Engine) copyTimes(m *Meter) (times [measures]*histogram.Counts) {
	e.metersMu.Lock()
	defer e.metersMu.Unlock()
	for i, c := range m.times {
		if c != nil {
			times[i] = c.Clone()
		}
	}
	return times
}
