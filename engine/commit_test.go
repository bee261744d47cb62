package engine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// tryPut puts and commits.
func tryPut(e *Engine, name, data string) error {
	ticket, err := e.Put(Now(), []byte(name), PutRequest{Data: []byte(data)})
	if err != nil {
		return err
	}
	return e.Commit(ticket)
}

// TestTicketsByPolicy checks what each sync policy asks for, of puts and of removes.
func TestTicketsByPolicy(t *testing.T) {
	for _, tt := range []struct {
		name            string
		change          func(*QueueOptions)
		written, synced bool
	}{
		{"always", func(o *QueueOptions) { o.Sync = SyncAlways }, true, true},
		{"periodic", func(o *QueueOptions) { o.Sync = SyncEvery(1000) }, true, false},
		{"never", func(o *QueueOptions) { o.Sync = SyncNever }, true, false},
		{"no journal", func(o *QueueOptions) { o.KeepJournal = false }, false, false},
	} {
		e, fsys := newQuiet(t, tt.change)
		check := func(what string, ticket Ticket) {
			t.Helper()
			if (ticket.Written > 0) != tt.written || (ticket.Synced > 0) != tt.synced {
				t.Errorf("%s: ticket of %s is %+v, want written %v, synced %v",
					tt.name, what, ticket, tt.written, tt.synced)
			}
			if e.Committed(ticket) == tt.written {
				t.Errorf("%s: ticket of %s is committed = %v", tt.name, what, tt.written)
			}
			syncs := fsys.Calls(segmenttest.OpDatasync)
			mustCommit(t, e, ticket)
			got := fsys.Calls(segmenttest.OpDatasync) > syncs
			if got != tt.synced || !e.Committed(ticket) {
				t.Errorf("%s: commit of %s synced = %v, want %v", tt.name, what, got, tt.synced)
			}
		}
		name := []byte("q")
		put := func() Ticket {
			ticket, err := e.Put(Now(), name, PutRequest{Data: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		check("a put", put())
		f, err := e.Fetch(Now(), name, FetchRequest{}, &copied{})
		if err != nil {
			t.Fatal(err)
		}
		check("a get", f.Ticket)
		mustCommit(t, e, put())
		r, _ := mustOpen(t, e, "q")
		ticket, _ := e.Confirm(Now(), r)
		check("a confirm", ticket)
		put()
		ticket, _ = e.Flush(Now(), name, "")
		check("a flush", ticket)
		check("a delete", e.Delete(Now(), name))
	}
}

// TestFetchedPutTicket tests the ticket of a fetch that leaves the item in place, and of the end of a wait. It is what
// the item's put waits for. Once that is committed it is none, whatever was put since then.
func TestFetchedPutTicket(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncEvery(time.Hour), SyncNever} {
		e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync = policy })
		name := []byte("q")
		put := func(data string) Ticket {
			t.Helper()
			ticket, err := e.Put(Now(), name, PutRequest{Data: []byte(data)})
			if err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		fetch := func(access Access, want string) Ticket {
			t.Helper()
			var got copied
			f, err := e.Fetch(Now(), name, FetchRequest{Access: access}, &got)
			if err != nil || string(got.item.Data) != want {
				t.Fatalf("Fetch = %q, %v, want %s", got.item.Data, err, want)
			}
			return f.Ticket
		}
		a := put("a")
		for _, access := range []Access{Peek, OpenRead} {
			if got := fetch(access, "a"); got != a || e.Committed(got) {
				t.Errorf("%v: ticket is %+v before a commit, want that of the put, %+v", policy, got, a)
			}
		}
		b := put("b")
		mustCommit(t, e, b)
		c := put("c")
		if got := fetch(OpenRead, "b"); !e.Committed(got) {
			t.Errorf("%v: ticket of a committed item is %+v, that of its put was %+v", policy, got, b)
		}
		d := put("d")
		if got := fetch(Hold, "c"); e.Committed(got) || got.Written < c.Written {
			t.Errorf("%v: ticket is %+v, that of the put %+v", policy, got, c)
		}
		if got := fetch(Take, "d"); got.Merge(d) != got {
			t.Errorf("%v: ticket of a removal is %+v, that of the put %+v", policy, got, d)
		}
		w := &Waiter{Notify: notifierFunc(func(*Waiter) {})}
		if _, err := e.Fetch(Now(), name, FetchRequest{Access: OpenRead, Waiter: w}, &copied{}); err != ErrEmpty {
			t.Fatal(err)
		}
		x := put("x")
		if got, ok := e.Collect(Now(), w.Read, FetchRequest{Access: OpenRead}, &copied{}); !ok || got != x {
			t.Errorf("%v: ticket behind a wait is %+v, %v, want %+v", policy, got, ok, x)
		}
		put("y")
		mustCommit(t, e, Ticket{Written: e.journal.End()})
		e = openQuiet(t, testOptions(fsys.Kill()))
		if got := fetch(OpenRead, "a"); got != (Ticket{}) {
			t.Errorf("%v: ticket is %+v after a restart, want none", policy, got)
		}
	}
}

// TestFanoutTicket: a put to queues of several policies asks for what the strictest asks for.
func TestFanoutTicket(t *testing.T) {
	o := testOptions(newFS(), func(o *QueueOptions) { o.Sync = SyncNever })
	always := o.Settings.Default
	always.Sync = SyncAlways
	o.Settings.Queues = map[string]QueueOptions{"p+c": always}
	e := openQuiet(t, o)
	mustGet(t, e, "p+c")
	ticket, err := e.Put(Now(), []byte("p"), PutRequest{})
	if err != nil || ticket.Synced == 0 {
		t.Errorf("ticket is %+v, want a sync", ticket)
	}
}

// TestWriteFails has a write fail for a while. Nothing that it covers is acknowledged, puts are refused, fetches work,
// and maintenance ends the failure without losing anything.
func TestWriteFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault segmenttest.Fault
		want  error
	}{
		{"EIO", segmenttest.Fault{Err: syscall.EIO}, syscall.EIO},
		{"short write", segmenttest.Fault{Err: syscall.EIO, Bytes: 20}, syscall.EIO},
		{"ENOSPC", segmenttest.Fault{Err: syscall.ENOSPC, Bytes: 7}, ErrOutOfDisk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, fsys := newQuiet(t)
			e.journal.Prepare()
			mustPut(t, e, "q", "a")
			mustPut(t, e, "q", "b")
			ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("c")})
			if err != nil {
				t.Fatal(err)
			}
			fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
				if op.Kind == segmenttest.OpWriteAt {
					return tt.fault
				}
				return segmenttest.Fault{}
			})
			for range 2 {
				err := e.Commit(ticket)
				if !errors.Is(err, ErrJournal) || !errors.Is(err, tt.want) {
					t.Errorf("Commit = %v, want ErrJournal and %v", err, tt.want)
				}
			}
			err = tryPut(e, "q", "refused")
			if !errors.Is(err, ErrJournal) && !errors.Is(err, ErrOutOfDisk) {
				t.Errorf("Put = %v, want ErrJournal or ErrOutOfDisk", err)
			}
			var got copied
			f, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &got)
			if err != nil || string(got.item.Data) != "a" {
				t.Errorf("Fetch = %q, %v, want a", got.item.Data, err)
			}
			if err := e.Commit(f.Ticket); !errors.Is(err, ErrJournal) {
				t.Errorf("Commit of the fetch = %v, want ErrJournal", err)
			}
			if s := e.Stats(); !s.JournalFailing {
				t.Error("Stats do not say that the journal fails")
			}
			wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "a b")
			fsys.SetFault(nil)
			e.retryJournal()
			e.retryJournal() // after a full disk puts are accepted when a segment is prepared
			mustCommit(t, e, ticket)
			mustCommit(t, e, f.Ticket)
			mustPut(t, e, "q", "d")
			if s := e.Stats(); s.JournalFailing {
				t.Error("Stats say that the journal fails")
			}
			wantItems(t, openQuiet(t, testOptions(fsys.Kill())), "q", "b c d")
		})
	}
}

// TestWriteFailsEverywhere fails each of the file system's calls in a run, once, while maintenance does its work. What
// was acknowledged survives a power cut, and a failure that does not poison the log ends.
func TestWriteFailsEverywhere(t *testing.T) {
	for kind := segmenttest.OpCreate; kind <= segmenttest.OpDatasync; kind++ {
		for n := 1; ; n++ {
			fsys := segmenttest.New()
			e := openQuiet(t, testOptions(fsys))
			from := fsys.Calls(kind)
			fsys.SetFault(segmenttest.FailNth(kind, from+n, syscall.EIO))
			var acknowledged []string
			for i := range 40 {
				data := fmt.Sprintf("%d %s", i, strings.Repeat("x", 400))
				if tryPut(e, "q", data) == nil {
					acknowledged = append(acknowledged, data)
				}
				if i%8 == 7 {
					e.retryJournal()
				}
			}
			image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
			again := openQuiet(t, testOptions(image))
			checkSubsequence(t, acknowledged, queued(again, "q"))
			if kind != segmenttest.OpDatasync && e.journal.Failing() {
				t.Errorf("failure %d of %s does not end", n, kind)
			}
			stop := fsys.Calls(kind) < from+n
			fsys.SetFault(nil)
			if err := e.Close(); err != nil && !errors.Is(err, segment.ErrPoisoned) {
				t.Errorf("Close after failure %d of %s = %v", n, kind, err)
			}
			if stop {
				break
			}
		}
	}
}

// checkSubsequence checks that all of want is in got, in the same order, and what else got has is
// in order too.
func checkSubsequence(t *testing.T, want, got []string) {
	t.Helper()
	last := -1
	for _, data := range got {
		var i int
		fmt.Sscan(data, &i)
		if i <= last {
			t.Errorf("item %d follows item %d", i, last)
		}
		last = i
		if len(want) > 0 && want[0] == data {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("acknowledged item %.10q is lost", want[0])
	}
}

// TestSyncFails has a sync fail, and every attempt to move the journal after it. Nothing is synced
// again in that log: what waited gets an error, now and later, and puts are refused.
func TestSyncFails(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "q", "a")
	ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	const kind = segmenttest.OpDatasync
	fsys.SetFault(segmenttest.FailAllFrom(kind, 0, syscall.EIO))
	for range 3 {
		if err := e.Commit(ticket); !errors.Is(err, ErrJournal) {
			t.Errorf("Commit = %v, want ErrJournal", err)
		}
		e.retryJournal()
		e.journal.Mark()
	}
	if err := tryPut(e, "q", "c"); !errors.Is(err, ErrJournal) {
		t.Errorf("Put = %v, want ErrJournal", err)
	}
	for _, want := range []string{"a", "b"} {
		var got copied
		f, err := e.Fetch(Now(), []byte("q"), FetchRequest{}, &got)
		if err != nil || string(got.item.Data) != want {
			t.Errorf("Fetch = %q, %v, want %s", got.item.Data, err, want)
		}
		err = e.Commit(f.Ticket)
		if !errors.Is(err, ErrJournal) || !errors.Is(err, segment.ErrPoisoned) {
			t.Errorf("Commit of a fetch = %v, want ErrJournal", err)
		}
	}
	image := fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	wantItems(t, openQuiet(t, testOptions(image)), "q", "a")
	if err := e.Close(); !errors.Is(err, segment.ErrPoisoned) {
		t.Errorf("Close = %v, want the poisoned log", err)
	}
}

// TestMarkFails: a sync that fails in the background counts as one that a client waited for.
func TestMarkFails(t *testing.T) {
	e, fsys := newQuiet(t)
	mustPut(t, e, "q", "a")
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	e.journal.Mark()
	if _, err := e.Put(Now(), []byte("q"), PutRequest{}); !errors.Is(err, ErrJournal) {
		t.Errorf("Put = %v, want ErrJournal", err)
	}
	if err := e.Close(); err == nil {
		t.Error("Close = nil, want an error")
	}
}

// TestDiskFull fills the disk: puts are refused before anything is applied, while there is still room for removes. The
// queue can be drained; then puts are accepted again, without anybody's help.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const segmentSize = 4 << 20
		e, fsys := openBusy(t, func(o *Options) { o.SegmentSize = segmentSize })
		fsys.DiskFull(3*segmentSize + segmentSize/2)
		data := strings.Repeat("x", 100_000)
		puts := 0
		for {
			before := e.journal.End()
			err := tryPut(e, "q", data)
			synctest.Wait() // for the next segment
			if err != nil {
				if !errors.Is(err, ErrOutOfDisk) || errors.Is(err, ErrJournal) {
					t.Errorf("Put = %v, want ErrOutOfDisk alone", err)
				}
				if e.journal.End() != before {
					t.Error("a refused put was journaled")
				}
				break
			}
			puts++
		}
		s, _ := e.QueueStats(Now(), []byte("q"))
		if s.Items != int64(puts) || puts < 3*segmentSize/2/len(data) {
			t.Errorf("%d items are queued, %d were put", s.Items, puts)
		}
		if s := e.Stats(); !s.DiskFull || s.JournalFailing {
			t.Errorf("Stats = %+v, want a full disk and nothing that failed", s)
		}
		for i := range puts {
			if got := mustGet(t, e, "q"); got != data { // each is committed
				t.Fatalf("item %d has %d bytes", i, len(got))
			}
			if i == puts/2 {
				left := queued(openQuiet(t, testOptions(fsys.Kill())), "q")
				if len(left) != puts-i-1 {
					t.Errorf("after %d gets and a kill %d items are left", i+1, len(left))
				}
			}
		}
		after(trimInterval + 2*maintainInterval)
		if err := tryPut(e, "q", data); err != nil {
			t.Errorf("Put after the drain = %v", err)
		}
		if s := e.Stats(); s.DiskFull {
			t.Error("Stats still say that the disk is full")
		}
	})
}

// TestDiskFullInTail has the tail itself run out of disk although the next segment is prepared, as
// it can on a disk that reserves nothing.
func TestDiskFullInTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, fsys := openBusy(t, func(*Options) {})
		mustPut(t, e, "q", "a")
		n := fsys.Calls(segmenttest.OpWriteAt)
		fsys.SetFault(segmenttest.FailNth(segmenttest.OpWriteAt, n+1, syscall.ENOSPC))
		err := tryPut(e, "q", "b")
		if !errors.Is(err, ErrOutOfDisk) || !errors.Is(err, ErrJournal) {
			t.Errorf("Put = %v, want ErrOutOfDisk and ErrJournal", err)
		}
		fsys.SetFault(nil)
		after(3 * maintainInterval)
		if err := tryPut(e, "q", "c"); err != nil {
			t.Errorf("Put = %v, want that it recovers by itself", err)
		}
		wantItems(t, e, "q", "a b c")
	})
}

// TestLargeBatch gathers more than one frame takes before it commits.
func TestLargeBatch(t *testing.T) {
	fsys := segmenttest.New()
	o := testOptions(fsys)
	o.SegmentSize = 8 << 20
	e := openQuiet(t, o)
	now := Now()
	var want []string
	var ticket Ticket
	for i := range 3000 {
		data := fmt.Sprint(i, strings.Repeat("x", 1000))
		u, err := e.Put(now, []byte("q"), PutRequest{Data: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		ticket = ticket.Merge(u)
		want = append(want, data)
		if i%3 == 0 {
			f, err := e.Fetch(now, []byte("q"), FetchRequest{}, &copied{})
			if err != nil {
				t.Fatal(err)
			}
			ticket, want = ticket.Merge(f.Ticket), want[1:]
		}
	}
	writes := fsys.Calls(segmenttest.OpWriteAt)
	mustCommit(t, e, ticket)
	if n := fsys.Calls(segmenttest.OpWriteAt) - writes; n < 3 {
		t.Errorf("%d frames were written, want at least 3", n)
	}
	if got := queued(kill(t, e), "q"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after a kill %d items are left, want %d, or others", len(got), len(want))
	}
}
