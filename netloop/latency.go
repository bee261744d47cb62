package netloop

import (
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/histogram"
)

// Command is a kind of request whose latency is kept.
type Command uint8

const (
	CommandPut     Command = iota // of one item
	CommandHit                    // a fetch that found an item at once
	CommandMiss                   // a fetch that found none, and did not wait
	CommandPeek                   // with an item or without
	CommandConfirm                // of any number of open reads
	CommandDelete                 // of a queue
	CommandFlush                  // also of expired items, and of all queues

	commands
)

// measures has what is kept of a command for its queue, too. The commands come first of which something is.
var measures = [...]engine.Measure{CommandPut: engine.PutTime, CommandHit: engine.HitTime, CommandMiss: engine.MissTime}

// latencies measures the commands of one loop. Its owner is the loop, but for what mu guards.
//
// The latency of a command begins with the turn in which it was read. It ends with the tick in which its reply left.
// The server is answerable for that: from when the operating system says that bytes are there until it takes the
// reply. All commands of a turn whose replies leave together have one latency. So a turn costs one more look at the
// clock, and a command an addition. docs/decisions/0020-latency.md has what else was tried.
type latencies struct {
	engine *engine.Engine

	now  group // commands of this turn whose replies leave in its tick
	sync group // … and those that wait for a sync
	// waiting are groups of earlier turns that wait for a sync, oldest first.
	waiting []group
	spare   []group // to use again

	mu      sync.Mutex                 // taken once a tick; a reader holds it for a copy
	times   [commands]histogram.Counts // µs; guarded by mu
	waits   histogram.Counts           // ms that fetches waited in vain; guarded by mu
	samples []engine.Sample            // that the engine has not got yet; guarded by mu
}

const (
	// maxGroups bounds how many turns are kept apart while a sync runs. Later ones join the last,
	// and count from its beginning.
	maxGroups = 64
	// maxQueues bounds to how many queues the commands of one turn are attributed; of the rest, the
	// distributions count too few.
	maxQueues = 1024
	// maxSamples is how many samples gather before the engine gets them.
	maxSamples = 256
	// directSamples is how many of one turn it gets at once.
	directSamples = 16
)

// group is commands that began, and end, together.
type group struct {
	began  time.Time
	synced engine.LSN // that ends them; zero: the tick
	any    bool
	counts [commands]int64
	queues []engine.Sample    // without values, which are one for the group
	last   [len(measures)]int // where in queues the command was counted last
}

func newLatencies(e *engine.Engine) *latencies {
	y := &latencies{engine: e}
	for i := range y.times {
		y.times[i].Precision = histogram.Fine
	}
	return y
}

// count takes in n commands whose replies may leave with t, on the queue that m belongs to, or on
// none. It does nothing if y is nil.
func (y *latencies) count(c Command, m *engine.Meter, t engine.Ticket, n int64) {
	if y == nil || n == 0 {
		return
	}
	g := &y.now
	if t.Synced != 0 {
		g = &y.sync
		g.synced = max(g.synced, t.Synced)
	}
	g.any = true
	g.counts[c] += n
	if m == nil || int(c) >= len(measures) {
		return
	}
	what, at := measures[c], g.last[c]
	if at < len(g.queues) && g.queues[at].Meter == m && g.queues[at].What == what {
		g.queues[at].Count += int32(n)
		return
	}
	g.last[c] = g.add(m, what, int32(n))
}

// late is count of one command that began in an earlier turn.
func (y *latencies) late(c Command, t engine.Ticket, began time.Time) {
	if y == nil {
		return
	}
	if n := len(y.waiting); n == maxGroups {
		g := &y.waiting[n-1]
		g.counts[c]++
		g.synced = max(g.synced, t.Synced)
		return
	}
	g := group{began: began, synced: t.Synced, any: true}
	g.counts[c] = 1
	y.waiting = append(y.waiting, g)
}

// add takes in commands on one queue, and returns where. Clients stay with a queue or two for a while, so only the last
// few are looked at: a queue may be there several times.
func (g *group) add(m *engine.Meter, what engine.Measure, n int32) (at int) {
	last := len(g.queues) - 1
	for at = last; at >= 0 && at > last-3; at-- {
		if q := &g.queues[at]; q.Meter == m && q.What == what {
			q.Count += n
			return at
		}
	}
	if len(g.queues) < maxQueues {
		g.queues = append(g.queues, engine.Sample{Meter: m, What: what, Count: n})
	}
	return last + 1
}

// wait takes in a fetch that waited in vain.
func (y *latencies) wait(m *engine.Meter, ms int64) {
	if y == nil {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.waits.Record(ms, 1)
	if m != nil {
		y.add(engine.Sample{Meter: m, What: engine.WaitTime, Value: ms, Count: 1})
	}
}

// measure measures the commands that have ended; the others wait. The loop calls it at now, at the end of a tick whose
// turn began at began.
func (y *latencies) measure(began, now time.Time) {
	if y == nil || !y.now.any && !y.sync.any && len(y.waiting) == 0 {
		return
	}
	y.now.began, y.sync.began = began, began
	y.mu.Lock()
	defer y.mu.Unlock()
	n := 0
	for n < len(y.waiting) && y.ended(&y.waiting[n]) {
		y.end(&y.waiting[n], now)
		n++
	}
	if n > 0 {
		y.spare = append(y.spare, y.waiting[:n]...)
		y.waiting = y.waiting[:copy(y.waiting, y.waiting[n:])]
	}
	if y.now.any {
		y.end(&y.now, now)
	}
	switch {
	case !y.sync.any:
	case y.ended(&y.sync):
		y.end(&y.sync, now)
	default:
		y.waitForSync()
	}
}

// ended reports whether the sync that a group waits for has ended.
func (y *latencies) ended(g *group) bool {
	return y.engine.Committed(engine.Ticket{Synced: g.synced})
}

// end measures a group, and empties it. The caller holds mu.
func (y *latencies) end(g *group, now time.Time) {
	took := now.Sub(g.began).Microseconds()
	for c, n := range g.counts {
		if n > 0 {
			y.times[c].Record(took, n)
		}
	}
	for i := range g.queues {
		g.queues[i].Value = took
	}
	if len(g.queues) >= directSamples {
		y.engine.Record(g.queues)
	} else {
		y.add(g.queues...)
	}
	g.clear()
}

// clear empties a group, but for its room.
func (g *group) clear() {
	clear(g.queues)
	*g = group{queues: g.queues[:0]}
}

// add gathers samples for the engine. The caller holds mu.
func (y *latencies) add(s ...engine.Sample) {
	if y.samples = append(y.samples, s...); len(y.samples) >= maxSamples {
		y.handOver()
	}
}

// handOver hands the engine what has gathered. The caller holds mu.
func (y *latencies) handOver() {
	y.engine.Record(y.samples)
	clear(y.samples)
	y.samples = y.samples[:0]
}

// waitForSync puts the group that waits for a sync with those of earlier turns.
func (y *latencies) waitForSync() {
	if n := len(y.waiting); n == maxGroups {
		y.waiting[n-1].join(&y.sync)
		y.sync.clear()
		return
	}
	y.waiting = append(y.waiting, y.sync)
	y.sync = group{}
	if n := len(y.spare); n > 0 {
		y.sync, y.spare = y.spare[n-1], y.spare[:n-1]
	}
}

// join adds a later group.
func (g *group) join(later *group) {
	g.synced = max(g.synced, later.synced)
	for c, n := range later.counts {
		g.counts[c] += n
	}
	for _, q := range later.queues {
		g.add(q.Meter, q.What, q.Count)
	}
}

// forget drops what waits for a sync that has failed: its replies say so.
func (y *latencies) forget() {
	if y == nil {
		return
	}
	for i := range y.waiting {
		y.waiting[i].clear()
	}
	y.spare = append(y.spare, y.waiting...)
	y.waiting = y.waiting[:0]
	y.sync.clear()
}

// Metrics are the distributions of what has happened since the start, as copies.
type Metrics struct {
	Commands [commands]histogram.Counts // µs, by Command
	Waits    *histogram.Counts          // ms that fetches waited in vain
	Ages     *histogram.Counts          // ms that items had been queued when they were handed out
	Syncs    *histogram.Counts          // µs that syncs of the journal took
	SyncLate *histogram.Counts          // µs that periodic syncs came after their time
	Backlog  engine.BacklogMetrics      // steps between memory and backlogs
	Queues   []engine.QueueMetrics      // of queues that have any, sorted by name
}

// Metrics describes what was measured. With the options NoHistograms only syncs and
// backlogs are.
func (s *Server) Metrics() Metrics {
	m := Metrics{Waits: new(histogram.Counts)}
	for c := range m.Commands {
		m.Commands[c].Precision = histogram.Fine
	}
	for _, d := range s.loops {
		if d.latencies != nil {
			d.latencies.read(&m)
		}
	}
	m.Queues, m.Ages = s.opts.Engine.Metrics()
	m.Syncs, m.SyncLate = s.opts.Engine.SyncMetrics()
	m.Backlog = s.opts.Engine.BacklogMetrics()
	return m
}

// read counts in what the loop has measured, and hands the engine its share. Any goroutine may call
// it.
func (y *latencies) read(m *Metrics) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for c := range y.times {
		m.Commands[c].Add(&y.times[c])
	}
	m.Waits.Add(&y.waits)
	y.handOver()
}
