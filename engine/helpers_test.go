package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

const testDir = "data"

// testMemory is the memory limit of engines on small file systems. To ask the machine for the default
// takes as long as a small test.
const testMemory = 1 << 30

// testOptions are those of an engine on fsys that rotates its journal often.
func testOptions(fsys segment.FS, change ...func(*QueueOptions)) Options {
	o := Options{
		Dir: testDir, FS: fsys, Shards: 4, SegmentSize: 4096, MemoryLimit: testMemory,
		Settings: Settings{Default: DefaultQueueOptions()},
	}
	for _, f := range change {
		f(&o.Settings.Default)
	}
	return o
}

// openQuiet opens an engine without background work, so that nothing happens but what the test
// does.
func openQuiet(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, e)
	return e
}

// newQuiet is openQuiet on a new file system.
func newQuiet(t testing.TB, change ...func(*QueueOptions)) (*Engine, *segmenttest.FS) {
	t.Helper()
	fsys := segmenttest.New()
	return openQuiet(t, testOptions(fsys, change...)), fsys
}

// kill returns the engine that finds what the death of e's process would leave now.
func kill(t *testing.T, e *Engine) *Engine {
	t.Helper()
	return openQuiet(t, testOptions(e.opts.FS.(*segmenttest.FS).Kill()))
}

// closeAtEnd verifies and closes e when the test ends, unless the test has closed it.
func closeAtEnd(t testing.TB, e *Engine) {
	t.Cleanup(func() {
		verify(t, e)
		if err := e.Close(); err != nil && !errors.Is(err, ErrClosed) && !t.Failed() {
			t.Errorf("Close = %v", err)
		}
	})
}

func verify(t testing.TB, e *Engine) {
	t.Helper()
	if err := e.Verify(); err != nil {
		t.Fatalf("Verify = %v", err)
	}
}

// mustPut puts and commits, at an instant that leaves room for expiries in the past.
func mustPut(t testing.TB, e *Engine, name, data string) {
	t.Helper()
	ticket, err := e.Put(Now(), []byte(name), PutRequest{Data: []byte(data)})
	if err == nil {
		err = e.Commit(ticket)
	}
	if err != nil {
		t.Fatalf("Put(%q, %.20q) = %v", name, data, err)
	}
}

// mustGet takes and commits, and returns the data; "" if the queue is empty.
func mustGet(t testing.TB, e *Engine, name string) string {
	t.Helper()
	data, _ := tryGet(t, e, name)
	return data
}

func tryGet(t testing.TB, e *Engine, name string) (data string, ok bool) {
	t.Helper()
	var got copied
	f, err := e.Fetch(Now(), []byte(name), FetchRequest{}, &got)
	for ; err == ErrComing; f, err = e.Fetch(Now(), []byte(name), FetchRequest{}, &got) {
		spoolAll(e)
	}
	if err == nil {
		err = e.Commit(f.Ticket)
	}
	if err != nil && err != ErrEmpty {
		t.Fatalf("Fetch(%q) = %v", name, err)
	}
	return string(got.item.Data), err == nil
}

// mustOpen fetches tentatively.
func mustOpen(t testing.TB, e *Engine, name string) (ReadRef, string) {
	t.Helper()
	var got copied
	f, err := e.Fetch(Now(), []byte(name), FetchRequest{Access: OpenRead}, &got)
	for ; err == ErrComing; f, err = e.Fetch(Now(), []byte(name), FetchRequest{Access: OpenRead}, &got) {
		spoolAll(e)
	}
	if err != nil {
		t.Fatalf("Fetch(%q) = %v", name, err)
	}
	return f.Read, string(got.item.Data)
}

// unwritten returns the records that have gathered in the journal's buffer.
func unwritten(e *Engine) (records []byte) {
	none := func() error { return nil }
	e.journal.Inspect(none, func(batch []byte) error {
		records = append(records, batch...)
		return nil
	})
	return records
}

// clearNow flushes a queue whose shard is locked.
func clearNow(e *Engine, q *queue) rubbish {
	s := &marks.Staying{}
	q.flushes = append(q.flushes, s)
	at := readCursor{}
	for at.look(q, s, readBatch) {
	}
	return e.clear(q, s)
}

// idsAside returns the ids of the items aside in the states wanted.
func (q *queue) idsAside(wanted func(aside.State) bool) (ids []uint64) {
	for id := range q.asideIDs() {
		if r, _ := q.aside.Find(id); wanted(q.aside.State(r)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// mustCommit commits t.
func mustCommit(t testing.TB, e *Engine, ticket Ticket) {
	t.Helper()
	if err := e.Commit(ticket); err != nil {
		t.Fatalf("Commit = %v", err)
	}
}

// queued returns the data of the items of a queue that are not open, in the order they will come.
func queued(e *Engine, name string) []string {
	var all []string
	for _, it := range contents(e, name, false) {
		all = append(all, string(it.Data))
	}
	return all
}

// readsByID returns the reads that hold items of the queue, lowest id first.
func (q *queue) readsByID() []*read {
	var reads []*read
	for _, list := range [...]*readList{&q.returned, &q.open, &q.moving} {
		for r := list.First(); r != nil; r = r.link.Next() {
			reads = append(reads, r)
		}
	}
	slices.SortFunc(reads, func(a, b *read) int { return cmp.Compare(a.item.ID, b.item.ID) })
	return reads
}

// contents returns copies of the items of a queue in the order they will come; with open ones, by
// id.
func contents(e *Engine, name string, withOpen bool) (all []Item) {
	sh := e.shardOf([]byte(name))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.queues[name]
	if q == nil {
		return nil
	}
	add := func(it Item) bool {
		all = append(all, it.Clone())
		return true
	}
	if withOpen {
		early := q.readsByID()
		for _, id := range q.idsAside(func(s aside.State) bool { return s == aside.Restored }) {
			r, _ := q.aside.Find(id)
			early = append(early, &read{item: q.aside.Item(r)})
		}
		slices.SortFunc(early, func(a, b *read) int { return cmp.Compare(a.item.ID, b.item.ID) })
		for _, r := range early {
			add(r.item)
		}
	} else {
		for r := q.returned.First(); r != nil; r = r.link.Next() {
			add(r.item)
		}
	}
	var ready []uint64
	if q.aside != nil && !withOpen {
		ready = q.idsAside(func(s aside.State) bool { return s >= aside.Ready })
		slices.Sort(ready)
	}
	addOne := add
	add = func(it Item) bool { // those aside that come before it
		for len(ready) > 0 && ready[0] < it.ID {
			r, _ := q.aside.Find(ready[0])
			addOne(q.aside.Item(r))
			ready = ready[1:]
		}
		return it.ID == math.MaxUint64 || addOne(it)
	}
	defer add(Item{ID: math.MaxUint64})
	q.window.Each(add)
	if b := q.backlog; b != nil {
		for _, it := range onDisk(e, b) {
			add(it)
		}
		b.leaving.Each(add)
		b.recent.Each(add)
	}
	return all
}

// hiddenEntries reads the items of hidden runs of a queue that are on disk alone, changing nothing.
func hiddenEntries(e *Engine, q *queue) map[uint64]hidden.Entry {
	e.spool.readMu.Lock()
	defer e.spool.readMu.Unlock()
	all := make(map[uint64]hidden.Entry)
	if q.aside == nil {
		return all
	}
	err := e.spool.hiddenReader.EachOnDisk(&q.aside.hidden.Set, func(e hidden.Entry) bool {
		all[e.ID] = e
		return true
	})
	if err != nil {
		panic(err)
	}
	return all
}

// onDisk reads the items of a backlog that are on disk alone, changing nothing.
func onDisk(e *Engine, b *backlog) (all []Item) {
	err := e.spool.eachOnDisk(b, func(it Item) bool {
		all = append(all, it.Clone())
		return true
	})
	if err != nil {
		panic(err)
	}
	return all
}

// spoolAll does what the spool has to do, and fills every window, of an engine without background
// work.
func spoolAll(e *Engine) {
	e.spool.each(func(q *queue, b *backlog) { e.wantFill(q) })
	spoolSome(e, 1<<30)
}

// spoolSome does up to n of the things that the spool has to do, and reports whether that was all.
func spoolSome(e *Engine, n int) bool {
	for range n {
		if q := e.spool.spills.Take(); q != nil {
			e.spool.spill(q)
			if e.spool.failing.Load() {
				return false
			}
		} else if q := e.spool.hides.Take(); q != nil {
			e.spool.hide(q)
			if e.spool.hideFailing.Load() {
				return false
			}
		} else if q := e.spool.records.Take(); q != nil {
			e.spool.recordAndThin(q)
			if e.spool.failing.Load() {
				return false
			}
		} else if q := e.spool.fills.Take(); q != nil {
			e.spool.fill(q)
		} else {
			return true
		}
	}
	return false
}

// wantItems fails the test unless the queue holds the items of want, which are words, in that order.
func wantItems(t testing.TB, e *Engine, name, want string) {
	t.Helper()
	if got := strings.Join(queued(e, name), " "); got != want {
		t.Errorf("queue %q holds %q, want %q", name, got, want)
	}
}

// drain takes everything out of a queue.
func drain(t testing.TB, e *Engine, name string) (all []string) {
	t.Helper()
	for {
		data, ok := tryGet(t, e, name)
		if !ok {
			return all
		}
		all = append(all, data)
	}
}

func newFS() *segmenttest.FS { return segmenttest.New() }

// nameInOtherShard is the name of a queue that another lock guards than the one called name.
func nameInOtherShard(e *Engine, name string) string {
	for i := 0; ; i++ {
		other := fmt.Sprint("other", i)
		if e.shardOf([]byte(other)) != e.shardOf([]byte(name)) {
			return other
		}
	}
}

// mustCommitted returns a function that commits what Confirm or Collect return.
func mustCommitted(t testing.TB, e *Engine) func(Ticket, bool) {
	return func(ticket Ticket, ok bool) {
		t.Helper()
		if !ok {
			t.Fatal("the read has ended")
		}
		mustCommit(t, e, ticket)
	}
}

// memoryBeyondQueues is what the ledger says that is not for queues themselves.
func memoryBeyondQueues(e *Engine) int64 {
	n := e.Stats().MemoryBytes
	e.eachQueue(func(q *queue) { n -= q.memory() })
	return n
}
