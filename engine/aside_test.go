package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestItemSize: items carry nothing of delays and leases, and a put only a pointer.
func TestItemSize(t *testing.T) {
	if got := unsafe.Sizeof(item.Item{}); got != 56 {
		t.Errorf("an item takes %d bytes, want 56", got)
	}
	if got := unsafe.Sizeof(PutRequest{}); got != 64 {
		t.Errorf("a put request takes %d bytes, want 64", got)
	}
}

// leaseNext leases the next item of a queue, and returns it with its delivery.
func leaseNext(e *Engine, name string, d time.Duration) (Item, Delivery, error) {
	var got copied
	var about Delivery
	f, err := e.Fetch(Now(), []byte(name), FetchRequest{Access: Lease, Lease: d, Delivery: &about}, &got)
	if err == nil {
		err = e.Commit(f.Ticket)
	}
	return got.item, about, err
}

// TestAlarm tests that a delayed item reaches the clients that wait for it when it is due: not earlier, and at most 2
// ms later. The same holds for an item whose lease lapses. TestClockStepsAside sets the clock of the wall.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(testOptions(segmenttest.New()))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		q, err := e.Queue("q")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		put := func(body string, delay time.Duration) {
			_, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte(body), Extra: &PutExtra{Delay: delay}})
			if err != nil {
				t.Fatal(err)
			}
		}
		get := func(want string, after time.Duration) {
			t.Helper()
			it, err := q.Get(t.Context())
			late := time.Since(began) - after
			if err != nil || string(it.Data) != want || late < 0 || late > 2*time.Millisecond {
				t.Errorf("got %q, %v, %v late, want %q", it.Data, err, late, want)
			}
		}
		put("third", time.Hour)
		put("first", time.Second)
		put("second", time.Minute)
		get("first", time.Second)
		get("second", time.Minute)
		get("third", time.Hour)
		put("leased", time.Millisecond)
		time.Sleep(time.Second)
		if _, _, err := leaseNext(e, "q", 5*time.Second); err != nil {
			t.Fatal(err)
		}
		get("leased", time.Since(began)+5*time.Second)
	})
}

// TestDueAtOnce: what is due at one instant is moved in batches, and all of it arrives.
func TestDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(testOptions(segmenttest.New()))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		const items = 10*dueBatch + 1
		for range items {
			p := PutRequest{Extra: &PutExtra{Delay: time.Second}}
			if _, err := e.Put(Now(), []byte("q"), p); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		for n := range items {
			if _, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &copied{}); err != nil {
				t.Fatalf("item %d: %v", n, err)
			}
		}
	})
}

// TestDeadLetterCannotBeMade: an item that its dead-letter queue cannot take stays, with its count.
func TestDeadLetterCannotBeMade(t *testing.T) {
	o := testOptions(segmenttest.New(), func(o *QueueOptions) { o.MaxDeliveries = 1 })
	o.MaxQueues = 1
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := tryPut(e, "q", "a"); err != nil {
		t.Fatal(err)
	}
	for want := 1; want < 4; want++ {
		_, about, err := leaseNext(e, "q", time.Hour)
		if err != nil || about.Deliveries != want {
			t.Fatalf("delivery %d: %+v, %v", want, about, err)
		}
		if _, err := e.ReturnLease(Now(), []byte("q"), about.Receipt, Return{How: Abort}); err != nil {
			t.Fatal(err)
		}
	}
	if s, _ := e.QueueStats(Now(), []byte("q")); s.Items != 1 || s.DeadLettered != 0 || s.Redelivered != 2 {
		t.Errorf("stats are %+v", s)
	}
	if err := errors.Join(e.Verify(), e.Close()); err != nil {
		t.Error(err)
	}
}

// TestDeadLetterNames: the name of the dead-letter queue, which has none itself.
func TestDeadLetterNames(t *testing.T) {
	for _, tt := range []struct{ name, option, want string }{
		{"a", "", "a_dead"},
		{"a_dead", "", ""},
		{"a+x", "", "a_dead+x"},
		{"a_dead+x", "", ""},
		{"a", "failed", "failed"},
		{"failed", "failed", ""},
	} {
		q := &queue{name: tt.name, opts: &QueueOptions{DeadLetterQueue: tt.option}}
		if got := q.deadLetters(); got != tt.want {
			t.Errorf("dead letters of %q with %q go to %q, want %q", tt.name, tt.option, got, tt.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	for _, tt := range []struct {
		list Backoff
		want string
	}{
		{Backoff{}, "0s 0s 0s"},
		{Backoff{time.Second}, "1s 1s 1s"},
		{Backoff{0, time.Second}, "0s 1s 1s"},
		{Backoff{time.Second, 2 * time.Second}, "1s 2s 2s"},
	} {
		got := fmt.Sprint(tt.list.after(1), tt.list.after(2), tt.list.after(3))
		if got != tt.want {
			t.Errorf("delays of %v are %s, want %s", tt.list, got, tt.want)
		}
	}
}

// TestLeaseRefused: leases and delays that nobody may have.
func TestLeaseRefused(t *testing.T) {
	o := testOptions(segmenttest.New(), func(o *QueueOptions) { o.MaxDelay = time.Minute })
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := tryPut(e, "q", "a"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		f    FetchRequest
		want error
	}{
		{FetchRequest{Access: Lease}, ErrBadLease},
		{FetchRequest{Access: Lease, Lease: -5}, ErrBadLease},
		{FetchRequest{Access: Lease, Lease: DefaultLease}, ErrNoLease},
		{FetchRequest{Access: OpenRead, Lease: DefaultLease}, ErrNoLease},
	} {
		if _, err := e.Fetch(Now(), []byte("q"), tt.f, &copied{}); err != tt.want {
			t.Errorf("Fetch(%+v) = %v, want %v", tt.f, err, tt.want)
		}
	}
	for _, d := range []time.Duration{-1, time.Minute + 1} {
		p := PutRequest{Extra: &PutExtra{Delay: d}}
		if _, err := e.Put(Now(), []byte("q"), p); err != ErrDelayTooLong {
			t.Errorf("a put with a delay of %v: %v, want %v", d, err, ErrDelayTooLong)
		}
	}
	if _, err := e.ConfirmLease(Now(), []byte("none"), 1); err != ErrNotHeld {
		t.Errorf("confirming a receipt of no queue: %v", err)
	}
	if _, ok := e.QueueStats(Now(), []byte("none")); ok {
		t.Error("confirming a receipt made a queue")
	}
}

// sideways makes a directory with four items: a delayed one, a leased one, one that was aborted once, and one in line.
// It returns the receipt of the lease.
func sideways(t *testing.T, fsys *segmenttest.FS) (o Options, receipt uint64) {
	t.Helper()
	o = testOptions(fsys, func(o *QueueOptions) { o.MaxDeliveries = 9 })
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, delay := range []time.Duration{0, 0, 0, time.Hour} {
		p := PutRequest{Data: fmt.Append(nil, i), Extra: &PutExtra{Delay: delay}}
		if _, err := e.Put(Now(), []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	_, about, err := leaseNext(e, "q", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	f, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: OpenRead}, &copied{})
	if err != nil || !e.Abort(Now(), f.Read) {
		t.Fatal("no open read", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return o, about.Receipt
}

// TestInspectAside: a directory that is looked at has what is aside, in its place, and what is in line.
func TestInspectAside(t *testing.T) {
	o, _ := sideways(t, segmenttest.New())
	s, err := Inspect(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if q := s.Queues[0]; q.Items != 4 || q.Delayed != 1 || q.Leased != 1 || q.Bytes != 4 {
		t.Errorf("it holds %+v", q)
	}
	for most, want := range map[int]string{2: "0 1", 9: "0 1 2 3"} {
		var found []string
		err = s.Each("q", func(it Item) bool {
			found = append(found, string(it.Data))
			return len(found) < most
		})
		if got := strings.Join(found, " "); err != nil || got != want {
			t.Errorf("of at most %d, Each finds %s, %v, want %s", most, got, err, want)
		}
	}
}

// TestRepairAside: a repair keeps what is aside as it was, and what only a change record says.
func TestRepairAside(t *testing.T) {
	fsys := segmenttest.New()
	o, receipt := sideways(t, fsys)
	if n := loseRecords(t, o, func(rec *record.Record) bool { return rec.Kind == record.KindQueue && rec.NextID == 1 }); n == 0 {
		t.Fatal("no record is lost")
	}
	d, err := Examine(o)
	if err != nil {
		t.Fatal(err)
	}
	if d.Sound() {
		t.Error("the directory is sound")
	}
	if err := errors.Join(d.Repair(), d.Close()); err != nil {
		t.Fatal(err)
	}
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Verify(); err != nil {
		t.Error(err)
	}
	for _, q := range e.Queues(Now()) {
		if q.Delayed != 1 || q.Leased != 1 || q.Items != 3 {
			t.Errorf("queue %q has %d items, %d delayed and %d leased", q.Name, q.Items, q.Delayed, q.Leased)
		}
		if _, about, err := leaseNext(e, q.Name, time.Hour); err != nil || about.Deliveries != 2 {
			t.Errorf("the item that was aborted is delivered as %+v, %v", about, err)
		}
		if _, err := e.ConfirmLease(Now(), []byte(q.Name), receipt); err != nil {
			t.Errorf("the receipt is refused: %v", err)
		}
	}
}

// TestPlainStaysVersion1 tests that the release before can read every segment and run of a directory of plain queues.
// That release refuses a directory with a delay, or with keys in a backlog.
func TestPlainStaysVersion1(t *testing.T) {
	versions := func(delay time.Duration, key string) (most, mostOfRun byte) {
		fsys := segmenttest.New()
		e, err := open(testOptions(fsys, tiny))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			p := PutRequest{Data: make([]byte, 200), Extra: &PutExtra{Delay: delay}}
			if key != "" {
				p.Extra.Key = fmt.Append(nil, key, i)
			}
			ticket, err := e.Put(Now(), []byte("q"), p)
			if err := errors.Join(err, e.Commit(ticket)); err != nil {
				t.Fatal(err)
			}
		}
		awaitRuns(e)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range fsys.Paths() {
			if data, err := fsys.Bytes(name); err == nil && strings.HasSuffix(name, ".seg") {
				most = max(most, data[8])
			} else if err == nil && strings.HasSuffix(name, runs.Ext) {
				mostOfRun = max(mostOfRun, data[8])
			}
		}
		return most, mostOfRun
	}
	const plainRun = 4 // version 3, and frames with wide padding
	if got, ofRun := versions(0, ""); got != byte(segment.Version1) || ofRun < 3 || ofRun > plainRun {
		t.Errorf("plain queues need version %d, and %d of runs", got, ofRun)
	}
	if got, _ := versions(time.Hour, ""); got != byte(segment.Version2) {
		t.Errorf("a delay needs version %d", got)
	}
	if _, ofRun := versions(0, "key"); ofRun <= plainRun {
		t.Errorf("a backlog with keys needs version %d of runs", ofRun)
	}
}

// TestHolder: leases count for a holder and for the one that it is of, whichever way they begin, until they end,
// whichever way that is.
func TestHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(testOptions(segmenttest.New()))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for range 4 {
			if err := tryPut(e, "q", "x"); err != nil {
				t.Fatal(err)
			}
		}
		all := NewHolder(nil, Client{User: "ann"})
		one := NewHolder(all, Client{Connection: 7, Peer: "host:1"})
		lease := func(h *Holder) Delivery {
			var about Delivery
			_, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: Lease, Lease: time.Minute, Delivery: &about, Holder: h}, &copied{})
			if err != nil {
				t.Fatal(err)
			}
			return about
		}
		check := func(when string, inOne, inAll int) {
			t.Helper()
			if one.Leases() != inOne || all.Leases() != inAll {
				t.Errorf("%s: %d and %d leases, want %d and %d", when, one.Leases(), all.Leases(), inOne, inAll)
			}
		}
		first, second := lease(one), lease(all)
		lease(nil)
		check("three leases", 1, 2)
		got, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: OpenRead}, &copied{})
		if err != nil {
			t.Fatal(err)
		}
		e.LeaseReads(Now(), []ReadRef{got.Read}, time.Minute, one, nil)
		check("a read that became a lease", 2, 3)
		if _, err := e.Change(Now(), []byte("q"), &LookRequest{Which: Which{ID: 1}}, Changes{SetExpiry: true}); err != nil {
			t.Fatal(err)
		}
		check("a touch of a leased item", 2, 3)
		<-time.After(time.Second)
		held := e.Holders([]byte("q"))
		slices.SortFunc(held, func(a, b Held) int { return cmp.Compare(a.Connection, b.Connection) })
		began := Now().After(-time.Second)
		if want := []Held{{all.Client, 1, began}, {one.Client, 2, began}}; !slices.Equal(held, want) {
			t.Errorf("Holders = %+v, want %+v", held, want)
		}
		e.ConfirmLease(Now(), []byte("q"), first.Receipt)
		check("one confirmed", 1, 2)
		e.ReturnLease(Now(), []byte("q"), second.Receipt, Return{How: Abort})
		check("one returned", 1, 1)
		w := new(Waiter)
		done := make(chan struct{})
		w.Notify = closing(done)
		f := FetchRequest{Access: Lease, Lease: time.Minute, Delivery: new(Delivery), Holder: one, Waiter: w}
		e.Fetch(Now(), []byte("none"), f, &copied{})
		if err := tryPut(e, "none", "y"); err != nil {
			t.Fatal(err)
		}
		<-done
		e.Collect(Now(), w.Read, f, &copied{})
		check("one that was waited for", 2, 2)
		<-time.After(2 * time.Minute)
		e.Fetch(Now(), []byte("q"), FetchRequest{Access: Peek}, &copied{})
		e.Fetch(Now(), []byte("none"), FetchRequest{Access: Peek}, &copied{})
		check("all have lapsed", 0, 0)
	})
}

// TestOldestOpen: the oldest open read is the first that has not ended, whoever ended it.
func TestOldestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(testOptions(segmenttest.New()))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		var refs []ReadRef
		var opened []Time
		for range 3 {
			if err := tryPut(e, "q", "x"); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			got, err := e.Fetch(Now(), []byte("q"), FetchRequest{Access: OpenRead}, &copied{})
			if err != nil {
				t.Fatal(err)
			}
			refs, opened = append(refs, got.Read), append(opened, Now())
		}
		check := func(when string, want Time) {
			t.Helper()
			if got := e.OldestOpen(refs); got != want {
				t.Errorf("%s: OldestOpen = %v, want %v", when, got, want)
			}
		}
		check("three reads", opened[0])
		e.AbortAll(Now(), refs[:1])
		check("one aborted", opened[1])
		e.ConfirmAll(Now(), refs[1:2])
		check("one confirmed", opened[2])
		e.AbortAll(Now(), refs[2:])
		check("all ended", 0)
		if got := e.OldestOpen(nil); got != 0 {
			t.Errorf("OldestOpen of nothing = %v", got)
		}
	})
}

// closing is closed when a wait has ended.
type closing chan struct{}

// WaitEnded implements Notifier.
func (c closing) WaitEnded(*Waiter) { close(c) }

// TestReceiptsAreNew tests that no two leases have the same receipt. With that of a lease that has ended, a client would
// end the lease of another one.
func TestReceiptsAreNew(t *testing.T) {
	e, _ := newQuiet(t)
	given := make(map[uint64]bool)
	for range 100 {
		mustPut(t, e, "q", "item")
		_, about, err := leaseNext(e, "q", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if given[about.Receipt] {
			t.Fatalf("receipt %d is given again", about.Receipt)
		}
		given[about.Receipt] = true
		if _, err := e.ConfirmLease(Now(), []byte("q"), about.Receipt); err != nil {
			t.Fatal(err)
		}
	}
}
