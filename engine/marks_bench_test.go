package engine

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkRemoveHalf puts items and removes half of them at random. It reports how many bytes the backlog takes
// before and after, what a checkpoint then writes, and how long a start takes.
func BenchmarkRemoveHalf(b *testing.B) {
	if once := flag.Lookup("test.benchtime"); once.Value.String() != "1x" {
		b.Skip("it takes minutes: run it with -benchtime 1x")
	}
	for _, items := range []int{1_000_000, 10_000_000} {
		b.Run(strconv.Itoa(items), func(b *testing.B) { removeHalf(b, items) })
	}
}

func removeHalf(b *testing.B, items int) {
	const batch = 1000
	dir := b.TempDir()
	options := Options{Dir: dir, MemoryLimit: testMemory, Settings: Settings{Default: DefaultQueueOptions()}}
	options.Settings.Default.MaxMemorySize = 8 << 20
	e, err := Open(options)
	if err != nil {
		b.Fatal(err)
	}
	size := func() (n int64) {
		names, _ := filepath.Glob(filepath.Join(dir, "backlog", "*"))
		for _, name := range names {
			if at, err := os.Stat(name); err == nil {
				n += at.Size()
			}
		}
		return n
	}
	puts := make([]PutRequest, batch)
	random := rand.New(rand.NewPCG(1, 2))
	for range items / batch {
		for i := range puts { // nothing to compress
			body := make([]byte, 104)
			for at := 0; at+8 <= len(body); at += 8 {
				binary.LittleEndian.PutUint64(body[at:], random.Uint64())
			}
			puts[i] = PutRequest{Data: body}
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
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	wait := func(done func(*queue) bool) {
		q := e.shardOf([]byte("q")).queues["q"]
		for ; ; <-look.C {
			q.shard.mu.Lock()
			is := done(q)
			q.shard.mu.Unlock()
			if is {
				return
			}
		}
	}
	wait(func(q *queue) bool { return q.backlog != nil && q.backlog.leaving.Count == 0 })
	before := size()
	for i, at := range random.Perm(items)[:items/2] {
		ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: uint64(at + 1)})
		if err == nil && i%batch == 0 {
			err = e.Commit(ticket)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	wait(func(q *queue) bool {
		busy := func(r *run) bool { return q.mayThin(r) && r.thin.quiet < quietTends } // it may still be written again
		return !q.backlog.thin && len(q.backlog.spent) == 0 && !slices.ContainsFunc(q.backlog.runs, busy)
	})
	records := e.journal.End()
	if _, err := e.checkpoint(); err != nil {
		b.Fatal(err)
	}
	written := int64(e.journal.End() - records)
	if m, _ := e.shardOf([]byte("q")).queues["q"].marksNow(); m != nil {
		written += m.End
	}
	after := size()
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if e, err = Open(options); err != nil {
		b.Fatal(err)
	}
	start := time.Since(began)
	if s, _ := e.QueueStats(Now(), []byte("q")); s.Items != int64(items)/2 {
		b.Errorf("%d items are left", s.Items)
	}
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(before)/1e6, "MB-before")
	b.ReportMetric(float64(after)/1e6, "MB-after")
	b.ReportMetric(float64(written)/1e6, "MB-checkpoint")
	b.ReportMetric(start.Seconds(), "s-start")
	b.ReportMetric(0, "ns/op")
}
