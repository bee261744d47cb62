package engine

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/trim"
)

// With a shard locked, nothing copies a large item: these tests look for its bytes in two places.

// lies reports whether part is in the memory of whole.
func lies(part, whole []byte) bool {
	at, first := uintptr(unsafe.Pointer(&part[0])), uintptr(unsafe.Pointer(&whole[0]))
	return first <= at && at+uintptr(len(part)) <= first+uintptr(len(whole))
}

// unwritten reports whether data lies in what the journal has not written yet.
func (e *Engine) unwritten(t *testing.T, data []byte) (found bool) {
	t.Helper()
	err := e.journal.Inspect(func() error { return nil }, func(batch []byte) error {
		found = found || lies(data, batch)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// aliased is a receiver that keeps what it gets.
type aliased struct {
	data []byte
	item Item
}

func (k *aliased) Receive(it Item) bool {
	k.data, k.item = it.Data, it
	return true
}

// TestLargeReadIsNotCopied tests that an open read of a large item shares the item's memory. So do a lease of the
// connection, and a peek that has waited. When the item comes back, it is unchanged.
func TestLargeReadIsNotCopied(t *testing.T) {
	e, _ := newQuiet(t)
	now := Now()
	w := &Waiter{Notify: notifierFunc(func(*Waiter) {})}
	if _, err := e.Fetch(now, []byte("q"), FetchRequest{Access: Peek, Waiter: w}, nil); err != ErrEmpty {
		t.Fatal(err)
	}
	if _, err := e.Put(now, []byte("q"), PutRequest{Data: largeData()}); err != nil {
		t.Fatal(err)
	}
	var peeked, opened, back aliased
	if _, ok := e.Collect(now, w.Read, FetchRequest{Access: Peek}, &peeked); !ok {
		t.Fatal("the peek has ended by itself")
	}
	got, err := e.Fetch(now, []byte("q"), FetchRequest{Access: OpenRead}, &opened)
	if err != nil {
		t.Fatal(err)
	}
	if read := got.Read.r.item.Data; !lies(read, opened.data) || !lies(peeked.data, opened.data) {
		t.Error("a read has a copy of the item")
	}
	e.Abort(now, got.Read)
	if _, err := e.Fetch(now, []byte("q"), FetchRequest{}, &back); err != nil || !bytes.Equal(back.data, largeData()) {
		t.Errorf("an aborted read brings %d bytes back, %v", len(back.data), err)
	}
}

// TestLargeMoveIsNotCopied tests a large item that expires into another queue. There it lies in the frame that the
// journal writes, and both queues are right after a restart.
func TestLargeMoveIsNotCopied(t *testing.T) {
	e, _ := newQuiet(t)
	target := nameInOtherShard(e, "q")
	o := DefaultQueueOptions()
	o.ExpireTo = target
	if err := e.Reload(Settings{Default: DefaultQueueOptions(), Queues: map[string]QueueOptions{"q": o}}); err != nil {
		t.Fatal(err)
	}
	now := Now()
	expiry := now + 60_000
	ticket, err := e.Put(now, []byte("q"), PutRequest{Data: largeData(), Flags: 3, Expiry: expiry})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	_, ticket = e.FlushExpired(expiry+1, []byte("q"))
	var moved aliased
	if _, err := e.Fetch(now, []byte(target), FetchRequest{Access: Peek}, &moved); err != nil {
		t.Fatal(err)
	}
	if !e.unwritten(t, moved.data) {
		t.Error("the item was copied with the shard locked")
	}
	mustCommit(t, e, ticket)
	mustCommit(t, e, Ticket{Written: e.journal.End()})
	for _, e := range []*Engine{e, kill(t, e)} {
		var got copied
		if _, err := e.Fetch(now, []byte(target), FetchRequest{}, &got); err != nil || got.item.Flags != 3 ||
			!bytes.Equal(got.item.Data, largeData()) {
			t.Errorf("the other queue has %d bytes, %v", len(got.item.Data), err)
		}
		if _, err := e.Fetch(now, []byte("q"), FetchRequest{}, &got); err != ErrEmpty {
			t.Errorf("the queue has an item: %v", err)
		}
	}
}

// TestLargeDeadLetterIsNotCopied is TestLargeMoveIsNotCopied of an item that is given up. One whose key is taken
// meanwhile loses that, as others do.
func TestLargeDeadLetterIsNotCopied(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("key taken ", taken), func(t *testing.T) {
			e, _ := newQuiet(t)
			now, wantKey := Now(), "k"
			if taken {
				mustPutKey(t, e, "q_dead", "x")
				wantKey = ""
			}
			mustPutKey(t, e, "q", string(largeData()))
			f, err := e.Fetch(now, []byte("q"), FetchRequest{Access: OpenRead}, new(aliased))
			if err != nil {
				t.Fatal(err)
			}
			ticket, _, _ := e.Return(now, []ReadRef{f.Read}, Return{How: Reject})
			if taken {
				if _, err := e.Fetch(now, []byte("q_dead"), FetchRequest{}, new(aliased)); err != nil {
					t.Fatal(err)
				}
			}
			var dead aliased
			if _, err := e.Fetch(now, []byte("q_dead"), FetchRequest{Access: Peek}, &dead); err != nil {
				t.Fatal(err)
			}
			if !e.unwritten(t, dead.data) {
				t.Error("the item was copied with the shard locked")
			}
			mustCommit(t, e, ticket)
			mustCommit(t, e, Ticket{Written: e.journal.End()})
			for _, e := range []*Engine{e, kill(t, e)} {
				if _, err := e.Fetch(now, []byte("q_dead"), FetchRequest{Access: Peek}, &dead); err != nil {
					t.Fatal(err)
				}
				key, origin := dead.item.Key(), dead.item.Origin()
				if !bytes.Equal(dead.data, largeData()) || string(key) != wantKey || string(origin) != "q" || dead.item.Why() != Rejected {
					t.Errorf("the dead-letter queue has %d bytes with the key %q, from %q", len(dead.data), key, origin)
				}
				if _, err := e.Fetch(now, []byte("q"), FetchRequest{}, &dead); err != ErrEmpty {
					t.Errorf("the queue has an item: %v", err)
				}
			}
		})
	}
}

// TestLargeKeyTakenMeanwhile takes the steps of moveIn for a large dead letter. Another item gets its key between them. So
// the image that was made with the key is not used.
func TestLargeKeyTakenMeanwhile(t *testing.T) {
	e, _ := newQuiet(t)
	now, name := Now(), []byte("q_dead")
	put := PutRequest{Data: largeData()}
	it := put.item(now).With(nil, []byte("k"), "", 0)
	put.Extra = (*queue)(nil).extraOf(now, &it, "q", Rejected)
	large := e.image(&put, put.large(now, 1))
	mustPutKey(t, e, string(name), "x")
	sh, q := e.lockQueue(name)
	put.Extra = q.extraOf(now, &it, "q", Rejected)
	sh.targets, sh.large = append(sh.targets[:0], q), large
	e.add(sh, now, &put, now, record.Destination{}, new(Stored))
	sh.large = nil
	sh.mu.Unlock()
	e.dropLarge(large)
	for _, want := range []struct{ key, origin string }{{"k", ""}, {"", "q"}} {
		var got aliased
		if _, err := e.Fetch(now, name, FetchRequest{}, &got); err != nil {
			t.Fatal(err)
		}
		if key, origin := got.item.Key(), got.item.Origin(); string(key) != want.key || string(origin) != want.origin {
			t.Errorf("an item has the key %q and is from %q, want %+v", key, origin, want)
		}
	}
}

// mustPutKey puts an item with the key k.
func mustPutKey(t *testing.T, e *Engine, name, data string) {
	t.Helper()
	ticket, err := e.Put(Now(), []byte(name), PutRequest{Data: []byte(data), Extra: &PutExtra{Key: []byte("k")}})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
}

// TestLargeReadIsKept tests that rewriting an open read of a large item copies nothing of it with the shard locked. The
// item is there after a restart, with its count.
func TestLargeReadIsKept(t *testing.T) {
	for _, count := range []uint16{0, 2} {
		e, _ := newQuiet(t)
		now := Now()
		ticket, err := e.Put(now, []byte("q"), PutRequest{Data: largeData()})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		got, err := e.Fetch(now, []byte("q"), FetchRequest{Access: OpenRead}, new(aliased))
		if err != nil {
			t.Fatal(err)
		}
		r := got.Read.r
		r.count, r.changed = count, count > 0
		before := e.journal.End()
		if took := allocated(func() {
			e.keepAllReads(&trim.Plan{Target: math.MaxUint64, Left: math.MaxInt64})
		}); took >= uint64(len(largeData())) {
			t.Errorf("%d bytes are allocated to rewrite an item of %d", took, len(largeData()))
		}
		if wrote := e.journal.End() - before; int(wrote) < len(largeData()) {
			t.Errorf("%d bytes are recorded of an item of %d", wrote, len(largeData()))
		}
		mustCommit(t, e, Ticket{Written: e.journal.End()})
		var back copied
		again, err := kill(t, e).Fetch(now, []byte("q"), FetchRequest{Access: OpenRead}, &back)
		if err != nil || !bytes.Equal(back.item.Data, largeData()) {
			t.Fatalf("after a restart the queue has %d bytes, %v", len(back.item.Data), err)
		}
		if got := again.Read.r.count; got != count {
			t.Errorf("after a restart the item was delivered %d times, want %d", got, count)
		}
	}
}

// TestRestoreOfLargeIsNotCopied tests that a large item that is restored lies in the queue where the journal has it. After
// a restart it is as it was.
func TestRestoreOfLargeIsNotCopied(t *testing.T) {
	plain := Item{Data: largeData(), Flags: 3, Added: Now() - 5, Expiry: Now() + 1e6}
	keyed := plain.With(nil, []byte("k"), "origin", Rejected)
	for _, tt := range []struct {
		name   string
		item   Item
		stands Standing
	}{
		{"plain", plain, Standing{}}, {"keyed", keyed, Standing{}}, {"delivered", plain, Standing{Count: 2}},
		{"both", keyed, Standing{Count: 2}},
	} {
		e, _ := newQuiet(t)
		ticket, err := e.Restore(Now(), []byte("q"), tt.item, tt.stands)
		if err != nil {
			t.Fatal(err)
		}
		var got aliased
		if _, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: Peek}, &got); err != nil || !e.unwritten(t, got.data) {
			t.Errorf("%s: the item was copied with the shard locked: %v", tt.name, err)
		}
		mustCommit(t, e, ticket)
		f, err := kill(t, e).Fetch(Now(), []byte("q"), FetchRequest{Access: OpenRead}, &got)
		if err != nil {
			t.Fatal(err)
		}
		back, want := got.item, tt.item
		if back.ID = 0; !reflect.DeepEqual(back, want) || f.Read.r.count != tt.stands.Count {
			t.Errorf("%s: after a restart the item has %d bytes, the key %q and %d deliveries", tt.name, len(back.Data), back.Key(), f.Read.r.count)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestFanoutSharesImage tests that many queues that take one item share its memory, however large it is. All of them
// have the item, also after a restart.
func TestFanoutSharesImage(t *testing.T) {
	const children, limit = 200, 8 << 20
	for _, size := range []int{item.MinChunkSize * 8, item.MaxChunkSize - 100} {
		e := fanOut(t, testOptions(newFS(), func(o *QueueOptions) { o.Sync = SyncNever }), children)
		mustGet(t, e, "p") // makes it
		if got := e.Takers([]byte("p")); got != children+1 {
			t.Errorf("%d queues take what is put, want %d", got, children+1)
		}
		e.opts.MemoryLimit = e.memory.Load() + limit
		puts := []PutRequest{{Data: []byte("first")}}
		for i := range 3 {
			puts = append(puts, PutRequest{Data: bytes.Repeat([]byte{byte('a' + i)}, size)})
		}
		puts = append(puts, PutRequest{Data: []byte("last")})
		s, err := e.PutAll(Now(), []byte("p"), puts)
		if err != nil || s.Count != len(puts) {
			t.Fatalf("PutAll of %d bytes = %d, %v", size, s.Count, err)
		}
		if got := memoryBeyondQueues(e); got > limit {
			t.Errorf("%d bytes of memory are in use, the limit is %d", got, limit)
		}
		mustCommit(t, e, s.Ticket)
		for _, e := range []*Engine{e, kill(t, e)} {
			e.opts.MemoryLimit = math.MaxInt64
			for _, name := range []string{"p", "p+0", fmt.Sprintf("p+%d", children-1)} {
				for i := range puts {
					var got copied
					if _, err := e.Fetch(Now(), []byte(name), FetchRequest{}, &got); err != nil || !bytes.Equal(got.item.Data, puts[i].Data) {
						t.Errorf("item %d of %s has %d bytes, %v", i, name, len(got.item.Data), err)
					}
				}
			}
		}
	}
}

// TestTakers tests that Takers counts fanout children from the first to the last, in whatever shard they are.
func TestTakers(t *testing.T) {
	e := openQuiet(t, testOptions(newFS()))
	check := func(when string, want map[string]int) {
		t.Helper()
		for name, n := range want {
			if got := e.Takers([]byte(name)); got != n {
				t.Errorf("%s, Takers(%s) = %d, want %d", when, name, got, n)
			}
		}
	}
	check("with no queue", map[string]int{"a": 1, "b": 1})
	for _, name := range []string{"a+1", "a+2", "b+1", "c"} {
		mustPut(t, e, name, "x")
	}
	check("with children", map[string]int{"a": 3, "b": 2, "c": 1, "d": 1})
	e.Delete(Now(), []byte("a+1"))
	e.Delete(Now(), []byte("b+1"))
	check("with one child left", map[string]int{"a": 2, "b": 1, "c": 1})
	e.Delete(Now(), []byte("a+2"))
	check("with none left", map[string]int{"a": 1, "b": 1})
	if n := e.parents.Load(); n != 0 {
		t.Errorf("%d parents are counted, and there is none", n)
	}
}

// TestLargeLeaseIsNotCopied tests a large item that is leased, comes back with a delay, and is opened. It has the
// memory that it had in line, and is as it was after a kill.
func TestLargeLeaseIsNotCopied(t *testing.T) {
	h := newHiding(t, newFS(), func(o *Options) { o.Settings.Default.MaxMemorySize, o.SegmentSize = 64<<20, 4<<20 })
	ticket, err := h.Put(h.now, []byte("q"), PutRequest{Data: largeData(), Flags: 3})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Engine, ticket)
	var line, leased, opened aliased
	var about Delivery
	if _, err := h.Fetch(h.now, []byte("q"), FetchRequest{Access: Peek}, &line); err != nil {
		t.Fatal(err)
	}
	f, err := h.Fetch(h.now, []byte("q"), FetchRequest{Access: Lease, Lease: time.Minute, Delivery: &about}, &leased)
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Engine, f.Ticket)
	q := h.queue()
	if it := q.aside.Item(0); !lies(it.Data, line.data) {
		t.Error("a lease has a copy of the item")
	}
	ticket, err = h.ReturnLease(h.now, []byte("q"), about.Receipt, Return{How: Abort, Delay: time.Second, Delayed: true})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Engine, ticket)
	h.now = h.now.After(2 * time.Second)
	if f, err = h.Fetch(h.now, []byte("q"), FetchRequest{Access: OpenRead}, &opened); err != nil || !lies(f.Read.r.item.Data, line.data) {
		t.Errorf("the item was copied on its way back, %v", err)
	}
	h.Return(h.now, []ReadRef{f.Read}, Return{How: Abort, Delay: time.Second, Delayed: true})
	if it := q.aside.Item(0); !lies(it.Data, line.data) {
		t.Error("an item that comes back is copied")
	}
	mustCommit(t, h.Engine, Ticket{Written: h.journal.End()})
	h.restart(false)
	h.now = h.now.After(2 * time.Second)
	if got := h.next(); got != string(largeData()) {
		t.Errorf("after a kill %d bytes come, want %d", len(got), len(largeData()))
	}
}

// TestLargeLeaseFromBacklog leases large items that only a backlog file had. After that file is gone and a kill, the
// journal has them as they were when their leases were acknowledged. The engine gives back their memory.
func TestLargeLeaseFromBacklog(t *testing.T) {
	h := newHiding(t, newFS(), func(o *Options) { o.SegmentSize = 4 << 20 })
	body := func(i int) []byte { return append(largeData(), byte('a'+i)) }
	const items = 4
	for i := range items {
		ticket, err := h.Put(h.now, []byte("q"), PutRequest{Data: body(i), Flags: 3})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, h.Engine, ticket)
		h.work()
	}
	if b := h.queue().backlog; b == nil || b.count == 0 {
		t.Fatal("nothing is in a backlog file")
	}
	var leases []uint64
	recorded := 0
	for i := range items {
		var got copied
		var about Delivery
		lease := FetchRequest{Access: Lease, Lease: time.Minute, Delivery: &about}
		before := h.journal.End()
		f, err := h.Fetch(h.now, []byte("q"), lease, &got)
		for ; err == ErrComing; f, err = h.Fetch(h.now, []byte("q"), lease, &got) {
			h.work()
		}
		if err != nil || !bytes.Equal(got.item.Data, body(i)) {
			t.Fatalf("lease %d brings %d bytes, %v", i, len(got.item.Data), err)
		}
		if h.journal.End()-before > LSN(len(body(i))) {
			recorded++
		}
		mustCommit(t, h.Engine, f.Ticket)
		leases = append(leases, about.Receipt)
	}
	if recorded == 0 {
		t.Error("no item was recorded with its lease")
	}
	h.work()
	h.restart(false)
	for i := items - 1; i >= 0; i-- {
		if _, err := h.ReturnLease(h.now, []byte("q"), leases[i], Return{How: Release}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range items {
		if got := h.next(); got != string(body(i)) {
			t.Errorf("after a kill item %d has %d bytes", i, len(got))
		}
	}
	h.work()
	if n := memoryBeyondQueues(h.Engine); n > 1<<16 {
		t.Errorf("%d bytes are counted when nothing is left", n)
	}
}

// TestDelayedLargeIsApart tests a large item that is put with a delay, or that such a put overwrites. It does not lie
// in the memory of the client, which uses that again. It lies in the frame that the journal writes.
func TestDelayedLargeIsApart(t *testing.T) {
	h := newHiding(t, newFS(), func(o *Options) { o.Settings.Default.MaxMemorySize, o.SegmentSize = 64<<20, 4<<20 })
	for _, x := range []PutExtra{{Delay: time.Second}, {Delay: time.Second, Key: []byte("k")}, {Key: []byte("k")}} {
		for range 2 { // the second overwrites, if there is a key
			data := largeData()
			if _, err := h.Put(h.now, []byte("q"), PutRequest{Data: data, Extra: &x}); err != nil {
				t.Fatal(err)
			}
			clear(data)
			if at := h.queue().locate(h.queue().nextID - 1); !h.unwritten(t, at.it.Data) {
				t.Errorf("%+v: the journal has a copy of the item", x)
			}
		}
		h.now = h.now.After(2 * time.Second)
		for got := h.next(); got != ""; got = h.next() {
			if got != string(largeData()) {
				t.Errorf("%+v: an item is not as it was put", x)
			}
		}
	}
}
