package loadtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/testserver"
)

// TestRunDrains runs producers and consumers at once, in every way that items can be consumed:
// everything that was put is got, and nothing is left.
func TestRunDrains(t *testing.T) {
	for _, tt := range []struct {
		name   string
		thrift bool
		put    Group
		get    Group
	}{
		{"get", false, Group{}, Group{Operation: Get}},
		{"get, pipelined", false, Group{Pipeline: 8}, Group{Operation: Get, Pipeline: 4}},
		{"open and close", false, Group{}, Group{Operation: Consume, Pipeline: 3}},
		{"close and open", false, Group{}, Group{Operation: CloseOpen}},
		{"close and open, killed", false, Group{}, Group{Operation: CloseOpen, Kill: 0.2}},
		{"monitor", false, Group{}, Group{Operation: Monitor, Burst: 7}},
		{"two queues", false, Group{Queues: 2, Pipeline: 4}, Group{Operation: Get, Queues: 2}},
		{"thrift get", true, Group{}, Group{Operation: Get}},
		{"thrift bursts", true, Group{Burst: 5}, Group{Operation: Get, Burst: 3, Pipeline: 2}},
		{"thrift open and close", true, Group{}, Group{Operation: Consume, Pipeline: 3}},
		{"thrift lease", true, Group{Burst: 4}, Group{Operation: Lease, Burst: 6}},
		{"thrift lease, leaking", true, Group{}, Group{Operation: Lease, Leak: 0.1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, protocol := testserver.New(t, nil), Memcache
			if tt.thrift {
				s, protocol = testserver.NewThrift(t, tt.get.Leak > 0), Thrift
			}
			tt.put.Connections, tt.put.Operations = 4, 600
			tt.get.Connections, tt.get.Drain = 4, true
			ledger := NewLedger(7, false)
			opts := Options{Addr: s.Addr(), Protocol: protocol, Ledger: ledger, Threads: 2,
				Groups: []Group{tt.put, tt.get}}
			got, err := Run(context.Background(), opts)
			if err != nil {
				t.Fatal(err)
			}
			put := 600 * int64(max(tt.put.Burst, 1))
			c := ledger.Counts()
			if c.Put != put || c.Got-c.Redelivered != put || c.Owed != 0 {
				t.Errorf("Counts = %+v, want %d put and got", c, put)
			}
			if tt.get.Leak > 0 && c.Redelivered == 0 {
				t.Error("nothing was delivered again, although reads leaked")
			}
			if err := ledger.Check(); err != nil {
				t.Error(err)
			}
			if n := got.Delivery.TotalCount(); n != c.Got {
				t.Errorf("%d delivery times, want %d", n, c.Got)
			}
			if n := s.Depth(); n != 0 {
				t.Errorf("%d items left", n)
			}
		})
	}
}

// TestRunFindsWhatIsWrong breaks what a server promises, one promise at a time: the negative
// control of every check.
func TestRunFindsWhatIsWrong(t *testing.T) {
	set := func(old, new string) func(int, string) (string, bool) {
		return func(n int, due string) (string, bool) { return strings.Replace(due, old, new, 1), true }
	}
	lose := func(n int, due string) (string, bool) {
		if strings.Contains(due, ".0000000005.") {
			return "END\r\n", true
		}
		return due, true
	}
	last := ""
	twice := func(n int, due string) (string, bool) {
		if strings.HasPrefix(due, "VALUE") && last != "" {
			return last, true
		}
		if strings.Contains(due, ".0000000003.") {
			last = due
		}
		return due, true
	}
	for _, tt := range []struct {
		name   string
		tamper func(int, string) (string, bool)
		want   string
	}{
		{"damaged letter", set("abcd", "abdc"), "damaged value"},
		{"other producer", set("0000.", "0001."), "not put to this queue"},
		{"other run", set("VALUE load 0 80\r\n", "VALUE load 0 80\r\nffff"), "wrong reply"},
		{"never put", set(".0000000009.", ".00000000ff."), "damaged value"},
		{"lost", lose, "item 6 out of order, due is 5"},
		{"twice", twice, "item 3 for the second time"},
	} {
		last = ""
		s := testserver.New(t, tt.tamper)
		opts := one(s.Addr(), Group{Operations: 20, ItemSize: 80})
		opts.Ledger = NewLedger(0, false)
		if _, err := Run(context.Background(), opts); err != nil {
			t.Fatal(err)
		}
		opts.Groups[0] = Group{Operation: Get, Operations: 20, ItemSize: 80}
		_, err := Run(context.Background(), opts)
		var wrong *ReplyError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestRunNamesLostItems has a server swallow an item and answer as if it were stored.
func TestRunNamesLostItems(t *testing.T) {
	s := testserver.New(t, nil)
	s.SetTamper(func(n int, due string) (string, bool) {
		if strings.Contains(due, ".0000000011.") {
			return "END\r\n", true
		}
		return due, true
	})
	ledger := NewLedger(1, false)
	opts := Options{Addr: s.Addr(), Ledger: ledger, DrainWait: tickInterval, Groups: []Group{
		{Operations: 40}, {Operation: Get, Connections: 2, Drain: true},
	}}
	_, err := Run(context.Background(), opts)
	var lost *LostError
	want := Item{Queue: "load", Producer: 0, Seq: 0x11}
	if !errors.As(err, &lost) || lost.Lost != 1 || lost.Items[0] != want {
		t.Fatalf("Run = %v, want that %v is lost", err, want)
	}
	if text := lost.Error(); !strings.Contains(text, `item 17 of producer 0 in "load"`) {
		t.Errorf("Error() = %s, want it to name the item", text)
	}
}

// TestRunHits has consumers of a fixed number of items ask again after a miss.
func TestRunHits(t *testing.T) {
	s := testserver.New(t, nil)
	opts := Options{Addr: s.Addr(), Ledger: NewLedger(1, false), Groups: []Group{
		{Operations: 100, Rate: 5000},
		{Operation: Consume, Connections: 3, Operations: 99, Hits: true},
	}}
	got, err := Run(context.Background(), opts)
	if err != nil || got.Got() != 99 || s.Depth() != 1 {
		t.Errorf("%d got, %d left, %v, want 99 and 1", got.Got(), s.Depth(), err)
	}
	opts.Groups = []Group{{Operation: Get, Operations: 2, Hits: true}}
	opts.DrainWait = tickInterval
	if _, err := Run(context.Background(), opts); !errors.Is(err, ErrStalled) {
		t.Errorf("Run that wants more than was put = %v, want ErrStalled", err)
	}
}

// TestRunFanout has every child get what is put to its parent.
func TestRunFanout(t *testing.T) {
	s := testserver.New(t, nil)
	s.SetTamper(func(n int, due string) (string, bool) {
		if due == "STORED\r\n" {
			s.Put("load+a", s.Last("load"))
		}
		return due, true
	})
	ledger := NewLedger(1, false)
	opts := Options{Addr: s.Addr(), Ledger: ledger, DrainWait: tickInterval, Groups: []Group{
		{Operations: 50, Fanout: []string{"load+a"}},
		{Operation: Get, Drain: true},
		{Operation: Get, Drain: true, Queue: "load+a"},
	}}
	if _, err := Run(context.Background(), opts); err != nil {
		t.Fatal(err)
	}
	if c := ledger.Counts(); c.Put != 50 || c.Got != 100 {
		t.Errorf("Counts = %+v, want 50 put and 100 got", c)
	}
	opts.Groups[0].Fanout = []string{"load+a", "load+b"}
	opts.Groups = append(opts.Groups, Group{Operation: Get, Drain: true, Queue: "load+b"})
	opts.Ledger = NewLedger(1, false)
	_, err := Run(context.Background(), opts)
	var lost *LostError
	if !errors.As(err, &lost) || lost.Lost != 50 || lost.Items[0].Queue != "load+b" {
		t.Errorf("Run with a child that gets nothing = %v, want 50 items of load+b lost", err)
	}
}

// TestRunForeign finds items of an earlier run in the queue.
func TestRunForeign(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		s := testserver.New(t, nil)
		for seed := range uint64(2) {
			opts := one(s.Addr(), Group{Operations: 10})
			opts.Ledger = NewLedger(seed, foreign)
			if _, err := Run(context.Background(), opts); err != nil {
				t.Fatal(err)
			}
			if seed == 0 {
				continue
			}
			opts.Groups = []Group{{Operation: Get, Drain: true}}
			_, err := Run(context.Background(), opts)
			c := opts.Ledger.Counts()
			if !foreign && (err == nil || !strings.Contains(err.Error(), "this run did not put")) {
				t.Errorf("Run = %v, want an item that this run did not put", err)
			}
			if foreign && (err != nil || c.Foreign != 10 || c.Got != 10) {
				t.Errorf("Run = %+v, %v, want 10 foreign and 10 got", c, err)
			}
		}
	}
}

// TestRunRate checks that the load keeps its rate, whatever the replies do. A stall of the server shows in the latency
// of every request that was due meanwhile.
func TestRunRate(t *testing.T) {
	const stall = 60 * time.Millisecond
	for _, poisson := range []bool{false, true} {
		s := testserver.New(t, nil)
		stalled := make(chan struct{})
		s.SetTamper(func(n int, due string) (string, bool) {
			if n == 20 {
				<-stalled
			}
			return due, true
		})
		timer := time.AfterFunc(stall, func() { close(stalled) })
		defer timer.Stop()
		opts := one(s.Addr(), Group{Operations: 100, Rate: 1000, Poisson: poisson})
		opts.Seed = 3
		got, err := Run(context.Background(), opts)
		if err != nil {
			t.Fatal(err)
		}
		// The stall ends 60 ms after the start, so that tens of requests were due during it.
		late := got.Latency().TotalCount() - countBelow(got, 5*time.Millisecond)
		if got.Operations() != 100 || late < 15 {
			t.Errorf("poisson %v: %d operations, %d late, want 100 and at least 15", poisson,
				got.Operations(), late)
		}
		if got.Lag == nil || got.Lag.TotalCount() != 100 {
			t.Errorf("poisson %v: lag %v, want 100 values", poisson, got.Lag)
		}
	}
}

func countBelow(r Result, d time.Duration) (n int64) {
	for _, bar := range r.Latency().Distribution() {
		if bar.To < int64(d) {
			n += bar.Count
		}
	}
	return n
}

// TestRunLateAnswer answers a consumer that waits behind the last item when the run has given up that wait, and goes on
// with another connection.
func TestRunLateAnswer(t *testing.T) {
	late := make(chan struct{})  // the wait was given up
	other := make(chan struct{}) // the answer to it was sent
	sent := sync.OnceFunc(func() { close(other) })
	put := make(chan string, 1)
	s := testserver.Answering(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			switch {
			case strings.HasPrefix(line, "set "):
				data, _ := in.ReadString('\n')
				io.WriteString(c, "STORED\r\n")
				put <- strings.TrimSpace(data)
			case strings.HasPrefix(line, "get other"):
				<-other
				io.WriteString(c, "END\r\n")
			default:
				select {
				case item := <-put:
					io.WriteString(c, testserver.Value("load", item))
				case <-late:
					io.WriteString(c, "END\r\n")
					sent()
				}
			}
		}
	})
	drained := 0 // looks that found the item fetched
	opts := Options{Addr: s.Addr(), Ledger: NewLedger(1, false), Threads: 1, Interval: tickInterval, Groups: []Group{
		{Operations: 1}, {Operation: Get, Wait: 5 * time.Second, Connections: 2, Drain: true},
		{Operation: Get, Operations: 1, Queue: "other"},
	}}
	opts.OnInterval = func(Interval) { // the thread has just looked at all connections
		if opts.Ledger.Counts().Got == 1 {
			if drained++; drained == 2 {
				close(late)
			}
		}
	}
	if got, err := Run(context.Background(), opts); err != nil || got.Got() != 1 {
		t.Errorf("%d got, %v, want 1", got.Got(), err)
	}
}
