package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// The machine's clock is set back by an hour just behind a put. The put is synced within its period all the same, as
// clocks of the wall do not measure how long something takes.
func TestPeriodicSyncAfterClockStep(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			e, fsys := openBusy(t, func(o *Options) {
				o.Settings.Default.Sync = SyncEvery(2 * time.Second)
			})
			before := Now().After(-step) // what the clock said until it was set
			ticket, err := e.Put(before, []byte("q"), PutRequest{Data: []byte("a")})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
			after(2 * time.Second)
			if got := afterCut(t, fsys); got != "a" {
				t.Errorf("clock set by %v: after the period a power cut leaves %q, want a", step, got)
			}
		})
	}
}

// A clock that jumps moves expiries with it, and nothing else. No item is lost, given twice or out of order, and no age
// is below zero.
func TestClockSteps(t *testing.T) {
	start := Now()
	for _, tt := range []struct {
		name  string
		steps []time.Duration // the clock's distance from start when each item is put
		look  time.Duration   // … and when they are fetched
		want  string
	}{
		{"back", []time.Duration{0, -time.Hour, -2 * time.Hour}, -3 * time.Hour, "0 1 2"},
		{"forth", []time.Duration{0, time.Hour, 2 * time.Hour}, 2 * time.Hour, "1 2"},
		{"forth and back", []time.Duration{0, 5 * time.Hour, 0}, 0, "1 2"}, // 0 expired meanwhile
		{"back and forth", []time.Duration{0, -5 * time.Hour, 0}, time.Minute, "0 1 2"},
		{"far behind all", []time.Duration{0, time.Hour}, 1000 * time.Hour, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newQuiet(t)
			for i, step := range tt.steps {
				now := start.After(step)
				p := PutRequest{Data: []byte{byte('0' + i)}}
				if tt.name != "back and forth" {
					p.Expiry = now.After(90 * time.Minute)
				}
				ticket, err := e.Put(now, []byte("q"), p)
				if err != nil {
					t.Fatal(err)
				}
				mustCommit(t, e, ticket)
			}
			now := start.After(tt.look)
			if s, _ := e.QueueStats(now, []byte("q")); s.Age < 0 {
				t.Errorf("age is %d", s.Age)
			}
			var got collected
			for {
				f, err := e.Fetch(now, []byte("q"), FetchRequest{Access: Take}, &got)
				if err != nil {
					break
				}
				mustCommit(t, e, f.Ticket)
			}
			if string(got) != tt.want {
				t.Errorf("fetched %q, want %q", string(got), tt.want)
			}
			verify(t, e)
		})
	}
}

// TestClockStepsAside has the clock of the wall be hours off while the engine's own goes on. No delay ends early, no
// lease lapses early, and both end on time.
func TestClockStepsAside(t *testing.T) {
	for _, step := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		e, _ := newQuiet(t)
		steady := Now()
		wall := steady
		e.precise = func() (Time, time.Duration) { return steady, 0 }
		e.spool.now = func() Time { return wall }
		p := PutRequest{Data: []byte("a"), Extra: &PutExtra{Delay: 10 * time.Second}}
		ticket, err := e.Put(wall, []byte("q"), p)
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		wall = wall.After(step)
		pass := func(d time.Duration) {
			steady, wall = steady.After(d), wall.After(d)
			e.wakeQueues()
		}
		lease := func(want error) (about Delivery) {
			t.Helper()
			f := FetchRequest{Access: Lease, Lease: 30 * time.Second, Delivery: &about}
			if _, err := e.Fetch(wall, []byte("q"), f, &copied{}); err != want {
				t.Errorf("clock set by %v: lease = %v, want %v", step, err, want)
			}
			return about
		}
		pass(9 * time.Second)
		lease(ErrEmpty)
		pass(1001 * time.Millisecond)
		if about := lease(nil); about.Deliveries != 1 {
			t.Errorf("clock set by %v: delivered as %+v", step, about)
		}
		wall = wall.After(-2 * step)
		pass(29 * time.Second)
		lease(ErrEmpty)
		pass(1001 * time.Millisecond)
		if about := lease(nil); about.Deliveries != 2 {
			t.Errorf("clock set by %v: after the lease has lapsed delivered as %+v", step, about)
		}
	}
}

// collected is a Receiver that strings items together.
type collected string

func (c *collected) Receive(it Item) bool {
	if *c != "" {
		*c += " "
	}
	*c += collected(it.Data)
	return true
}

// TestClockStepsOverRestart has the clock of the wall be hours off when the next process starts, forward and back. A
// delay and a lease of the process before end when the clock that it began with says so. From there they go on with a
// clock that nobody sets. A receipt is good until then.
func TestClockStepsOverRestart(t *testing.T) {
	const delay, hold = 2 * time.Hour, 4 * time.Hour
	for _, tt := range []struct {
		step    time.Duration // between the two processes
		delayed time.Duration // how long the second one waits for what was delayed; 0: it is there at once
		leased  time.Duration // likewise for what was leased
	}{
		{0, delay, hold},
		{-time.Hour, delay + time.Hour, hold + time.Hour},
		{time.Hour, delay - time.Hour, hold - time.Hour},
		{3 * time.Hour, 0, hold - 3*time.Hour},
		{100 * time.Hour, 0, 0},
	} {
		for _, kill := range []bool{false, true} {
			fsys := newFS()
			steady := Now() // of the process at hand
			start := func() *Engine {
				e := openQuiet(t, testOptions(fsys))
				e.precise = func() (Time, time.Duration) { return steady, 0 }
				e.spool.now = func() Time { return steady }
				return e
			}
			e := start()
			put := func(name string, d time.Duration) {
				p := PutRequest{Data: []byte(name)}
				if d > 0 {
					p.Extra = &PutExtra{Delay: d}
				}
				ticket, err := e.Put(steady, []byte(name), p)
				if err != nil {
					t.Fatal(err)
				}
				mustCommit(t, e, ticket)
			}
			put("delayed", delay)
			put("leased", 0)
			var about Delivery
			f, err := e.Fetch(steady, []byte("leased"), FetchRequest{Access: Lease, Lease: hold, Delivery: &about}, &copied{})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, f.Ticket)
			if kill {
				fsys = fsys.Kill()
			} else if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			steady = steady.After(tt.step)
			e = start()
			began := steady
			is := func(name string, after time.Duration) {
				t.Helper()
				there := func() bool {
					e.wakeQueues()
					_, err := e.Fetch(steady, []byte(name), FetchRequest{Access: Peek}, &copied{})
					return err == nil
				}
				if after > 0 {
					if steady = began.After(after - time.Millisecond); there() {
						t.Errorf("clock set by %v, killed %v: %s is there before %v", tt.step, kill, name, after)
					}
				}
				if steady = began.After(after + time.Millisecond); !there() {
					t.Errorf("clock set by %v, killed %v: %s is not there after %v", tt.step, kill, name, after)
				}
			}
			is("delayed", tt.delayed)
			if tt.leased > 0 {
				_, _, err := e.ExtendLease(steady, []byte("leased"), about.Receipt, tt.leased-steady.Std().Sub(began.Std()))
				if err != nil {
					t.Errorf("clock set by %v, killed %v: extending the lease = %v", tt.step, kill, err)
				}
			}
			is("leased", tt.leased)
			verify(t, e)
		}
	}
}
