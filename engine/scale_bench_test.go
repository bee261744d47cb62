package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// scaled skips a benchmark that makes a large queue, unless it is to do so once.
func scaled(b *testing.B) {
	if once := flag.Lookup("test.benchtime"); once.Value.String() != "1x" {
		b.Skip("it takes minutes: run it with -benchtime 1x")
	}
}

// putScaled puts n items, some in a commit, and waits until what does not fit into memory is on disk.
func putScaled(b *testing.B, e *Engine, n int, make func(i int) PutRequest) {
	const batch = 1000
	puts := []PutRequest(nil)
	for i := 0; i < n; {
		for puts = puts[:0]; len(puts) < batch && i < n; i++ {
			puts = append(puts, make(i))
		}
		s, err := e.PutAll(Now(), []byte("q"), puts)
		if err == nil {
			err = e.Commit(s.Ticket)
		}
		if err != nil {
			b.Fatal(err)
		}
		for e.Ahead([]byte("q")) {
			runtime.Gosched()
		}
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for q := e.shardOf([]byte("q")).queues["q"]; ; <-look.C {
		q.shard.mu.Lock()
		done := q.backlog != nil && q.backlog.leaving.Count == 0
		q.shard.mu.Unlock()
		if done {
			return
		}
	}
}

// BenchmarkKeysRestart puts items with keys, nearly all of which go to disk, and starts again. It reports what the
// index takes for a key, and what a start takes.
func BenchmarkKeysRestart(b *testing.B) {
	scaled(b)
	for _, keys := range []int{1_000_000, 10_000_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			options := Options{Dir: b.TempDir(), MemoryLimit: 1 << 30, Settings: Settings{Default: DefaultQueueOptions()}}
			options.Settings.Default.MaxMemorySize = 8 << 20
			e, err := Open(options)
			if err != nil {
				b.Fatal(err)
			}
			keyOf := func(i int) []byte { return fmt.Appendf(nil, "key-%012d", i*7919%keys) }
			body := make([]byte, 100)
			used := processorTime()
			putScaled(b, e, keys, func(i int) PutRequest { return PutRequest{Data: body, Extra: &PutExtra{Key: keyOf(i)}} })
			b.ReportMetric(float64((processorTime()-used).Nanoseconds())/float64(keys), "put-cpu-ns")
			if err := e.Close(); err != nil {
				b.Fatal(err)
			}
			before, began := liveHeap(), time.Now()
			used = processorTime()
			if e, err = Open(options); err != nil {
				b.Fatal(err)
			}
			took, cpu := time.Since(began), processorTime()-used
			b.ReportMetric(took.Seconds(), "start-s")
			b.ReportMetric(cpu.Seconds(), "start-cpu-s")
			b.ReportMetric(float64(liveHeap()-before)/float64(keys), "heap-B/key")
			b.ReportMetric(float64(e.Stats().MemoryBytes)/1e6, "counted-MB")
			for range 10_000 {
				if i := rand.IntN(keys); true {
					if id, ok := e.Find(Now(), []byte("q"), keyOf(i)); !ok || id != uint64(i)+1 {
						b.Fatalf("key %d finds item %d, %t", i, id, ok)
					}
				}
			}
			if err := e.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// taker receives all items, and counts their bytes.
type taker struct{ bytes int64 }

func (t *taker) Receive(it Item) bool {
	t.bytes += int64(len(it.Data))
	return true
}

// BenchmarkListLarge lists a queue of which nearly all is on disk. It reports bytes of bodies a second, and how much
// more memory is in use meanwhile.
func BenchmarkListLarge(b *testing.B) {
	scaled(b)
	const body = 1 << 10
	for _, gib := range []int{1, 10} {
		b.Run(fmt.Sprint(gib, "GiB"), func(b *testing.B) {
			options := Options{Dir: b.TempDir(), MemoryLimit: testMemory, Settings: Settings{Default: DefaultQueueOptions()}}
			options.Settings.Default.MaxMemorySize = 8 << 20
			e, err := Open(options)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			data := make([]byte, body)
			for i := range data {
				data[i] = byte(rand.Uint32())
			}
			items := gib << 30 / body
			putScaled(b, e, items, func(int) PutRequest { return PutRequest{Data: data} })
			before, most := e.Stats().MemoryBytes, int64(0)
			var got taker
			used, began := processorTime(), time.Now()
			for w := e.List([]byte("q"), Match{}); w.Do(Now(), &got, 32<<10); {
				w.Wait()
				most = max(most, e.Stats().MemoryBytes-before)
			}
			if got.bytes != int64(items)*body {
				b.Fatalf("%d bytes are listed, want %d", got.bytes, items*body)
			}
			b.ReportMetric(float64(got.bytes)/1e6/time.Since(began).Seconds(), "MB/s")
			b.ReportMetric(float64(got.bytes)/1e6/(processorTime()-used).Seconds(), "MB/cpu-s")
			b.ReportMetric(float64(most)/1e6, "more-MB")
		})
	}
}

// BenchmarkChangeAll gives all items of a queue, of which nearly all are on disk, another expiry. It reports what one
// takes of the processor, the memory that is counted for it afterwards, and how long all take by the clock.
func BenchmarkChangeAll(b *testing.B) {
	scaled(b)
	for _, items := range []int{100_000, 1_000_000} {
		b.Run(strconv.Itoa(items), func(b *testing.B) {
			options := Options{Dir: b.TempDir(), MemoryLimit: 4 << 30, Settings: Settings{Default: DefaultQueueOptions()}}
			options.Settings.Default.MaxMemorySize, options.Settings.Default.Sync = 8<<20, SyncNever
			e, err := Open(options)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			body := make([]byte, 100)
			putScaled(b, e, items, func(int) PutRequest { return PutRequest{Data: body} })
			before, most := e.Stats().MemoryBytes, int64(0)
			used, began := processorTime(), time.Now()
			to := Changes{SetExpiry: true, Expiry: Now().After(time.Hour)}
			w := e.Changing([]byte("q"), "", Match{}, to)
			for w.Do(Now(), nil, 32<<10) {
				_, t, _ := w.Result()
				if err := e.Commit(t); err != nil {
					b.Fatal(err)
				}
				w.Wait()
				most = max(most, e.Stats().JournalBytes)
			}
			n, t, err := w.Result()
			if err == nil {
				err = e.Commit(t)
			}
			if err != nil || n != items {
				b.Fatalf("%d items have another expiry: %v", n, err)
			}
			b.ReportMetric(time.Since(began).Seconds(), "s")
			b.ReportMetric(float64((processorTime()-used).Nanoseconds())/float64(items), "cpu-ns/item")
			b.ReportMetric(float64(e.Stats().MemoryBytes-before)/float64(items), "memory-B/item")
			b.ReportMetric(float64(most)/(1<<20), "journal-MiB")
		})
	}
}
