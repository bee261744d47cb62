package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// journalBytes is how many bytes of records the journal holds.
func journalBytes(e *Engine) (n int64) {
	for _, s := range e.journal.Segments() {
		n += int64(s.End - s.Base)
	}
	return n
}

// bound has the journal be bounded, as maintain and the spool would.
func bound(t *testing.T, e *Engine) {
	t.Helper()
	for range 4 {
		e.boundJournal()
		spoolSome(e, 1000)
		e.spool.tend()
		spoolSome(e, 1000)
		if err := e.trimJournal(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJournalBound has queues that each hold the oldest segments in another way, while others go on. The journal stays
// near its size, and a kill finds everything.
//
// Its control is that without boundJournal the journal grows.
func TestJournalBound(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		o := testOptions(newFS())
		o.JournalSize, o.SegmentSize = 64<<10, 8<<10
		e := openQuiet(t, o)
		want := make(map[string][]string)
		put := func(name, data string) {
			mustPut(t, e, name, data)
			want[name] = append(want[name], data)
		}
		for i := range 20 { // many queues of one old item
			put(fmt.Sprint("few", i), fmt.Sprint("old item ", i))
		}
		put("open", "held by an open read") // … an open read
		ref, _ := mustOpen(t, e, "open")
		for i := range 100 { // … a queue of many
			put("many", fmt.Sprintf("%d%s", i, strings.Repeat("x", 1000)))
		}
		for i := range 500 { // … and one that goes on
			mustPut(t, e, "busy", strings.Repeat("y", 1000))
			mustGet(t, e, "busy")
			if i%25 == 0 && bounded {
				bound(t, e)
			}
		}
		if n := journalBytes(e); (n <= 2*o.JournalSize) != bounded {
			t.Errorf("bounded %t: the journal has %d bytes, its size is %d", bounded, n, o.JournalSize)
		}
		if !bounded {
			continue
		}
		if left := runFiles(e.opts.FS.(interface{ Paths() []string })); len(left) > 2 {
			t.Errorf("runs are %q, want one for the queue of many", left)
		}
		again := kill(t, e)
		for name, items := range want {
			if got := drain(t, again, name); !slices.Equal(got, items) {
				t.Errorf("after a kill queue %q holds %d items, want %d", name, len(got), len(items))
			}
		}
		mustCommitted(t, e)(e.Confirm(0, ref))
		again = kill(t, e)
		if got := drain(t, again, "open"); len(got) > 0 {
			t.Errorf("what was rewritten and then confirmed is back: %q", got)
		}
	}
}

// TestJournalOfManyQueues has queues of a few items each that hold more together than the journal's size. It grows,
// rather than that each makes a file, and shrinks again when they are drained.
//
// Its control is a tinyGrowth of 1.
func TestJournalOfManyQueues(t *testing.T) {
	o := testOptions(newFS())
	o.JournalSize, o.SegmentSize = 64<<10, 8<<10
	e := openQuiet(t, o)
	const queues, items = 100, 10
	body := func(i int) string { return fmt.Sprint(i, strings.Repeat("x", 100)) }
	for i := range items {
		for q := range queues {
			mustPut(t, e, fmt.Sprint("q", q), body(i))
		}
		bound(t, e)
	}
	for range 3000 { // time goes by
		mustPut(t, e, "busy", strings.Repeat("y", 1000))
		mustGet(t, e, "busy")
		if journalBytes(e)/o.SegmentSize%8 == 0 {
			bound(t, e)
		}
	}
	bound(t, e)
	if left := runFiles(e.opts.FS.(interface{ Paths() []string })); len(left) > 0 {
		t.Errorf("%d queues of %d items have made %d runs", queues, items, len(left))
	}
	live := int64(queues * items * (len(body(0)) + item.PlainImageSize))
	if n := journalBytes(e); n > rewriteShare*live+2*o.JournalSize {
		t.Errorf("the journal has %d bytes for %d of items", n, live)
	}
	e = kill(t, e)
	for q := range queues {
		if got := drain(t, e, fmt.Sprint("q", q)); len(got) != items || got[0] != body(0) {
			t.Fatalf("after a kill queue %d holds %d items", q, len(got))
		}
	}
	bound(t, e)
	if n := journalBytes(e); n > o.JournalSize {
		t.Errorf("the journal has %d bytes for nothing", n)
	}
}

// TestRemovalOfRewritten tests that a removal stands behind the record that rewrites the item. That must hold even if
// the same buffer has an earlier record of removals that could take it in.
func TestRemovalOfRewritten(t *testing.T) {
	e, _ := newQuiet(t)
	for _, data := range []string{"a", "b", "c"} {
		mustPut(t, e, "q", data)
	}
	first, _ := mustOpen(t, e, "q")
	second, _ := mustOpen(t, e, "q")
	e.Confirm(Now(), first)
	sh := e.shardOf([]byte("q"))
	sh.mu.Lock()
	e.keepOldReads(sh.queues["q"], &trim.Plan{Target: math.MaxUint64, Left: 1 << 20}, &readCursor{})
	sh.mu.Unlock()
	mustCommitted(t, e)(e.Confirm(Now(), second))
	wantItems(t, kill(t, e), "q", "c")
}

// TestRemovalOfOverwritten is TestRemovalOfRewritten of an item that another one takes the place of.
func TestRemovalOfOverwritten(t *testing.T) {
	e, _ := newQuiet(t)
	put := PutRequest{Data: []byte("old"), Extra: &PutExtra{Key: []byte("k")}}
	for _, p := range []PutRequest{{Data: []byte("a")}, put, {Data: []byte("c")}} {
		ticket, err := e.Put(Now(), []byte("q"), p)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	first, _ := mustOpen(t, e, "q")
	e.Confirm(Now(), first)
	put.Data = []byte("new")
	if _, err := e.Put(Now(), []byte("q"), put); err != nil {
		t.Fatal(err)
	}
	if got := mustGet(t, e, "q"); got != "new" {
		t.Fatalf("got %q", got)
	}
	wantItems(t, kill(t, e), "q", "c")
}

// TestMemoryLimitSpills: from three quarters of the limit on, the largest queues spill, and puts go
// on far past it.
func TestMemoryLimitSpills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openBusy(t, func(o *Options) {
			o.MemoryLimit, o.SegmentSize, o.JournalSize = 4<<20, 1<<20, 64<<20
			o.Settings.Default.Sync = SyncNever
		})
		data := strings.Repeat("x", 10_000)
		for i := range 2000 { // 20 MB
			name := fmt.Appendf(nil, "q%d", i%3)
			_, err := e.Put(Now(), name, PutRequest{Data: []byte(data)})
			for tries := 0; err == ErrOutOfMemory && tries < 10; tries++ { // spilling takes its time
				after(relieveInterval)
				_, err = e.Put(Now(), name, PutRequest{Data: []byte(data)})
			}
			if err != nil {
				t.Fatalf("put %d = %v", i, err)
			}
			if i%50 == 0 {
				after(relieveInterval)
			}
		}
		if s := e.Stats(); s.MemoryBytes > s.MemoryLimit {
			t.Errorf("%d bytes are in use, the limit is %d", s.MemoryBytes, s.MemoryLimit)
		}
		for i := range 3 {
			if s, _ := e.QueueStats(Now(), fmt.Append(nil, "q", i)); s.Items < 666 || !s.ReadBehind {
				t.Errorf("queue %d has %d items, read-behind %t", i, s.Items, s.ReadBehind)
			}
		}
	})
}

// TestAccount counts memory of others against the limit.
func TestAccount(t *testing.T) {
	e, _ := newQuiet(t)
	mustGet(t, e, "q") // makes it
	e.opts.MemoryLimit = e.memory.Load() + 1000
	e.Account(900)
	big := PutRequest{Data: make([]byte, 101)}
	if _, err := e.Put(Now(), []byte("q"), big); err != ErrOutOfMemory {
		t.Errorf("Put past the limit = %v, want ErrOutOfMemory", err)
	}
	e.Account(200) // was taken already: it cannot be refused
	if _, err := e.Put(Now(), []byte("q"), PutRequest{}); err != ErrOutOfMemory {
		t.Errorf("Put of nothing past the limit = %v, want ErrOutOfMemory", err)
	}
	e.Account(-1100)
	mustPut(t, e, "q", string(big.Data))
	drain(t, e, "q")
}

// spaceFS is a file system on a disk with so much room.
type spaceFS struct {
	*hookFS
	free  atomic.Int64 // bytes, as is total
	total int64
}

func (f *spaceFS) Space(string) (free, total int64, err error) { return f.free.Load(), f.total, nil }

// TestDiskReserve: below the reserve puts are refused, gets go on, and service returns by itself.
func TestDiskReserve(t *testing.T) {
	fsys := &spaceFS{hookFS: &hookFS{FS: newFS()}, total: 100 << 30}
	fsys.free.Store(60 << 30)
	e := openQuiet(t, testOptions(fsys))
	mustPut(t, e, "q", "a")
	for _, tt := range []struct {
		free int64
		want error
	}{
		{5 << 30, nil}, {5<<30 - 1, ErrOutOfDisk}, {5<<30 + 1<<29, ErrOutOfDisk}, {6 << 30, nil},
	} {
		fsys.free.Store(tt.free)
		e.measureDisk()
		if err := tryPut(e, "q", "b"); err != tt.want {
			t.Errorf("with %d bytes free Put = %v, want %v", tt.free, err, tt.want)
		}
		if got := e.Stats().DiskFull; got != (tt.want != nil) {
			t.Errorf("with %d bytes free DiskFull = %t", tt.free, got)
		}
		if s := e.Stats(); s.DiskFree != tt.free || s.DiskReserve != 5<<30 {
			t.Errorf("with %d bytes free DiskFree = %d, DiskReserve = %d", tt.free, s.DiskFree, s.DiskReserve)
		}
	}
	wantItems(t, e, "q", "a b b")
	fsys.free.Store(0)
	e.measureDisk()
	if got := drain(t, e, "q"); len(got) != 3 {
		t.Errorf("with no room %d items are served, want 3", len(got))
	}
}

// TestDiskReserveInTime tests that an engine on a disk without room refuses puts from the start. If the disk fills up
// later, the engine does so within a tenth of a second, before a quick disk can use up the reserve.
func TestDiskReserveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &spaceFS{hookFS: &hookFS{FS: newFS()}, total: 100 << 30}
		fsys.free.Store(1 << 30)
		e, err := Open(testOptions(fsys))
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, e)
		if err := tryPut(e, "q", "a"); err != ErrOutOfDisk {
			t.Errorf("Put right after a start on a full disk = %v, want %v", err, ErrOutOfDisk)
		}
		for _, tt := range []struct {
			free int64
			want error
		}{{60 << 30, nil}, {1 << 30, ErrOutOfDisk}} {
			synctest.Wait()
			fsys.free.Store(tt.free)
			after(maintainInterval)
			if err := tryPut(e, "q", "a"); err != tt.want {
				t.Errorf("with %d bytes free Put = %v, want %v", tt.free, err, tt.want)
			}
		}
	})
}

// TestDiskAfterDrain drains a backlog and looks, after the background has had its turns, at what is left on the disk.
// It is no more than 1.2 times what is live, and one journal.
//
// Its control is a minRunSize ten times as large.
func TestDiskAfterDrain(t *testing.T) {
	const size = 8 << 10
	items := sampled(2500, 5000)
	o := testOptions(newFS(), func(q *QueueOptions) { q.MaxMemorySize = 1 << 20 })
	o.JournalSize = 8 << 20
	e := openQuiet(t, o)
	fsys := e.opts.FS.(*segmenttest.FS)
	for i := range items {
		mustPut(t, e, "q", fmt.Sprintf("%0*d", size, i))
		if i%100 == 0 {
			spoolSome(e, 1000)
			bound(t, e)
		}
	}
	onDisk := func() (n int64) {
		for _, name := range fsys.Paths() {
			b, err := fsys.Bytes(name)
			if err != nil {
				t.Fatal(err)
			}
			n += int64(len(b))
		}
		return n
	}
	if n := onDisk(); n < int64(size*items) {
		t.Fatalf("%d bytes are on disk for %d of items: nothing to see", n, size*items)
	}
	for left := items; left > 0; {
		for range min(items/20, left) {
			mustGet(t, e, "q")
			left--
		}
		for range 3 {
			bound(t, e)
		}
		if n, most := onDisk(), int64(left*size*12/10)+o.JournalSize; n > most {
			t.Errorf("%d items are left and %d bytes on disk, want %d at most", left, n, most)
		}
	}
}
