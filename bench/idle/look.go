package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// others is how many clients go on while somebody looks at all queues: with several to a loop, some
// are on the loop that answers.
const others = 8

// look prints how long it takes to look at all queues, and how long other clients wait meanwhile.
func (r *run) look(s *server) error {
	fmt.Printf("\n%-28s %10s %10s %28s\n", "", "took", "bytes", "others wait p50, p99, worst")
	for _, l := range []struct {
		name string
		do   func() (int64, error)
	}{
		{"nothing", func() (int64, error) { time.Sleep(time.Second); return 0, nil }},
		{"stats", func() (int64, error) { return s.dump("stats\r\n") }},
		{"dump_stats", func() (int64, error) { return s.dump("dump_stats\r\n") }},
		{"dump_config", func() (int64, error) { return s.dump("dump_config\r\n") }},
		{"/stats.json", func() (int64, error) { return s.fetch("/stats.json") }},
		{"/metrics", func() (int64, error) { return s.fetch("/metrics") }},
	} {
		if err := r.lookAt(s, l.name, l.do); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

func (r *run) lookAt(s *server, name string, do func() (int64, error)) error {
	var took []time.Duration
	var size int64
	waits, err := s.besides(func() error {
		for range r.looks {
			began := time.Now()
			n, err := do()
			if err != nil {
				return err
			}
			took, size = append(took, time.Since(began)), n
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	fmt.Printf("%-28s %7.1f ms %10d %9.2f %7.2f %7.2f ms\n", name, ms(took[len(took)/2]), size,
		ms(waits[len(waits)/2]), ms(waits[len(waits)*99/100]), ms(waits[len(waits)-1]))
	return nil
}

// besides runs f while other clients send one request after the other, a hundred a second each. It
// returns how long they waited, sorted.
func (s *server) besides(f func() error) ([]time.Duration, error) {
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		over atomic.Bool
		sum  []time.Duration
		errs = make(chan error, others)
	)
	for i := range others {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		all.Add(1)
		go func() {
			defer all.Done()
			waits, err := ping(conn, i, &over)
			if err != nil {
				errs <- err
			}
			mu.Lock()
			sum = append(sum, waits...)
			mu.Unlock()
		}()
	}
	err := f()
	over.Store(true)
	all.Wait()
	if err == nil && len(errs) > 0 {
		err = <-errs
	}
	slices.Sort(sum)
	return sum, err
}

func ping(conn net.Conn, i int, over *atomic.Bool) (waits []time.Duration, err error) {
	ask := get(nil, queueName(i))
	answer := make([]byte, len("END\r\n"))
	for !over.Load() {
		began := time.Now()
		if _, err := conn.Write(ask); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			return nil, err
		}
		waits = append(waits, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	return waits, nil
}

// dump sends a command whose answer ends with a line END, and returns the size of the answer.
func (s *server) dump(command string) (size int64, err error) {
	if _, err := s.conn.Write([]byte(command)); err != nil {
		return 0, err
	}
	for {
		line, err := s.in.ReadSlice('\n')
		if size += int64(len(line)); err != nil || bytes.Equal(line, []byte("END\r\n")) {
			return size, err
		}
	}
}

// fetch gets a page of the admin port and returns its size.
func (s *server) fetch(path string) (int64, error) {
	got, err := http.Get("http://" + s.admin + path)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", path, got.Status)
	}
	return io.Copy(io.Discard, got.Body)
}
