package engine

import (
	"fmt"
	"strings"
	"testing"
)

func TestOpenReads(t *testing.T) {
	runScripts(t, []scriptTest{
		{"4.8 confirm removes for good", `
			put q a
			open q r -> a
			items q ->
			confirm r
			stats q items open -> 0 0
			kill
			items q ->`},
		{"4.8 abort brings back to the head", `
			put q a
			put q b
			open q r -> a
			abort r
			stats q items open returns -> 2 0 1
			get q -> a
			get q -> b`},
		{"4.8 a read ends once", `
			put q a
			open q r -> a
			confirm r
			confirm r -> ended
			abort r -> ended
			put q b
			open q s -> b
			abort s
			abort s -> ended
			confirm s -> ended
			items q -> b`},
		{"a stale name of a read does not reach the next opening of the item", `
			put q a
			open q r -> a
			abort r
			open q s -> a
			confirm r -> ended
			abort r -> ended
			confirm s`},
		{"aborting the newest first restores the order", `
			put q a
			put q b
			put q c
			open q r -> a
			open q s -> b
			abort s
			abort r
			items q -> a b c`},
		{"aborts in another order come back in that order, and by id after a restart", `
			put q a
			put q b
			put q c
			open q r -> a
			open q s -> b
			abort r
			abort s
			items q -> b a c
			kill
			items q -> a b c`},
		{"4.8 restart: every open read is back in order", `
			put q one
			put q two
			put q three
			put q four
			put q five
			open q r1 -> one
			open q r2 -> two
			open q r3 -> three
			open q r4 -> four
			confirm r2
			confirm r4
			kill
			items q -> one three five
			stats q open -> 0
			restart
			items q -> one three five`},
		{"4.8 a clean shutdown treats open reads like a crash", `
			put q a
			put q b
			open q r -> a
			restart
			items q -> a b
			confirm r -> ended`},
		{"4.8 limits do not apply to what comes back", `
			set q max_items=1 max_size=1
			put q a
			open q r -> a
			put q b
			abort r
			items q -> a b`},
		{"confirms out of order, in one batch and in several", `
			put q a
			put q b
			put q c
			put q d
			put q e
			open q ra -> a
			open q rb -> b
			open q rc -> c
			open q rd -> d
			confirm rd
			confirm rb
			confirm rc
			kill
			items q -> a e`},
		{"4.8 overdue reads come back by themselves, oldest first", `
			set q timeout=5s
			put q a
			put q b
			put q c
			open q ra -> a
			after 2s
			open q rb -> b
			after 1s
			open q rc -> c
			after 1s
			overdue
			items q ->
			after 1s
			overdue
			items q -> a
			after 10s
			overdue
			items q -> b c a
			stats q returns -> 3
			confirm ra -> ended
			abort rb -> ended
			kill
			items q -> a b c`},
		{"4.8 an overdue read is not late by a millisecond", `
			set q timeout=5s
			put q a
			open q r -> a
			after 4999ms
			overdue
			items q ->
			after 1ms
			overdue
			items q -> a`},
		{"5.6 a reload gives reads that are open a timeout, or takes it", `
			put q a
			put q b
			open q r -> a
			set q timeout=1s
			after 1s
			overdue
			items q -> a b
			open q r -> a
			set q timeout=0s
			after 10s
			overdue
			items q -> b
			confirm r`},
		{"an overdue read goes to the longest waiter", `
			set q timeout=1s
			put q a
			open q r -> a
			wait q open w1 -> waiting
			after 2s
			overdue
			notified -> notified w1
			collect w1 -> a
			confirm w1
			stats q items open -> 0 0`},
		{"4.9 open reads are lost with their queue", `
			put q a
			open q r -> a
			delete q
			confirm r -> ended
			abort r -> ended
			queues ->
			put q b
			items q -> b
			kill
			items q -> b`},
		{"4.5 open reads do not expire", `
			put q a expiry=+1s
			open q r -> a
			after 2s
			flushexpired q -> 0
			confirm r
			stats q expired -> 0`},
		{"4.5 an item that comes back expired is not handed out", `
			put q a expiry=+1s
			put q b
			open q r -> a
			after 2s
			abort r
			stats q items -> 2
			get q -> b
			stats q expired -> 1`},
		{"a large item is opened, returned and confirmed", `
			put q x*400000
			put q y*70000
			open q r -> x*400000
			abort r
			open q r -> x*400000
			open q s -> y*70000
			confirm s
			kill
			get q -> x*400000`},
		{"6.4 transactions count opens on a queue with items, canceled_transactions returns", `
			open q r -> empty
			put q a
			open q r -> a
			open q s -> empty
			abort r
			open q r -> a
			stats q opens returns -> 2 1`},
	})
}

// TestAbortAll loses a client with several open reads while others wait: they get the oldest first,
// and what is left is in order.
func TestAbortAll(t *testing.T) {
	e, fsys := newQuiet(t)
	var refs []ReadRef
	for _, data := range []string{"a", "b", "c", "d", "e"} {
		mustPut(t, e, "q", data)
		r, _ := mustOpen(t, e, "q")
		refs = append(refs, r)
	}
	mustCommitted(t, e)(e.Confirm(Now(), refs[1]))
	var waiters []*collector
	for range 2 {
		c := &collector{}
		c.Notify = c
		e.Fetch(Now(), []byte("q"), FetchRequest{Waiter: &c.Waiter}, nil)
		waiters = append(waiters, c)
	}
	if got := e.AbortAll(Now(), refs); got != 4 {
		t.Errorf("AbortAll = %d, want 4: one was confirmed", got)
	}
	if got := e.AbortAll(Now(), refs); got != 0 {
		t.Errorf("AbortAll of reads that have ended = %d", got)
	}
	if got := e.AbortAll(Now(), nil) + e.AbortAll(Now(), make([]ReadRef, 2)); got != 0 {
		t.Errorf("AbortAll of no reads = %d", got)
	}
	wantItems(t, e, "q", "d e")
	for i, want := range []string{"a", "c"} {
		var got copied
		mustCommitted(t, e)(e.Collect(Now(), waiters[i].Read, FetchRequest{Access: Take}, &got))
		if string(got.item.Data) != want {
			t.Errorf("waiter %d got %q, want %s", i, got.item.Data, want)
		}
	}
	wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "d e")
}

// TestAbortPieces brings many reads back, and others fetch and put between the pieces. Nobody gets an item before the
// oldest one is back, and then all come in order.
//
// Its control is a returnPiece that does not hold the queue.
func TestAbortPieces(t *testing.T) {
	e, _ := newQuiet(t)
	const items = 3*abortBatch + 5
	var refs []ReadRef
	for i := range items {
		mustPut(t, e, "q", fmt.Sprint(i))
		r, _ := mustOpen(t, e, "q")
		refs = append(refs, r)
	}
	var waiters []*collector
	p := returning{how: Return{How: Lost}}
	for pieces := 0; len(refs) > 0; pieces++ {
		var err error
		if refs, err = e.returnPiece(Now(), refs, &p); err != nil || p.ended != min((pieces+1)*abortBatch, items) {
			t.Errorf("%d items are back after piece %d: %v", p.ended, pieces, err)
		}
		if err := e.Verify(); err != nil {
			t.Error(err)
		}
		if len(refs) == 0 {
			break
		}
		c := &collector{}
		c.Notify = c
		if f, err := e.Fetch(Now(), []byte("q"), FetchRequest{Waiter: &c.Waiter, Immediate: true}, &copied{}); !f.Waiting {
			t.Errorf("a fetch between two pieces does not wait: %v", err)
		}
		waiters = append(waiters, c)
		mustPut(t, e, "q", "behind")
	}
	if len(waiters) != 3 {
		t.Errorf("%d fetches have come between the pieces, want 3", len(waiters))
	}
	for i, c := range waiters {
		var got copied
		mustCommitted(t, e)(e.Collect(Now(), c.Read, FetchRequest{}, &got))
		if string(got.item.Data) != fmt.Sprint(i) {
			t.Errorf("waiter %d got %q", i, got.item.Data)
		}
	}
	for i, got := range drain(t, e, "q") {
		if want := fmt.Sprint(i + 3); got != want && (got != "behind" || i < items-3) {
			t.Fatalf("item %d is %q", i+3, got)
		}
	}
}

func TestReadRefZero(t *testing.T) {
	e, _ := newQuiet(t)
	var none ReadRef
	if _, ok := e.Confirm(Now(), none); ok {
		t.Error("Confirm of the zero ReadRef = true")
	}
	if _, ok := e.Collect(Now(), none, FetchRequest{Access: Take}, &copied{}); ok {
		t.Error("Collect of the zero ReadRef = true")
	}
	if e.Abort(Now(), none) || !none.IsZero() {
		t.Error("Abort of the zero ReadRef = true")
	}
}

// TestReadRefHoldsNoMemory checks that a reference to a large item, which its owner may keep, does not hold the item
// after the read has ended. The ledger then no longer counts it.
func TestReadRefHoldsNoMemory(t *testing.T) {
	e, _ := newQuiet(t)
	mustPut(t, e, "q", strings.Repeat("x", readClassSize(readClasses-1)+1))
	ref, _ := mustOpen(t, e, "q")
	if cap(ref.r.buf) == 0 {
		t.Fatal("an open read has no memory")
	}
	if _, ok := e.Confirm(Now(), ref); !ok || ref.r.buf != nil {
		t.Errorf("confirmed %v, and %d bytes are kept", ok, cap(ref.r.buf))
	}
}

// TestReadStates checks that every edge that the table of readState lacks panics.
func TestReadStates(t *testing.T) {
	for from := readFree; from <= readMoving; from++ {
		for to := readFree; to <= readMoving; to++ {
			allowed := readEdges[from]>>to&1 != 0
			func() {
				defer func() {
					if got := recover() == nil; got != allowed {
						t.Errorf("state %d to %d: allowed = %v, want %v", from, to, got, allowed)
					}
				}()
				r := &read{state: from, q: &queue{}}
				r.to(to)
			}()
		}
	}
}

func TestReadClass(t *testing.T) {
	for _, tt := range []struct{ size, class int }{
		{0, 0}, {1, 0}, {64, 0}, {65, 1}, {256, 1}, {257, 2}, {1024, 2}, {1025, 3}, {4096, 3},
		{4097, 4}, {16384, 4}, {16385, 5}, {65536, 5}, {65537, 6}, {256 << 10, 6},
		{256<<10 + 1, 7}, {MaxItemSize, 7},
	} {
		got := readClass(tt.size)
		if got != tt.class {
			t.Errorf("readClass(%d) = %d, want %d", tt.size, got, tt.class)
		}
		if got < readClasses && readClassSize(got) < tt.size {
			t.Errorf("buffers of class %d have %d bytes, too few for %d",
				got, readClassSize(got), tt.size)
		}
	}
}
