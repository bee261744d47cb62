package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

func TestPut(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.0 first in, first out", `
			put q a
			put q b
			put q c
			get q -> a
			get q -> b
			get q -> c
			get q -> empty`},
		{"4.0 length and bytes count queued items, not open reads", `
			put q aaa
			put q bb
			open q r -> aaa
			stats q items bytes open -> 1 2 1`},
		{"4.4 a zero-byte item is legal", `
			put q x*0
			put q a
			get q -> ''
			get q -> a`},
		{"flags are kept, through a restart too", `
			put q a flags=7
			put q b flags=4294967295
			get q -> a flags=7
			restart
			get q -> b flags=4294967295`},
		{"4.4 step 5: an item of exactly max_item_size is accepted", `
			set q max_item_size=10
			put q x*10
			put q x*11 -> too large
			items q -> x*10`},
		{"4.4 step 7: full by items", `
			set q max_items=2
			put q a
			put q b
			put q c -> full
			get q -> a
			put q c
			items q -> b c`},
		{"4.4 step 7: bytes are tested before adding, and may exceed the limit by one item", `
			set q max_size=510
			put q x*256
			put q x*256
			put q x*256 -> full
			stats q items bytes -> 2 512`},
		{"4.4 step 7: a limit of no items refuses every put", `
			set q max_items=0
			put q a -> full`},
		{"4.4 step 7: discard the oldest when full by items", `
			set q max_items=2 discard
			put q a
			put q b
			put q c
			items q -> b c
			stats q discarded puts -> 1 3
			kill
			items q -> b c`},
		{"4.4 step 7: discard as many as it takes when full by bytes", `
			put q aa
			put q bb
			put q cc
			set q max_size=4 discard
			put q x*20
			put q dd
			items q -> dd
			stats q discarded -> 4`},
		{"4.4 step 7: a returned item is the first to be discarded", `
			set q max_items=2 discard
			put q a
			put q b
			open q r -> a
			put q c
			abort r
			put q d
			items q -> c d
			stats q discarded -> 2
			kill
			items q -> c d`},
		{"4.4 quirk: sweep before testing the limits", `
			set q max_items=2
			put q a expiry=+1s
			put q b expiry=+1s
			after 2s
			put q c
			items q -> c
			stats q expired -> 2`},
		{"4.4 the sweep of a put is limited by max_expire_sweep", `
			set q max_items=2 max_expire_sweep=1
			put q a expiry=+1s
			put q b expiry=+1s
			after 2s
			put q c
			items q -> b c`},
		{"4.4 quirk: expired items do not fill a queue, whatever max_expire_sweep", `
			set q max_items=3 max_expire_sweep=0
			put q a expiry=+1s
			put q b expiry=+1s
			put q c
			put q d -> full
			after 2s
			put q d
			items q -> b c d
			put q e
			put q f -> full
			items q -> c d e
			stats q expired -> 2`},
		{"4.4 expired items are not discarded, but expire", `
			set q max_items=2 max_expire_sweep=0 discard expire_to=p
			put q a expiry=+1s
			put q b
			after 2s
			put q c
			put q d
			items q -> c d
			items p -> a
			stats q expired -> 1
			stats q discarded -> 1`},
		{"4.4 refused puts are not counted", `
			set q max_items=1
			put q a
			put q b -> full
			stats q puts putbytes -> 1 1`},
		{"4.8 open reads count for no limit", `
			set q max_items=1
			put q a
			open q r -> a
			put q b
			abort r
			items q -> a b
			put q c -> full`},
		{"0.5.3 a put creates the queue, also one that is refused by its limits", `
			set q max_items=0
			queues ->
			put q a -> full
			queues -> q`},
		{"4.1 names are case-sensitive", `
			put q a
			put Q b
			queues -> Q q`},
		{"4.1 an illegal name", `
			put a.b x -> bad name
			get a/b/c -> bad name
			peek a~b -> bad name
			put + x -> bad name
			queues ->`},
		{"4.11 max_memory_size bounds memory, not the queue", `
			set q max_memory_size=10
			put q x*8
			put q x*3
			put q x*2
			get q -> x*8
			put q x*3
			items q -> xxx xx xxx`},
	})
}

func TestPutTooLarge(t *testing.T) {
	e, _ := newQuiet(t)
	data := make([]byte, MaxItemSize+1)
	if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: data}); err != ErrItemTooLarge {
		t.Errorf("Put of %d bytes = %v, want ErrItemTooLarge", len(data), err)
	}
	if _, ok := e.QueueStats(Now(), []byte("q")); ok {
		t.Error("a refused put made the queue")
	}
	ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: data[:MaxItemSize]})
	if err != nil {
		t.Fatalf("Put of %d bytes = %v", MaxItemSize, err)
	}
	mustCommit(t, e, ticket)
	if got := mustGet(t, e, "q"); len(got) != MaxItemSize {
		t.Errorf("got %d bytes, want %d", len(got), MaxItemSize)
	}
}

func TestPutCopiesData(t *testing.T) {
	e, fsys := newQuiet(t)
	data := []byte("item")
	ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	copy(data, "####")
	mustCommit(t, e, ticket)
	wantItems(t, e, "q", "item")
	wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "item")
}

func TestTooManyQueues(t *testing.T) {
	o := testOptions(nil)
	o.FS, o.MaxQueues = newFS(), 2
	e := openQuiet(t, o)
	mustPut(t, e, "a", "x")
	mustPut(t, e, "b", "x")
	if _, err := e.Put(Now(), []byte("c"), PutRequest{}); err != ErrTooManyQueues {
		t.Errorf("Put to a third queue = %v, want ErrTooManyQueues", err)
	}
	if _, err := e.Fetch(Now(), []byte("c"), FetchRequest{}, &copied{}); err != ErrTooManyQueues {
		t.Errorf("Fetch from a third queue = %v, want ErrTooManyQueues", err)
	}
	mustCommit(t, e, e.Delete(Now(), []byte("a")))
	mustPut(t, e, "c", "x")
	if s := e.Stats(); s.Queues != 2 || s.Created != 3 || s.Deleted != 1 {
		t.Errorf("Stats = %+v, want 2 queues, 3 created, 1 deleted", s)
	}
}

// TestPutAcrossChunks puts items of all sizes around those of chunks, and takes them out again with
// the queue filling and draining.
func TestPutAcrossChunks(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.Sync = SyncNever })
	var want []string
	for _, size := range []int{
		0, 1, item.MinChunkSize - 9, item.MinChunkSize - 8, item.MinChunkSize, // 9 bytes are a header of these
		4000, 5000, 70_000,
		item.MaxChunkSize - 11, item.MaxChunkSize - 10, item.MaxChunkSize, 300_000, // and 11 of these
	} {
		for i := range 3 {
			data := strings.Repeat(string(rune('a'+i)), size)
			mustPut(t, e, "q", data)
			want = append(want, data)
			verify(t, e)
		}
	}
	for i, data := range want {
		if got := mustGet(t, e, "q"); got != data {
			t.Fatalf("item %d has %d bytes, want %d", i, len(got), len(data))
		}
		verify(t, e)
	}
}

// largeData is the body of a large item.
func largeData() []byte { return bytes.Repeat([]byte("large item "), item.MaxChunkSize/11+100) }

// TestLargePutUnderLock tests that nothing of a large item is copied with a lock held. Its bytes change before the
// shard is locked, and yet the queue, its fanout children and the journal have them as they were.
//
// Its control is an of that always reports false.
func TestLargePutUnderLock(t *testing.T) {
	for _, children := range []int{0, 3} {
		t.Run(fmt.Sprint(children, " children"), func(t *testing.T) {
			e, _ := newQuiet(t)
			names := []string{"p"}
			for i := range children {
				names = append(names, fmt.Sprintf("p+%d", i))
				mustGet(t, e, names[i+1])
			}
			sh, now := e.shardOf([]byte("p")), Now()
			p := PutRequest{Data: largeData(), Flags: 7}
			l, err := e.prepare(sh, now, []byte("p"), &p)
			if err != nil {
				t.Fatal(err)
			}
			clear(p.Data)
			s := putPrepared(t, e, now, "p", p, l)
			if err := e.Commit(s.Ticket); err != nil {
				t.Fatal(err)
			}
			expectItems := func(e *Engine, when string) {
				for _, name := range names {
					var got copied
					if _, err := e.Fetch(Now(), []byte(name), FetchRequest{Access: Peek}, &got); err != nil {
						t.Errorf("%s: queue %s: %v", when, name, err)
					} else if it := got.item; it.Flags != 7 || !bytes.Equal(it.Data, largeData()) {
						t.Errorf("%s: queue %s has %d bytes that begin with %.20q", when, name, len(it.Data), it.Data)
					}
				}
			}
			expectItems(e, "before a restart")
			expectItems(kill(t, e), "after a restart")
		})
	}
}

// putPrepared puts p, whose image is in l.
func putPrepared(t *testing.T, e *Engine, now Time, name string, p PutRequest, l *largePut) (s Stored) {
	t.Helper()
	sh := e.shardOf([]byte(name))
	sh.mu.Lock()
	sh.large = l
	q, _, err := e.findOrCreate(sh, now, []byte(name))
	if err == nil {
		err = e.put(q, now, []PutRequest{p}, &s)
	}
	sh.large = nil
	e.unlock(sh, now)
	e.dropLarge(l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLargeExtraUnderLock is TestLargePutUnderLock of items with a delay, a key, or both, which may take the place of
// others. The queues have the memory of the frame that the journal writes.
//
// Its control is an IsFor that always reports false.
func TestLargeExtraUnderLock(t *testing.T) {
	key := []byte("k")
	for _, tt := range []struct {
		name     string
		extra    PutExtra
		puts     int // the last takes the place of the one before
		children int
	}{
		{"delayed", PutExtra{Delay: time.Second}, 1, 0},
		{"with a key", PutExtra{Key: key}, 1, 0},
		{"with a key, delayed", PutExtra{Key: key, Delay: time.Second}, 1, 0},
		{"in the place of another", PutExtra{Key: key}, 2, 0},
		{"in the place of another, delayed", PutExtra{Key: key, Delay: time.Second, OnDuplicate: OnlyReplace}, 2, 0},
		{"delayed, with children", PutExtra{Delay: time.Second}, 1, 3},
		{"with a key, with children", PutExtra{Key: key}, 1, 3},
		{"with a key, delayed, with children", PutExtra{Key: key, Delay: time.Second}, 1, 3},
		{"in the place of others, with children", PutExtra{Key: key}, 2, 3},
		{"in the place of others, delayed, with children", PutExtra{Key: key, Delay: time.Second}, 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHiding(t, newFS(), func(o *Options) { o.Settings.Default.MaxMemorySize, o.SegmentSize = 64<<20, 4<<20 })
			e, names := h.Engine, []string{"p"}
			for i := range tt.children {
				names = append(names, fmt.Sprintf("p+%d", i))
				mustGet(t, e, names[i+1])
			}
			if tt.puts > 1 {
				mustPutKey(t, e, "p", "first")
			}
			p := PutRequest{Data: largeData(), Flags: 7, Expiry: h.now + 60_000, Extra: &tt.extra}
			l, err := e.prepare(e.shardOf([]byte("p")), h.now, []byte("p"), &p)
			if err != nil {
				t.Fatal(err)
			}
			clear(p.Data)
			s := putPrepared(t, e, h.now, "p", p, l)
			if s.Replaced != tt.puts-1 {
				t.Errorf("the put took the place of %d items, want %d", s.Replaced, tt.puts-1)
			}
			if several := tt.puts > 1 && tt.children > 0; !several && !e.unwritten(t, l.frame.Image()) {
				t.Error("the journal has a copy of the item")
			}
			h.now = h.now.After(2 * time.Second)
			for i, when := range []string{"before", "after"} {
				for _, name := range names {
					var got aliased
					if _, err := h.Fetch(h.now, []byte(name), FetchRequest{Access: Peek}, &got); err != nil {
						t.Errorf("%s a kill: queue %s: %v", when, name, err)
						continue
					}
					if !bytes.Equal(got.data, largeData()) || string(got.item.Key()) != string(tt.extra.Key) {
						t.Errorf("%s a kill: queue %s has %d bytes that begin with %.20q, key %q", when, name, len(got.data), got.data, got.item.Key())
					}
					if i == 0 && !lies(got.data, l.frame.Image()) {
						t.Errorf("queue %s has a copy of the item", name)
					}
				}
				if i == 0 {
					mustCommit(t, e, s.Ticket)
					h.restart(false)
				}
			}
		})
	}
}

// TestLargeExtraRefused tests that a refused large item with a key or a delay leaves nothing in memory or in the
// journal. One of the keys is longer than an image can say.
func TestLargeExtraRefused(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) { o.MaxDelay = time.Minute })
	mustPut(t, e, "q", "x")
	if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("y"), Extra: &PutExtra{Key: []byte("k")}}); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	end, memory := e.journal.End(), e.memory.Load()
	for _, tt := range []struct {
		extra PutExtra
		want  error
	}{
		{PutExtra{Key: bytes.Repeat([]byte("k"), MaxKeySize+1)}, ErrBadKey},
		{PutExtra{Key: bytes.Repeat([]byte("k"), 256)}, ErrBadKey},
		{PutExtra{Key: []byte("a/b")}, ErrBadKey},
		{PutExtra{Key: []byte("k"), OnDuplicate: OnlyNew}, ErrKeyExists},
		{PutExtra{Key: []byte("other"), OnDuplicate: OnlyReplace}, ErrNoSuchItem},
		{PutExtra{Delay: time.Hour}, ErrDelayTooLong},
	} {
		if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: largeData(), Extra: &tt.extra}); !errors.Is(err, tt.want) {
			t.Errorf("a put with a key of %d bytes, delay %v = %v, want %v", len(tt.extra.Key), tt.extra.Delay, err, tt.want)
		}
	}
	e.opts.MemoryLimit = e.memory.Load() + int64(len(largeData()))
	if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: largeData(), Extra: &PutExtra{Key: []byte("k")}}); err != ErrOutOfMemory {
		t.Errorf("a put past the memory limit = %v, want %v", err, ErrOutOfMemory)
	}
	if e.journal.End() != end || e.memory.Load() != memory {
		t.Errorf("puts that were refused left %d bytes in the journal, and %d in memory", e.journal.End()-end, e.memory.Load()-memory)
	}
}

// TestLargeExtraMemory tests that a large item that many queues take is refused if it would count for more than the
// memory limit. What is aside, or takes the place of others, counts for each queue.
func TestLargeExtraMemory(t *testing.T) {
	const children = 20
	for _, x := range []PutExtra{{Delay: time.Minute}, {Key: []byte("k")}} {
		e := fanOut(t, testOptions(newFS(), func(o *QueueOptions) { o.Sync = SyncNever }), children)
		mustPutKey(t, e, "p", "first")
		mustCommit(t, e, Ticket{Written: e.journal.End()})
		e.opts.MemoryLimit = e.memory.Load() + 10*int64(len(largeData()))
		before := e.memory.Load()
		if _, err := e.Put(Now(), []byte("p"), PutRequest{Data: largeData(), Extra: &x}); err != ErrOutOfMemory {
			t.Errorf("%+v: a put = %v, want %v", x, err, ErrOutOfMemory)
		}
		if n := e.memory.Load() - before; n != 0 {
			t.Errorf("%+v: %d bytes are counted for a put that was refused", x, n)
		}
	}
}

// TestLargePutMemory tests that the memory of a large item counts once, however many queues have it. It counts until
// the last of them and the journal have no use for it, and a refused put gives it back.
func TestLargePutMemory(t *testing.T) {
	o := testOptions(newFS())
	o.MemoryLimit = 10 << 20
	e := openQuiet(t, o)
	const children = 100
	for i := range children {
		mustGet(t, e, fmt.Sprintf("p+%d", i))
	}
	if err := e.Commit(Ticket{Written: e.journal.End()}); err != nil {
		t.Fatal(err)
	}
	before := memoryBeyondQueues(e)
	data := make([]byte, 1<<20)
	put := func() Ticket {
		s, err := e.PutAll(Now(), []byte("p"), []PutRequest{{Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		return s.Ticket
	}
	expect := func(want int64, when string) {
		t.Helper()
		if got := memoryBeyondQueues(e) - before; got < want || got > want+1<<13 {
			t.Errorf("%d bytes are counted %s, want about %d", got, when, want)
		}
	}
	take := func(name string) {
		var got copied
		if _, err := e.Fetch(Now(), []byte(name), FetchRequest{}, &got); err != nil || len(got.item.Data) != len(data) {
			t.Errorf("queue %s has an item of %d bytes, %v", name, len(got.item.Data), err)
		}
	}
	commit := func(ticket Ticket) {
		if err := e.Commit(ticket); err != nil {
			t.Fatal(err)
		}
	}
	commit(put())
	expect(1<<20, fmt.Sprint("of an item in ", children+1, " queues"))
	for i := range children {
		take(fmt.Sprintf("p+%d", i))
	}
	expect(1<<20, "when one queue has the item")
	take("p")
	expect(0, "when nobody has the item")
	ticket := put()
	for i := range children {
		take(fmt.Sprintf("p+%d", i))
	}
	take("p")
	if got := memoryBeyondQueues(e) - before; got < 1<<20 {
		t.Errorf("%d bytes are counted while the journal has the item", got)
	}
	commit(ticket)
	commit(Ticket{Written: e.journal.End()})
	expect(0, "when the journal is written")
	if _, err := e.Put(Now(), []byte("p"), PutRequest{Data: make([]byte, 11<<20)}); err != ErrOutOfMemory {
		t.Errorf("Put of more than the limit = %v, want ErrOutOfMemory", err)
	}
	if _, err := e.Put(Now(), []byte(".bad"), PutRequest{Data: data}); err == nil {
		t.Errorf("Put to a queue with a bad name succeeds")
	}
	expect(0, "behind puts that were refused")
}

// TestLargePutYields tests that a put of a large item lets others have the processor each time it has copied 256 KiB.
// Fetches of other queues go on meanwhile, and the item is whole.
func TestLargePutYields(t *testing.T) {
	for _, extra := range []*PutExtra{nil, {Key: []byte("k")}} {
		pieces := 0
		var e *Engine
		o := testOptions(newFS())
		o.yield = func() {
			pieces++
			if got := mustGet(t, e, "other"); got != "x" {
				t.Errorf("another queue has %q", got)
			}
			mustPut(t, e, "other", "x")
		}
		e = openQuiet(t, o)
		mustPut(t, e, "other", "x")
		data := bytes.Repeat([]byte("0123456789abcdef"), 2<<20/16)
		if _, err := e.Put(Now(), []byte("q"), PutRequest{Data: data, Extra: extra}); err != nil {
			t.Fatal(err)
		}
		if want := len(data)>>18 - 1; pieces < want {
			t.Errorf("a put of %d bytes lets others in %d times, want %d", len(data), pieces, want)
		}
		if got := mustGet(t, e, "q"); got != string(data) {
			t.Errorf("%d bytes come back of %d", len(got), len(data))
		}
	}
}

// TestPutAllOfOneSlice: a caller may put the same bytes several times, with other flags. Each put that queues share has
// an image of its own, in memory and in the journal.
func TestPutAllOfOneSlice(t *testing.T) {
	const children = 20
	e, _ := newQuiet(t)
	for i := range children {
		mustGet(t, e, fmt.Sprint("p+", i))
	}
	data := bytes.Repeat([]byte("x"), 2*maxFanned/children)
	puts := []PutRequest{{Data: data, Flags: 1}, {Data: data, Flags: 2}, {Data: data[:len(data)-1], Flags: 3}}
	s, err := e.PutAll(Now(), []byte("p"), puts)
	if err != nil || s.Count != len(puts) {
		t.Fatalf("PutAll = %+v, %v", s, err)
	}
	mustCommit(t, e, s.Ticket)
	for _, e := range []*Engine{e, kill(t, e)} {
		for _, name := range []string{"p", "p+0"} {
			items := contents(e, name, true)
			if len(items) != len(puts) {
				t.Fatalf("%s has %d items, want %d", name, len(items), len(puts))
			}
			for i, it := range items {
				if it.Flags != puts[i].Flags || len(it.Data) != len(puts[i].Data) {
					t.Errorf("%s: item %d has flags %d and %d bytes", name, i, it.Flags, len(it.Data))
				}
			}
		}
	}
}
