package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestDiscardOnDisk has puts need the room of a queue's oldest items while these are on disk alone. The queue drops
// them as soon as they have been read, without another put, and serves none of them.
func TestDiscardOnDisk(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*QueueOptions)
		want int // items that stay
	}{
		{"items", func(o *QueueOptions) { o.MaxItems = 40 }, 40},
		{"bytes", func(o *QueueOptions) { o.MaxSize = 30 * 40 }, 40},
		{"bytes, odd", func(o *QueueOptions) { o.MaxSize = 30*40 + 1 }, 41},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newQuiet(t, tiny, tt.set, func(o *QueueOptions) { o.DiscardOldWhenFull = true })
			var all []string
			for i := range 10 {
				if i%3 == 2 {
					spoolSome(e, 3)
				} else {
					spoolAll(e)
				}
				all = append(all, putMany(t, e, "q", 20*i, 20)...)
			}
			spoolAll(e)
			s, _ := e.QueueStats(Now(), []byte("q"))
			if s.Items != int64(tt.want) || s.Discarded != int64(len(all)-tt.want) {
				t.Errorf("%d items are there, %d were discarded, want %d", s.Items, s.Discarded, tt.want)
			}
			all = append(all, putMany(t, e, "q", 200, 30)...)
			want := all[len(all)-tt.want:]
			verify(t, e)
			if got := drain(t, e, "q"); !slices.Equal(got, want) {
				t.Errorf("served %d items from %.30s on, want %d from %s", len(got), got, len(want), want[0])
			}
		})
	}
}

// TestDiscardAtClose: what puts have to drop and is on disk alone when the engine is closed does not
// come back after a restart.
func TestDiscardAtClose(t *testing.T) {
	for _, spooled := range []int{0, 1, 3, 1000} {
		options := func(o *QueueOptions) {
			tiny(o)
			o.MaxItems, o.DiscardOldWhenFull = 40, true
		}
		e, fsys := newQuiet(t, options)
		all := putMany(t, e, "q", 0, 40)
		spoolAll(e)
		all = append(all, putMany(t, e, "q", 40, 30)...)
		spoolSome(e, spooled)
		all = append(all, putMany(t, e, "q", 70, 10)...)
		if e.items("q") == 40 {
			t.Error("all that is to be dropped was in memory")
		}
		if err := e.Close(); err != nil {
			t.Fatalf("Close = %v", err)
		}
		e = openQuiet(t, testOptions(fsys, options))
		if got := drain(t, e, "q"); !slices.Equal(got, all[40:]) {
			t.Errorf("spooled %d: %d items are there after a restart, want the newest 40", spooled, len(got))
		}
	}
}

// TestExpireOnDisk: one FlushExpired takes the expired items that are on disk alone, too, as they
// are read, no more than MaxExpireSweep allows.
func TestExpireOnDisk(t *testing.T) {
	for _, limit := range []int64{1 << 30, 50} {
		e, _ := newQuiet(t)
		settings := Settings{Default: DefaultQueueOptions(), Queues: make(map[string]QueueOptions)}
		o := DefaultQueueOptions()
		o.MaxMemorySize, o.MaxAge, o.ExpireTo, o.MaxExpireSweep = 100, time.Minute, "dead", limit
		settings.Queues["q"] = o
		if err := e.Reload(settings); err != nil {
			t.Fatal(err)
		}
		now := Now()
		put := func(at Time, first, n int) {
			for i := range n {
				ticket, err := e.Put(at, []byte("q"), PutRequest{Data: fmt.Appendf(nil, "%030d", first+i)})
				if err != nil {
					t.Fatal(err)
				}
				mustCommit(t, e, ticket)
			}
		}
		put(now-120_000, 0, 100)
		put(now, 100, 20)
		e.spool.now = func() Time { return now }
		spoolAll(e)
		gone, _ := e.FlushExpired(now, []byte("q"))
		spoolAll(e)
		verify(t, e)
		want := min(limit, 100)
		q, _ := e.QueueStats(now, []byte("q"))
		dead, _ := e.QueueStats(now, []byte("dead"))
		if gone > want || q.Items != 120-want || q.Expired != want || dead.Items != want {
			t.Errorf("limit %d: FlushExpired = %d; %d items left, %d expired, %d moved, want %d moved",
				limit, gone, q.Items, q.Expired, dead.Items, want)
		}
	}
}

// TestFlushOnDisk: a flush moves the expired items that are on disk alone, and behind them, and drops the others. New
// items do not wait for that, and the runs go once it is done.
func TestFlushOnDisk(t *testing.T) {
	for _, spooled := range []int{0, 3, 1000} {
		e, fsys := newQuiet(t)
		o := DefaultQueueOptions()
		o.MaxMemorySize, o.MaxAge, o.ExpireTo = 100, time.Minute, "dead"
		settings := Settings{Default: DefaultQueueOptions(), Queues: map[string]QueueOptions{"q": o}}
		if err := e.Reload(settings); err != nil {
			t.Fatal(err)
		}
		now := Now()
		e.spool.now = func() Time { return now }
		for i := range 120 {
			added := now
			if i < 90 {
				added -= 120_000
			}
			data := fmt.Appendf(nil, "%030d", i)
			ticket, err := e.Put(added, []byte("q"), PutRequest{Data: data})
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
			spoolSome(e, spooled)
		}
		ticket, err := e.Flush(now, []byte("q"), "")
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
		if n := e.items("q"); n != 0 {
			t.Errorf("%d items are left of a queue that was flushed", n)
		}
		mustPut(t, e, "q", "new")
		spoolAll(e)
		verify(t, e)
		if s, _ := e.QueueStats(now, []byte("dead")); s.Items != 90 {
			t.Errorf("spooled %d: %d items were moved, want 90", spooled, s.Items)
		}
		if s, _ := e.QueueStats(now, []byte("q")); s.Expired != 90 || s.Items != 1 {
			t.Errorf("spooled %d: %+v", spooled, s)
		}
		if got := mustGet(t, e, "q"); got != "new" {
			t.Errorf("got %q, want the new item", got)
		}
		if spoolAll(e); len(runFiles(fsys)) > 0 {
			t.Errorf("%q are left", runFiles(fsys))
		}
		again := kill(t, e)
		if n := again.items("dead"); n != 90 || again.items("q") != 0 {
			t.Errorf("after a kill %d items are there, and %d of the flushed queue", n, again.items("q"))
		}
	}
}
