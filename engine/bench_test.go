package engine

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// commitEvery is how many operations share a commit in the benchmarks, as those of one turn of an
// event loop do.
const commitEvery = 32

// discard is a Receiver that reads the item and forgets it.
type discard struct{ bytes int }

func (d *discard) Receive(it Item) bool {
	d.bytes += len(it.Data)
	return true
}

// benchEngine is an engine on the real file system that never syncs: the figures are those of the
// engine, not of the disk.
func benchEngine(b *testing.B) *Engine {
	o := Options{Dir: b.TempDir(), Settings: Settings{Default: DefaultQueueOptions()}}
	o.Settings.Default.Sync = SyncNever
	e, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	return e
}

// bencher does what a benchmark measures, on one queue, for one goroutine. It panics on errors.
type bencher struct {
	e     *Engine
	name  []byte
	data  []byte
	now   Time
	d     discard
	n     int
	about Delivery
}

func newBencher(e *Engine, name string, size int) *bencher {
	return &bencher{e: e, name: []byte(name), data: make([]byte, size), now: Now()}
}

// done commits every so often.
func (b *bencher) done(t Ticket) {
	if b.n++; b.n%commitEvery == 0 {
		if err := b.e.Commit(t); err != nil {
			panic(err)
		}
	}
}

func (b *bencher) put() Ticket {
	t, err := b.e.Put(b.now, b.name, PutRequest{Data: b.data})
	if err != nil {
		panic(err)
	}
	return t
}

// putAll puts at once what makes up a turn.
func (b *bencher) putAll(puts []PutRequest) {
	for i := range puts {
		puts[i] = PutRequest{Data: b.data}
	}
	s, err := b.e.PutAll(b.now, b.name, puts)
	if s.Count != len(puts) || err != nil {
		panic(err)
	}
	if err := b.e.Commit(s.Ticket); err != nil {
		panic(err)
	}
}

func (b *bencher) fetch(f FetchRequest) Fetched {
	got, err := b.e.Fetch(b.now, b.name, f, &b.d)
	if err != nil {
		panic(err)
	}
	return got
}

func (b *bencher) take(n int) {
	for range n {
		b.done(b.fetch(FetchRequest{}).Ticket)
	}
}

func (b *bencher) putGet() { b.done(b.put().Merge(b.fetch(FetchRequest{}).Ticket)) }

func (b *bencher) openConfirm() {
	b.put()
	t, _ := b.e.Confirm(b.now, b.fetch(FetchRequest{Access: OpenRead}).Read)
	b.done(t)
}

// bySize runs f for the sizes that all benchmarks of queues have.
func bySize(b *testing.B, f func(b *testing.B, size int)) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64B", 64}, {"1KiB", 1 << 10}} {
		b.Run("size="+size.name, func(b *testing.B) {
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			f(b, size.bytes)
		})
	}
}

// BenchmarkPut puts; the queue is flushed whenever it holds 16 MiB.
func BenchmarkPut(b *testing.B) {
	bySize(b, func(b *testing.B, size int) {
		p := newBencher(benchEngine(b), "q", size)
		for b.Loop() {
			p.done(p.put())
			if p.n%(16<<20/size) == 0 {
				b.StopTimer()
				p.e.Flush(p.now, p.name, "")
				b.StartTimer()
			}
		}
	})
}

// BenchmarkPutAll is BenchmarkPut with all puts of a turn at once; an operation is one of them.
func BenchmarkPutAll(b *testing.B) {
	bySize(b, func(b *testing.B, size int) {
		p := newBencher(benchEngine(b), "q", size)
		puts := make([]PutRequest, commitEvery)
		for i := 0; b.Loop(); i++ {
			if i%commitEvery == 0 {
				p.putAll(puts)
			}
			if i%(16<<20/size) == 0 {
				b.StopTimer()
				p.e.Flush(p.now, p.name, "")
				b.StartTimer()
			}
		}
	})
}

// BenchmarkGet takes from a queue that is filled up whenever it is empty.
func BenchmarkGet(b *testing.B) {
	bySize(b, func(b *testing.B, size int) {
		p := newBencher(benchEngine(b), "q", size)
		left := 0
		for b.Loop() {
			if left == 0 {
				b.StopTimer()
				for left = range 16 << 20 / size {
					p.done(p.put())
				}
				b.StartTimer()
			}
			p.done(p.fetch(FetchRequest{}).Ticket)
			left--
		}
	})
}

func BenchmarkPutGet(b *testing.B) {
	bySize(b, func(b *testing.B, size int) {
		p := newBencher(benchEngine(b), "q", size)
		for b.Loop() {
			p.putGet()
		}
	})
}

func BenchmarkOpenConfirm(b *testing.B) {
	bySize(b, func(b *testing.B, size int) {
		p := newBencher(benchEngine(b), "q", size)
		for b.Loop() {
			p.openConfirm()
		}
	})
}

// collector is a waiter's owner that collects where a loop would.
type collector struct {
	Waiter
	notified int
}

func (c *collector) WaitEnded(*Waiter) { c.notified++ }

// waiterHandoff waits, puts, and collects what the put handed over.
func (b *bencher) waiterHandoff(c *collector) {
	f, err := b.e.Fetch(b.now, b.name, FetchRequest{Waiter: &c.Waiter}, nil)
	if err != ErrEmpty || !f.Waiting {
		panic(fmt.Sprintf("Fetch = %v, want that it waits", err))
	}
	t := b.put()
	u, ok := b.e.Collect(b.now, c.Read, FetchRequest{Access: Take}, &b.d)
	if !ok {
		panic("nothing to collect")
	}
	b.done(t.Merge(u))
}

func BenchmarkWaiterHandoff(b *testing.B) {
	bySize(b, func(b *testing.B, size int) {
		p := newBencher(benchEngine(b), "q", size)
		c := &collector{}
		c.Notify = c
		for b.Loop() {
			p.waiterHandoff(c)
		}
	})
}

// BenchmarkParallel does the same with a goroutine for each processor, each on a queue of its own.
func BenchmarkParallel(b *testing.B) {
	for _, op := range []struct {
		name string
		new  func(*bencher) func()
	}{
		{"PutGet", func(p *bencher) func() { return p.putGet }},
		{"OpenConfirm", func(p *bencher) func() { return p.openConfirm }},
		{"WaiterHandoff", func(p *bencher) func() {
			c := &collector{}
			c.Notify = c
			return func() { p.waiterHandoff(c) }
		}},
	} {
		b.Run(op.name, func(b *testing.B) {
			bySize(b, func(b *testing.B, size int) {
				e := benchEngine(b)
				var workers atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					do := op.new(newBencher(e, fmt.Sprint("q", workers.Add(1)), size))
					for pb.Next() {
						do()
					}
				})
			})
		})
	}
}

// BenchmarkLease leases an item and confirms it, with so many others leased.
func BenchmarkLease(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			c := newBencher(benchEngine(b), "q", 100)
			lease := func() uint64 {
				c.done(c.put())
				f := FetchRequest{Access: Lease, Lease: time.Hour, Delivery: &c.about}
				got, err := c.e.Fetch(c.now, c.name, f, &c.d)
				if err != nil {
					panic(err)
				}
				c.done(got.Ticket)
				return c.about.Receipt
			}
			for range others {
				lease()
			}
			b.ReportAllocs()
			for b.Loop() {
				t, err := c.e.ConfirmLease(c.now, c.name, lease())
				if err != nil {
					panic(err)
				}
				c.done(t)
			}
		})
	}
}

// BenchmarkDelayedPut puts items that are due later, and far apart.
func BenchmarkDelayedPut(b *testing.B) {
	c := newBencher(benchEngine(b), "q", 100)
	extra := PutExtra{Delay: time.Hour}
	b.ReportAllocs()
	for b.Loop() {
		extra.Delay += time.Duration(c.n%1000) * time.Millisecond
		t, err := c.e.Put(c.now, c.name, PutRequest{Data: c.data, Extra: &extra})
		if err != nil {
			panic(err)
		}
		c.done(t)
	}
}
