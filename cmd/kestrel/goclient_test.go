package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndGoClient has four producers put to three servers, and a worker take. Meanwhile one server is killed and
// comes back, and another is stopped for longer than the client waits. What was acknowledged is handled; each producer
// is left without an answer once at most by each of the two. Only what had no answer comes twice.
func TestEndToEndGoClient(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	var servers []*clitest.Process
	var addrs []string
	for _, dir := range dirs {
		p := clitest.Serve(t, "--data-dir", dir, "--sync-journal", "never")
		servers = append(servers, p)
		addrs = append(addrs, p.Addr)
	}
	c, err := client.Dial(t.Context(), "", client.Options{
		Source: client.Static(addrs...), ReplyTimeout: time.Second, DialTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := newLedger(t)

	ctx, stopWorker := context.WithCancel(context.Background())
	var working sync.WaitGroup
	defer func() { stopWorker(); working.Wait() }()
	w := &client.Worker{Client: c, Queue: "work", Handlers: 6, Handle: l.handle, Failed: l.failed,
		Backoff: client.Backoff{First: time.Millisecond, Most: time.Millisecond}}
	working.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	producing, stop := context.WithCancel(context.Background())
	defer stop()
	var producers sync.WaitGroup
	unsure := make([]int, 4) // puts without an answer, by producer
	for p := range unsure {
		producers.Go(func() {
			for n := 0; producing.Err() == nil; n++ {
				if !l.put(c, fmt.Sprintf("%d/%d", p, n)) {
					unsure[p]++
				}
			}
		})
	}

	l.more(500)
	servers[0].Signal(syscall.SIGKILL)
	servers[0].ExitCode()
	l.more(500)
	_, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	clitest.Serve(t, "--data-dir", dirs[0], "--memcache-port", port, "--sync-journal", "never")
	l.more(500)
	servers[1].Signal(syscall.SIGSTOP)
	stopped := time.AfterFunc(2500*time.Millisecond, func() { servers[1].Cmd.Process.Signal(syscall.SIGCONT) })
	defer stopped.Stop()
	l.more(20_000)
	servers[1].Signal(syscall.SIGCONT)
	l.more(500)
	stop()
	producers.Wait()
	l.drained()
	for p, n := range unsure {
		if n > 2 {
			t.Errorf("producer %d was left without an answer %d times by a kill and a stop; at last: %v", p, n, l.unknown)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for item, times := range l.handled {
		if times > 1 && !l.again[item] {
			t.Errorf("item %s was handled %d times", item, times)
		}
	}
	t.Logf("%d items; without an answer by producer %v; %d came again; the slowest answered put took %v",
		len(l.stored), unsure, len(l.again), l.slowest)
}

// ledger knows every item of a test.
type ledger struct {
	t       *testing.T
	mu      sync.Mutex
	changed *sync.Cond
	// Guarded by mu.
	stored  map[string]bool // acknowledged
	handled map[string]int  // how often
	again   map[string]bool // may be handled again
	missing int             // stored and not handled
	slowest time.Duration   // of the puts that were acknowledged
	unknown error           // of the last put that had no answer

	longest map[string]time.Duration // of the puts of each producer, answered or not
	since   map[string]time.Time     // when what was acknowledged and not handled yet was acknowledged
	latest  time.Duration            // from there until it was handled
	leased  bool                     // a confirm that finds its server away has done nothing, and the lease lapses
}

// newLedger returns a ledger that knows nothing yet.
func newLedger(t *testing.T) *ledger {
	l := &ledger{t: t, stored: make(map[string]bool), handled: make(map[string]int), again: make(map[string]bool),
		longest: make(map[string]time.Duration), since: make(map[string]time.Time)}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// put puts an item and reports whether there was an answer. One that refuses the item fails the test.
func (l *ledger) put(c *client.Client, item string) bool {
	began := time.Now()
	err := c.Put(context.Background(), "work", []byte(item), client.PutOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	producer, _, _ := strings.Cut(item, "/")
	l.longest[producer] = max(l.longest[producer], time.Since(began))
	switch {
	case err == nil:
		l.slowest = max(l.slowest, time.Since(began))
		if l.stored[item] = true; l.handled[item] == 0 {
			l.missing++
			l.since[item] = time.Now()
		}
	case !errors.Is(err, client.ErrUnknownOutcome):
		l.t.Errorf("put %s: %v", item, err)
	default:
		l.unknown = err
		return false
	}
	return true
}

func (l *ledger) handle(_ context.Context, d *client.Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	item := string(d.Data)
	if l.handled[item]++; l.handled[item] == 1 && l.stored[item] {
		l.missing--
		l.latest = max(l.latest, time.Since(l.since[item]))
		delete(l.since, item)
	}
	return nil
}

func (l *ledger) failed(d *client.Delivery, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leased && !errors.Is(err, client.ErrLost) && !errors.Is(err, client.ErrUnknownOutcome) {
		l.t.Errorf("item %s: %v", d.Data, err)
	}
	l.again[string(d.Data)] = true
}

// more waits until n more items are stored.
func (l *ledger) more(n int) {
	l.t.Helper()
	l.wait(func() bool { return len(l.stored) >= n }, fmt.Sprintf("%d more items", n), func() { n += len(l.stored) })
}

// drained waits until all that is stored has been handled.
func (l *ledger) drained() {
	l.t.Helper()
	l.wait(func() bool { return l.missing == 0 }, "the rest to be handled", func() {})
}

func (l *ledger) wait(done func() bool, what string, begin func()) {
	l.t.Helper()
	late := time.AfterFunc(10*clitest.Patience, l.changed.Broadcast)
	defer late.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	begin()
	for end := time.Now().Add(10 * clitest.Patience); !done(); l.changed.Wait() {
		if time.Now().After(end) {
			l.t.Fatalf("waited in vain for %s: %d stored, %d missing", what, len(l.stored), l.missing)
		}
	}
}
