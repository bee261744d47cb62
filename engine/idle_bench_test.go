package engine

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// idleQueues is how many queues BenchmarkIdleQueues makes.
const idleQueues = 100_000

// BenchmarkIdleQueues measures what queues cost that nobody uses: of the heap each, and of the
// processor all together, while the engine's background work goes on. One iteration opens an engine
// on queues that were made before, so the time is that of a start.
//
//	go test -run '^$' -bench IdleQueues -benchtime 1x ./engine
func BenchmarkIdleQueues(b *testing.B) {
	for _, tt := range []struct {
		name string
		use  func(e *Engine, now Time, name []byte) Ticket
	}{
		{"asked", askIdle},
		{"emptied", emptyIdle},
	} {
		b.Run("queues="+tt.name, func(b *testing.B) {
			o := Options{Dir: b.TempDir(), Settings: Settings{Default: DefaultQueueOptions()}}
			o.Settings.Default.Sync = SyncNever
			before := liveHeap()
			e := reopen(b, nil, o)
			for i := range idleQueues {
				name := fmt.Appendf(nil, "idle-queue-%06d", i)
				if err := e.Commit(tt.use(e, Now(), name)); err != nil {
					b.Fatal(err)
				}
			}
			live := liveHeap() - before
			for b.Loop() {
				e = reopen(b, e, o)
			}
			b.ReportMetric(float64(live)/idleQueues, "B/queue")
			b.ReportMetric(float64(liveHeap()-before)/idleQueues, "B/queue-restarted")
			b.ReportMetric(idleShare(time.Second)*100, "%CPU-idle")
			if err := e.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// askIdle asks a queue in vain, which makes it, as an event loop does.
func askIdle(e *Engine, now Time, name []byte) Ticket {
	f, _ := e.Fetch(now, name, FetchRequest{}, nil)
	e.Record([]Sample{{f.Meter, 90, 1, MissTime}})
	return f.Ticket
}

// emptyIdle puts to a queue and takes all out again.
func emptyIdle(e *Engine, now Time, name []byte) (t Ticket) {
	var d discard
	for i := range int64(3) {
		s, err := e.PutAll(now, name, []PutRequest{{Data: []byte("an item")}})
		if err != nil {
			panic(err)
		}
		t = t.Merge(s.Ticket)
		e.Record([]Sample{{s.Meter, 50 + 70*i, 1, PutTime}})
	}
	for i := range int64(3) {
		f, err := e.Fetch(now.After(time.Duration(i*i*20)*time.Millisecond), name, FetchRequest{}, &d)
		if err != nil {
			panic(err)
		}
		t = t.Merge(f.Ticket)
		e.Record([]Sample{{f.Meter, 60 + 90*i, 1, HitTime}})
	}
	return t.Merge(askIdle(e, now, name))
}

// reopen closes e, unless it is nil, and opens what it had.
func reopen(b *testing.B, e *Engine, o Options) *Engine {
	b.StopTimer()
	if e != nil {
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.StartTimer()
	e, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// liveHeap is how many bytes of the heap are in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // also what the first has only found to be finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// idleShare is the share of one processor that the process takes in so long a time.
func idleShare(d time.Duration) float64 {
	before, began := processorTime(), time.Now()
	<-time.After(d)
	return float64(processorTime()-before) / float64(time.Since(began))
}
