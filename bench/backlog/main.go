// Backlog measures what a backlog costs: the same items are filled into and drained from a server
// that keeps them in memory and one that keeps few of them there, in turns, and then the second is
// killed with a backlog and started again.
//
//	go run ./bench/backlog -kestrel bin/kestrel -size 1024 -rounds 3
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	itemSize = 1024 // bytes
	pipeline = 32
)

func main() {
	binary := flag.String("kestrel", "bin/kestrel", "the server to measure")
	size := flag.Int("size", 256, "MiB of items")
	memory := flag.Int("memory", 16, "max_memory_size in MiB of the server in read-behind")
	rounds := flag.Int("rounds", 3, "rounds")
	flag.Parse()
	if err := run(*binary, *size<<10, *memory, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "backlog:", err)
		os.Exit(1)
	}
}

// result is what one round of one server took.
type result struct {
	fill, drain time.Duration
	p99         time.Duration // of a batch of gets
	rss         int64         // bytes, the highest seen
}

func run(binary string, items, memory, rounds int) error {
	fmt.Printf("%d items of %d bytes, 1 connection, pipeline %d, sync_journal never\n",
		items, itemSize, pipeline)
	var all [2][]result
	for range rounds {
		for i, mib := range [2]int{items*itemSize>>20*2 + 64, memory} {
			r, err := round(binary, items, mib)
			if err != nil {
				return err
			}
			all[i] = append(all[i], r)
		}
	}
	inMemory, behind := median(all[0]), median(all[1])
	rate := func(d time.Duration) float64 { return float64(items) / d.Seconds() / 1000 }
	fmt.Printf("%-28s %12s %12s %8s\n", "", "in memory", "read-behind", "ratio")
	line := func(what string, a, b float64) {
		fmt.Printf("%-28s %12.1f %12.1f %8.2f\n", what, a, b, b/a)
	}
	line("puts, thousands a second", rate(inMemory.fill), rate(behind.fill))
	line("gets, thousands a second", rate(inMemory.drain), rate(behind.drain))
	line("p99 of a batch of gets, ms", inMemory.p99.Seconds()*1000, behind.p99.Seconds()*1000)
	line("highest resident, MiB", float64(inMemory.rss>>20), float64(behind.rss>>20))
	return restart(binary, items, memory)
}

// median is each figure's median.
func median(all []result) (m result) {
	pick := func(f func(result) int64) int64 {
		var values []int64
		for _, r := range all {
			values = append(values, f(r))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	m.fill = time.Duration(pick(func(r result) int64 { return int64(r.fill) }))
	m.drain = time.Duration(pick(func(r result) int64 { return int64(r.drain) }))
	m.p99 = time.Duration(pick(func(r result) int64 { return int64(r.p99) }))
	m.rss = pick(func(r result) int64 { return r.rss })
	return m
}

// round fills and drains a new server that may keep so many MiB of items in memory.
func round(binary string, items, memory int) (r result, err error) {
	s, err := start(binary, "", memory)
	if err != nil {
		return r, err
	}
	defer s.remove()
	if r.fill, err = s.fill(items, &r.rss); err != nil {
		return r, err
	}
	r.drain, r.p99, err = s.drain(0, items, &r.rss)
	return r, err
}

// restart kills a server with a backlog and times the next one until it answers a get.
func restart(binary string, items, memory int) error {
	s, err := start(binary, "", memory)
	if err != nil {
		return err
	}
	defer s.remove()
	var rss int64
	if _, err := s.fill(items, &rss); err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // what a running server does in the background
	s.kill()
	began := time.Now()
	again, err := start(binary, s.dir, memory)
	if err != nil {
		return err
	}
	defer again.kill()
	if _, _, err := again.drain(0, 1, &rss); err != nil {
		return err
	}
	took := time.Since(began)
	if _, _, err := again.drain(1, items-1, &rss); err != nil {
		return fmt.Errorf("after kill -9: %w", err)
	}
	fmt.Printf("first get after kill -9 and restart: %v, then every item in order\n",
		took.Round(time.Millisecond))
	return nil
}
