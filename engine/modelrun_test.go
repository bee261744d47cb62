package engine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestQueueModel runs an engine and the model side by side: every answer must be the same, in
// order, bytes, flags, times and ids. The journal's segments are so small that it rotates,
// checkpoints, drops and uses segments again all the time.
//
// To replay a failure: go test ./engine -run TestQueueModel -seed N
func TestQueueModel(t *testing.T) {
	first, seeds, steps := uint64(1), amount(sampled[uint64](3, 6), 40, 2000), amount(400, 400, 1500)
	if *seedFlag != 0 {
		first, seeds = *seedFlag, 1
	}
	for seed := first; seed < first+seeds; seed++ {
		r := newModelRun(t, seed)
		r.opts.Shards = 1 + r.IntN(3)
		r.opts.SegmentSize = []int64{512, 1024, 4096}[r.IntN(3)]
		r.opts.BacklogCompression = segment.Codec(r.IntN(3))
		r.spilling = seed%3 > 0
		r.keyed = seed%4 > 0
		r.between, r.opts.lookBatch = 1, 1+int(seed%3)
		if r.spilling {
			r.opts.JournalSize = []int64{0, 3000, 20000}[seed/3%3]
		}
		r.start()
		for r.step = range steps {
			r.do()
			if t.Failed() {
				t.Fatalf("replay with: go test ./engine -run TestQueueModel -seed %d", seed)
			}
		}
		r.finish()
	}
}

var modelNames = []string{"a", "b", "c", "a+x", "a+y", "a+y+z", "b+x", "dead"}

// modelRun is one run of both.
type modelRun struct {
	*testing.T
	*rand.Rand
	seed  uint64
	step  int
	op    string // what is being done, for messages
	fsys  *segmenttest.FS
	opts  Options
	e     *Engine
	m     *model
	now   Time
	reads []*modelRead   // that a client has
	waits []*modelWaiter // in line
	ready []*modelWaiter // notified, but not collected
	// Receipts of leases, and instants at which something is due.
	receipts []modelReceipt
	holders  [2]modelHolder
	instants map[Time]bool
	notified []*modelWaiter // as the engine says, by the current operation
	// spilling makes windows tiny. Items expire for a flush alone then, and none are discarded. What the model does in
	// one step takes the engine several when items come from disk.
	// Without it the model takes every item for one that is in memory, whose expiry the engine knows. So items must be
	// small. A reload that turns KeepJournal on spills a queue of more than smallBytes, and a kill leaves it on disk alone.
	// FlushExpired does not count such items then, and Remove removes one that has expired, as both say.
	spilling bool
	// onDisk is what a kill would leave now.
	onDisk []*modelQueue
	end    LSN // behind the records of the last operation
	puts   int
	calm   bool  // no puts in a row
	hidden int64 // items that were seen on disk in hidden runs, one each time

	// These are for crash tests: what draws settings, what commits, what a clean end reports, and what stands between
	// the engine and fsys. They also say that processes are not killed, or not even closed.
	draw              func() Settings
	wait              func(Ticket) error
	closed            func()
	disk              func() segment.FS
	noKill, noRestart bool
	keyed             bool // items have keys, and are removed and changed in the middle
	busyKeys          bool // and that is what a third of the operations do, with two keys
	between           int  // so deep operations may come between the pieces of a flush
}

func newModelRun(t *testing.T, seed uint64) *modelRun {
	r := &modelRun{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed,
		instants: make(map[Time]bool), fsys: segmenttest.New(), m: &model{}, now: 1700000000000, closed: func() {},
	}
	r.draw = r.settings
	r.wait = func(ticket Ticket) error { return r.e.Commit(ticket) }
	r.disk = func() segment.FS { return r.fsys }
	r.opts = testOptions(nil)
	r.opts.readBack = time.Millisecond                       // what is due later may be hidden
	r.opts.markFrom, r.opts.markLong = 3*marks.RangeCost, 12 // a few ranges that are gone go to a file
	r.opts.directFrom, r.opts.BacklogCached = drawIO(seed)
	return r
}

// drawIO says how the runs of a test with a seed are written and read. It lets either all of them go past the page
// cache, or those of queues that have any memory, or none.
func drawIO(seed uint64) (directFrom int64, cached bool) {
	switch seed % 4 {
	case 2:
		return 1, true
	case 3:
		return 0, false // the default, which is above what these queues have
	}
	return 1, false
}

// start begins the run with settings.
func (r *modelRun) start() {
	r.opts.Settings = r.draw()
	r.m.settings = r.opts.Settings
	r.open()
}

// fail reports a difference, unless it is that the machine has stopped.
func (r *modelRun) fail(format string, args ...any) {
	r.Helper()
	if r.fsys.Stopped() {
		return
	}
	r.Errorf("seed %d, step %d, %s: %s", r.seed, r.step, r.op, fmt.Sprintf(format, args...))
}

// settings draws options: mostly none, so that limits are met now and then.
func (r *modelRun) settings() Settings {
	s := Settings{
		Default: r.queueOptions(""),
		Queues:  map[string]QueueOptions{},
		Aliases: map[string][]string{},
	}
	for _, name := range modelNames {
		if r.IntN(3) > 0 {
			s.Queues[name] = r.queueOptions(name)
		}
	}
	if r.IntN(2) == 0 {
		s.Aliases["alias"] = []string{r.name(), r.name()}
		s.Aliases["alias of it"] = []string{"alias", r.name()}
	}
	if r.IntN(8) == 0 {
		s.Aliases["c"] = []string{"b"} // hides a queue
	}
	return s
}

func (r *modelRun) queueOptions(name string) QueueOptions {
	o := DefaultQueueOptions()
	one := func(n int) bool { return r.IntN(n) == 0 }
	if one(4) {
		o.MaxItems, o.DiscardOldWhenFull = int64(1+r.IntN(6)), one(2)
	}
	if one(5) {
		o.MaxSize, o.DiscardOldWhenFull = int64(1+r.IntN(900)), one(2)
	}
	if one(6) {
		o.MaxItemSize = int64(r.IntN(300))
	}
	if r.spilling {
		o.MaxMemorySize = []int64{0, 1, 50, 300, 2000, 8000}[r.IntN(6)]
	}
	if one(4) {
		o.MaxAge = time.Duration(r.IntN(10000)) * time.Millisecond
	}
	if one(3) {
		o.OpenReadTimeout = time.Duration(1+r.IntN(5000)) * time.Millisecond
	}
	if one(4) {
		o.MaxExpireSweep = int64(r.IntN(3))
	}
	if target := []string{"dead", "b", "a+x", "c"}[r.IntN(4)]; one(3) && target != name {
		o.ExpireTo = target
	}
	if r.spilling {
		o.MaxAge, o.DiscardOldWhenFull = 0, false
		if o.ExpireTo != "" {
			o.ExpireTo = afterlife
		}
		if r.keyed { // what is removed on disk counts until it is read past
			o.MaxSize = DefaultQueueOptions().MaxSize
		}
	}
	if r.keyed && !r.spilling && one(6) {
		o.MaxKeys = int64(1 + r.IntN(3))
	}
	if one(3) {
		o.MaxDeliveries = int64(1 + r.IntN(3))
	}
	if one(3) {
		o.RedeliveryDelay = Backoff{time.Second * time.Duration(r.IntN(2)), 2 * time.Second}
	}
	if one(4) {
		o.MaxDelay = 2 * time.Second
	}
	if target := []string{"dead", "b"}[r.IntN(2)]; one(4) && target != name {
		o.DeadLetterQueue = target
	}
	o.KeepJournal = !one(6)
	o.FanoutOnly = one(8)
	o.Sync = []SyncPolicy{SyncAlways, SyncNever, SyncEvery(time.Second)}[r.IntN(3)]
	return o
}

func (r *modelRun) name() string { return modelNames[r.IntN(len(modelNames))] }

// open starts a process on what the last one left.
func (r *modelRun) open() {
	r.opts.FS = r.disk()
	e, err := open(r.opts)
	if r.fsys.Stopped() {
		return
	}
	if err != nil {
		r.Fatalf("seed %d, step %d: Open = %v", r.seed, r.step, err)
	}
	r.e = e
	e.spool.now = func() Time { return r.now }
	e.precise = func() (Time, time.Duration) { return e.spool.now(), 0 }
	r.reads, r.waits, r.ready = nil, nil, nil
	r.noteWritten()
}

// noteWritten remembers the state after an operation if all of it has been written.
func (r *modelRun) noteWritten() {
	r.end = r.e.journal.End()
	r.noteSpooled()
}

// noteSpooled is noteWritten after the spool has worked, which changes nothing of the state and may
// leave records of its own unwritten.
func (r *modelRun) noteSpooled() {
	if r.e.Committed(Ticket{Written: r.end}) {
		r.onDisk = r.m.durable()
	}
}

func (r *modelRun) commit(ticket Ticket) {
	r.Helper()
	if err := r.wait(ticket); err != nil {
		r.fail("Commit = %v", err)
	}
}

// do does something, and compares.
func (r *modelRun) do() {
	if r.spilling && r.IntN(4) > 0 {
		spoolSome(r.e, r.IntN(4))
		r.noteSpooled()
	}
	r.operate()
	r.compareTold()
	r.compare()
	r.noteNumbers()
	r.noteWritten()
}

func (r *modelRun) operate() {
	if r.IntN(3) == 0 {
		r.now += Time(r.IntN(2000))
	}
	r.bringDue()
	r.m.notified, r.notified = nil, nil
	switch n := r.IntN(100); {
	case r.busyKeys && n%6 == 1:
		r.oneItem()
	case r.busyKeys && n%6 == 0 || n < 30:
		r.put()
		for n := r.more(); n > 0; n-- {
			r.noteNumbers()
			r.noteWritten()
			r.put()
		}
	case n < 51:
		r.fetch()
	case n < 55:
		r.fetchSeveral()
	case n < 59:
		r.endRead()
	case n < 61:
		r.endLease()
	case n < 62 && r.keyed, n > 95 && r.keyed:
		r.oneItem()
	case n < 62:
		r.endLease()
	case n < 63:
		r.extendRead()
	case n < 66:
		r.loseClient()
	case n < 71:
		r.endWait()
	case n < 74:
		r.collect()
	case n < 84:
		r.queueOperation()
	case n < 90:
		r.background()
	case n < 93:
		r.reload()
	case n < 95:
		r.restart()
	default:
		r.op = "commit"
		end := r.e.journal.End()
		r.commit(Ticket{Written: end, Synced: end * LSN(r.IntN(2))})
	}
}

// bringDue reads back what is due in hidden runs: the model has it at hand, and a fetch from the engine waits.
func (r *modelRun) bringDue() {
	if r.e == nil || r.fsys.Stopped() {
		return
	}
	for _, q := range r.m.queues {
		if live := r.e.shardOf([]byte(q.name)).queues[q.name]; live != nil {
			for n := 0; r.e.hiddenComing(live); n++ {
				if r.e.spool.unhideFrame(live); n == 10_000 {
					r.fail("queue %q: what is due in hidden runs does not come", q.name)
					return
				}
			}
		}
	}
}

// more draws how many puts follow one.
func (r *modelRun) more() int {
	if !r.spilling || r.calm {
		return 0
	}
	return r.IntN(8)
}

// noteNumbers takes over the engine's numbers of queues, which decide on their order after a
// restart.
func (r *modelRun) noteNumbers() {
	for _, q := range r.m.queues {
		if live := r.e.shardOf([]byte(q.name)).queues[q.name]; live != nil {
			q.number = live.number
		}
	}
}

// compareTold checks that the same waits ended, in the same order.
func (r *modelRun) compareTold() {
	if !slices.Equal(r.notified, r.m.notified) {
		r.fail("the engine ended %d waits, the model %d", len(r.notified), len(r.m.notified))
	}
	for _, w := range r.m.notified {
		if w.several != nil {
			r.endSeveral(w)
		}
		r.waits = slices.DeleteFunc(r.waits, func(v *modelWaiter) bool { return v == w })
		if w.Read.IsZero() != (w.read == nil) {
			r.fail("a wait got an item = %v, want %v", !w.Read.IsZero(), w.read != nil)
		}
		if w.read != nil {
			w.read.ref = w.Read
			r.ready = append(r.ready, w)
		}
	}
}

// compare checks everything that can be seen of every queue.
func (r *modelRun) compare() {
	if err := r.e.Verify(); err != nil {
		r.fail("Verify = %v", err)
	}
	all := r.e.Queues(r.now)
	if len(all) != len(r.m.queues) {
		r.fail("%d queues, want %d", len(all), len(r.m.queues))
	}
	for _, got := range all {
		q := r.m.find(got.Name)
		if q == nil {
			r.fail("queue %q should not exist", got.Name)
			continue
		}
		want := q.want
		want.Name, want.Created, want.Options = q.name, q.created, q.opts
		// These have tests of their own.
		want.Children, want.Age, want.JournalBytes, want.OldestRead = got.Children, got.Age, got.JournalBytes, got.OldestRead
		want.Items, want.Bytes = q.items(), q.bytes()
		if r.keyed && r.spilling && r.guesses(q, got.Bytes > want.Bytes) {
			want.Bytes = got.Bytes
		}
		want.MemItems, want.MemBytes, want.BacklogBytes = got.MemItems, got.MemBytes, got.BacklogBytes
		disk := r.e.shardOf([]byte(q.name)).queues[q.name].hiddenDisk()
		if want.ReadBehind = got.ReadBehind; !got.ReadBehind && got.MemItems+disk.Count != got.Items {
			r.fail("queue %q is not in read-behind, but %d of %d items are in memory, and %d hidden",
				q.name, got.MemItems, got.Items, disk.Count)
		}
		r.hidden += disk.Count
		r.compareMemory(q)
		want.Delayed, want.Leased = q.count(aside.Delayed), q.count(aside.Leased)
		for _, open := range q.open {
			if open.deadline != 0 {
				want.Leased++
			}
		}
		want.OpenReads = int64(len(q.open)) + q.count(aside.Leased)
		want.Waiters = int64(len(q.waiters))
		if !reflect.DeepEqual(got, want) {
			r.fail("stats of queue %q are\n%+v, want\n%+v", q.name, got, want)
		}
		r.compareItems("items", q.name, contents(r.e, q.name, false), q.queued())
		r.compareAside(q)
		r.compareKeys(q)
	}
	r.compareHolders()
}

// compareMemory holds a queue to its memory: no more than one item over it.
func (r *modelRun) compareMemory(q *modelQueue) {
	sh := r.e.shardOf([]byte(q.name))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	live := sh.queues[q.name]
	used, largest := live.window.Bytes, 0
	if live.backlog != nil {
		used += live.backlog.recent.Bytes
	}
	for _, it := range q.window {
		largest = max(largest, len(it.Data))
	}
	if most := q.opts.MaxMemorySize + int64(largest); used > most {
		r.fail("queue %q holds %d bytes in memory, want %d at most", q.name, used, most)
	}
}

func (r *modelRun) compareItems(what, name string, got, want []Item) {
	r.Helper()
	if len(got) != len(want) {
		r.fail("queue %q has %d %s, want %d", name, len(got), what, len(want))
		return
	}
	for i := range got {
		r.compareItem(name, got[i], want[i])
	}
}

func (r *modelRun) compareItem(name string, got, want Item) {
	r.Helper()
	if string(got.Stored()) != string(want.Stored()) || string(got.Key()) != string(want.Key()) || got.Why() != want.Why() || got.ID != want.ID || got.Flags != want.Flags ||
		got.Added != want.Added || got.Expiry != want.Expiry {
		r.fail("item of queue %q is\n%+v, want\n%+v", name, got, want)
	}
}

// finish deletes every queue; no memory may be in use then.
func (r *modelRun) finish() {
	r.op = "end"
	if r.spilling {
		r.Logf("seed %d: %d times an item was on disk in a hidden run", r.seed, r.hidden)
	}
	for _, q := range slices.Clone(r.m.queues) {
		r.commit(r.e.Delete(r.now, []byte(q.name)))
	}
	for _, w := range r.ready { // copies that peeks have not collected
		r.e.Confirm(r.now, w.Read)
	}
	for _, read := range r.reads {
		r.e.Confirm(r.now, read.ref)
	}
	spoolAll(r.e)
	r.e.spool.tend()
	for _, name := range r.fsys.Paths() {
		if strings.HasSuffix(name, runs.Ext) {
			r.fail("%s is still there", name)
		}
	}
	if got := r.e.Stats().MemoryBytes; got != 0 {
		r.fail("%d bytes are in use without any queue", got)
	}
	if err := r.e.Close(); err != nil {
		r.fail("Close = %v", err)
	}
}
