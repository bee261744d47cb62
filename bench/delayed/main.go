// Command delayed measures what delayed items cost: to put them, in memory and in the journal while they wait, at a
// restart, and how late they come. It uses the engine in this process, on a directory of its own.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

func main() {
	b := &bench{}
	flag.IntVar(&b.items, "items", 1_000_000, "items that wait")
	flag.IntVar(&b.body, "body", 100, "bytes of their bodies")
	flag.IntVar(&b.due, "due", 100_000, "of others that become due, how many")
	flag.IntVar(&b.once, "once", 1_000_000, "items that become due at one instant; 0: leave that out")
	flag.DurationVar(&b.wait, "wait", 20*time.Second, "how long the others wait at least: long enough to be hidden")
	dir := flag.String("dir", "", "where to make a data directory; default: that of temporary files")
	flag.Parse()
	if err := b.run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "delayed:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	items, body, due, once int
	wait                   time.Duration
	dir                    string
	e                      *engine.Engine
}

func (b *bench) run(in string) (err error) {
	if b.dir, err = os.MkdirTemp(in, "kestrel-delayed-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	steps := []func() error{b.open, b.putMany, b.restart, b.lateness}
	if b.once > 0 {
		steps = append(steps, b.atOnce)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return b.e.Close()
}

func (b *bench) open() (err error) {
	o := engine.Options{Dir: filepath.Join(b.dir, "data"), Settings: engine.Settings{Default: engine.DefaultQueueOptions()}}
	o.Settings.Default.Sync = engine.SyncNever
	b.e, err = engine.Open(o)
	return err
}

// batch is how many puts share a commit, as those of one turn of an event loop do.
const batch = 32

// putAll puts n items to a queue, the one with number i delayed by delay(i), and waits for the disk as a server does.
func (b *bench) putAll(name string, n int, data func(i int) []byte, delay func(i int) time.Duration) error {
	puts := make([]engine.PutRequest, 0, batch)
	for i := 0; i < n; {
		for puts = puts[:0]; len(puts) < batch && i < n; i++ {
			puts = append(puts, engine.PutRequest{Data: data(i), Extra: &engine.PutExtra{Delay: delay(i)}})
		}
		s, err := b.e.PutAll(engine.Now(), []byte(name), puts)
		if err == nil {
			err = b.e.Commit(s.Ticket)
		}
		if err != nil {
			return err
		}
		for s.Ahead && b.e.Ahead([]byte(name)) {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// putMany puts the items that wait for an hour and more.
func (b *bench) putMany() error {
	before := b.e.Stats()
	began, cpu := time.Now(), cpuTime()
	body := make([]byte, b.body)
	err := b.putAll("waiting", b.items, func(int) []byte { return body },
		func(i int) time.Duration { return time.Hour + time.Duration(i*7919%b.items)*time.Millisecond })
	if err != nil {
		return err
	}
	took, used := time.Since(began), cpuTime()-cpu
	after := b.e.Stats()
	perItem := func(n int64) float64 { return float64(n) / float64(b.items) }
	fmt.Printf("puts                 %d in %v: %.0f/s, %.2f µs of CPU each\n",
		b.items, took.Round(time.Millisecond), float64(b.items)/took.Seconds(), float64(used.Microseconds())/float64(b.items))
	fmt.Printf("memory               %.1f bytes each beside the body when all are put\n", perItem(after.MemoryBytes-before.MemoryBytes)-float64(b.body))
	var s engine.QueueStats
	for range 100 { // until what can be on disk is
		time.Sleep(100 * time.Millisecond)
		if s, _ = b.e.QueueStats(engine.Now(), []byte("waiting")); s.MemItems == 0 {
			break
		}
	}
	after = b.e.Stats()
	hidden := s.Delayed - s.MemItems
	fmt.Printf("memory               %d hidden, %d in memory; %.2f bytes each of what is hidden\n", hidden, s.MemItems,
		(float64(after.MemoryBytes-before.MemoryBytes)-float64(s.MemItems)*float64(b.body+64+20))/float64(max(hidden, 1)))
	fmt.Printf("disk                 journal %d MiB, hidden runs %d MiB\n", after.JournalBytes>>20, s.BacklogBytes>>20)
	return nil
}

// restart closes the engine and opens it again.
func (b *bench) restart() error {
	if err := b.e.Close(); err != nil {
		return err
	}
	began := time.Now()
	if err := b.open(); err != nil {
		return err
	}
	took := time.Since(began)
	s, _ := b.e.QueueStats(engine.Now(), []byte("waiting"))
	fmt.Printf("restart              %v with %d delayed\n", took.Round(time.Millisecond), s.Delayed)
	if s.Delayed != int64(b.items) {
		return fmt.Errorf("%d items are delayed, want %d", s.Delayed, b.items)
	}
	return nil
}

// lateness has items become due, 10,000 a second, among those that wait, and measures how late they come.
func (b *bench) lateness() error {
	const rate = 10_000
	n := b.due
	began := time.Now()
	dues := make([]time.Time, n)
	data := func(i int) []byte { return fmt.Append(nil, i) }
	err := b.putAll("waiting", n, data, func(i int) time.Duration {
		due := began.Add(b.wait + time.Duration(i)*time.Second/rate)
		d := time.Until(due)
		dues[i] = time.Now().Add(d)
		return d
	})
	if err != nil {
		return err
	}
	q, err := b.e.Queue("waiting")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.wait+time.Duration(n)*time.Second/rate+time.Minute)
	defer cancel()
	late := make([]time.Duration, 0, n)
	for range n {
		it, err := q.Get(ctx)
		if err != nil {
			return err
		}
		var i int
		if _, err := fmt.Sscan(string(it.Data), &i); err != nil {
			return err
		}
		late = append(late, time.Since(dues[i]))
	}
	if slices.Min(late) < 0 {
		return fmt.Errorf("an item came %v early", -slices.Min(late))
	}
	print("late", late)
	return nil
}

// atOnce has many items of one queue become due at one instant. It measures what a put and a get of another queue take
// then, and before.
func (b *bench) atOnce() error {
	body := make([]byte, b.body)
	due := time.Now().Add(b.wait + 10*time.Second)
	if err := b.putAll("burst", b.once, func(int) []byte { return body }, func(int) time.Duration { return time.Until(due) }); err != nil {
		return err
	}
	if time.Until(due) < 6*time.Second {
		return fmt.Errorf("the items were put only %v before they are due: -wait must be longer", time.Until(due))
	}
	quiet, err := b.plain(time.Until(due) - 4*time.Second)
	if err != nil {
		return err
	}
	print("plain queue, quiet", quiet)
	busy, err := b.plain(time.Until(due) + 4*time.Second)
	if err != nil {
		return err
	}
	print("plain queue, burst", busy)
	s, _ := b.e.QueueStats(engine.Now(), []byte("burst"))
	fmt.Printf("burst                %d of %d are not due or on disk still, 4 s later\n", s.Delayed, b.once)
	return nil
}

// plain puts an item and takes it, on a queue that has nothing delayed, a thousand times a second.
func (b *bench) plain(length time.Duration) (took []time.Duration, err error) {
	body := make([]byte, b.body)
	q, err := b.e.Queue("plain")
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Millisecond) {
		began := time.Now()
		if err := q.Put(body, engine.PutOptions{}); err != nil {
			return nil, err
		}
		if _, err := q.Get(context.Background()); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// print prints the median, the 99th percentile and the worst.
func print(what string, all []time.Duration) {
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	fmt.Printf("%-20s p50 %.3f ms, p99 %.3f ms, worst %.3f ms of %d\n", what,
		ms(all[len(all)/2]), ms(all[len(all)*99/100]), ms(all[len(all)-1]), len(all))
}

// cpuTime is how much processor time this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
