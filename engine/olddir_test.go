package engine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

// The folder testdata/olddir is a data directory from an earlier build. It has a journal with items, open reads and
// fanout children, and backlogs in runs of every kind that that build wrote.
var makeOldDir = flag.String("make-olddir", "", "write the directory of TestOldDirectory, as this build has it, into this one")

const (
	oldAdded  = Time(1_700_000_000_000)
	oldExpiry = Time(4_000_000_000_000) // in the year 2096
)

// oldQueue is what one queue of the directory holds: items by number, of which the first few are gone.
type oldQueue struct {
	name        string
	items, size int
	memory      int64 // bytes in memory; zero for the default
	gone        int
	codec       segment.Codec
	cached      bool // the runs go through the page cache
}

// oldQueues are in the order in which the directory was filled. Each began with a start of the engine.
var oldQueues = []oldQueue{
	{name: "plain", items: 40, size: 30, gone: 7},
	{name: "parent+child", items: 0},
	{name: "parent", items: 12, size: 20},
	{name: "direct", items: 20, size: 400, memory: 2000, gone: 3},
	{name: "cached", items: 20, size: 400, memory: 2000, gone: 8, cached: true},
	{name: "s2", items: 60, size: 500, memory: 4000, gone: 20, codec: segment.CodecS2},
	{name: "zstd", items: 60, size: 500, memory: 4000, codec: segment.CodecZstd, cached: true},
}

// oldItem is the item of a number.
func oldItem(q oldQueue, i int) Item {
	it := Item{Data: make([]byte, q.size), Added: oldAdded + Time(i)}
	for n := copy(it.Data, fmt.Sprintf("%s %d ", q.name, i)); n < len(it.Data); {
		n += copy(it.Data[n:], it.Data[:n])
	}
	if i%3 == 0 {
		it.Flags = uint32(i) + 1
	}
	if i%4 == 1 {
		it.Expiry = oldExpiry + Time(i)
	}
	return it
}

// oldOptions are those of the engine that has q in the directory.
func oldOptions(dir string, q oldQueue) Options {
	o := Options{
		Dir: dir, SegmentSize: 8 << 10, JournalSize: 16 << 10, MemoryLimit: testMemory, BacklogCompression: q.codec,
		BacklogCached: q.cached, directFrom: 1, Settings: Settings{Default: DefaultQueueOptions()},
	}
	o.Settings.Queues = map[string]QueueOptions{}
	for _, q := range oldQueues {
		if q.memory > 0 {
			opts := o.Settings.Default
			opts.MaxMemorySize = q.memory
			o.Settings.Queues[q.name] = opts
		}
	}
	return o
}

// fillOldDirectory makes the directory.
func fillOldDirectory(t *testing.T, dir string) {
	for _, q := range oldQueues {
		e, err := open(oldOptions(dir, q))
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := e.Create(oldAdded, []byte(q.name))
		mustCommit(t, e, ticket)
		for i := range q.items {
			it := oldItem(q, i)
			ticket, putErr := e.Put(it.Added, []byte(q.name), PutRequest{Data: it.Data, Flags: it.Flags, Expiry: it.Expiry})
			if mustCommit(t, e, ticket); putErr != nil || err != nil {
				t.Fatal(err, putErr)
			}
		}
		for range q.gone {
			spoolAll(e)
			mustGet(t, e, q.name)
		}
		if q.items > 0 { // two reads stay open, and one that was opened between them is gone
			spoolAll(e)
			mustOpen(t, e, q.name)
			ref, _ := mustOpen(t, e, q.name)
			mustOpen(t, e, q.name)
			confirmed, _ := e.Confirm(oldAdded, ref)
			mustCommit(t, e, confirmed)
		}
		for range 3 { // what the background does once a second: runs are recorded, old segments go
			e.spool.tend()
			spoolAll(e)
			e.boundJournal()
			if err := e.trimJournal(); err != nil {
				t.Fatal(err)
			}
		}
		verify(t, e)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOldDirectory opens the data directory of an earlier build, and takes all that is in it.
func TestOldDirectory(t *testing.T) {
	if *makeOldDir != "" {
		fillOldDirectory(t, *makeOldDir)
		return
	}
	for _, name := range []string{"olddir", "as this build writes it"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if name != "olddir" {
				fillOldDirectory(t, dir)
			} else if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "backlog", "*.run"))
			if err != nil || len(files) < 4 {
				t.Fatalf("the directory has the runs %q (%v), want one at least for each of four backlogs", files, err)
			}
			e := openQuiet(t, oldOptions(dir, oldQueue{}))
			if withheld := e.Withheld(); len(withheld) > 0 {
				t.Fatalf("queues are withheld: %v", withheld)
			}
			for _, q := range oldQueues {
				wantOldQueue(t, e, q)
			}
			spoolAll(e)
			verify(t, e)
		})
	}
}

// wantOldQueue takes all items of a queue and compares them.
func wantOldQueue(t *testing.T, e *Engine, q oldQueue) {
	t.Helper()
	as := q
	if q.name == "parent+child" { // it has what was put to its parent, none of which is gone
		as = oldQueues[slices.IndexFunc(oldQueues, func(q oldQueue) bool { return q.name == "parent" })]
	}
	for i := as.gone; i < as.items; i++ {
		if i == as.gone+1 && as.name == q.name {
			continue // confirmed
		}
		want := oldItem(as, i)
		var got copied
		f, err := e.Fetch(oldAdded, []byte(q.name), FetchRequest{}, &got)
		for ; err == ErrComing; f, err = e.Fetch(oldAdded, []byte(q.name), FetchRequest{}, &got) {
			spoolAll(e)
		}
		if err != nil {
			t.Fatalf("item %d of queue %q: %v", i, q.name, err)
		}
		mustCommit(t, e, f.Ticket)
		g := got.item
		if string(g.Data) != string(want.Data) || g.Flags != want.Flags || g.Expiry != want.Expiry || g.Added != want.Added {
			t.Fatalf("item %d of queue %q is %.20q, flags %d, added %d, expires %d, want %.20q, %d, %d, %d", i, q.name,
				g.Data, g.Flags, g.Added, g.Expiry, want.Data, want.Flags, want.Added, want.Expiry)
		}
	}
	if more, ok := tryGet(t, e, q.name); ok {
		t.Errorf("queue %q holds %.20q behind the last item", q.name, strings.TrimSpace(more))
	}
}
