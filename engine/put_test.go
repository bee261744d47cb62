package engine

import (
	"strings"
	"testing"

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
