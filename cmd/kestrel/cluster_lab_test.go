//go:build lab

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/client/discovery/zktest"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// cluster is three servers that a ZooKeeper knows, and a client that finds them there.
type cluster struct {
	t      *testing.T
	zk     *zktest.Server
	nodes  []*node
	client *client.Client
	ledger *ledger
	unsure []int // puts without an answer, by producer; guarded by ledger.mu
}

// node is a server that comes back at its address with its items.
type node struct {
	*clitest.Process
	args []string
}

// replyTimeout is how long a server that is busy may take to answer. One that stalls costs producers as much.
const replyTimeout = 5 * time.Second

// startCluster starts the servers, and a worker with a lease; zero has it open items. They end with the test.
func startCluster(t *testing.T, lease time.Duration) *cluster {
	t.Helper()
	c := &cluster{t: t, zk: zktest.Start(t), unsure: make([]int, 4)}
	file := clitest.WriteConfig(t, fmt.Sprintf("[discovery]\nadvertise = \"127.0.0.1\"\n[discovery.zookeeper]\n"+
		"hosts = [%q]\npath_prefix = \"/kestrel\"\nsession_timeout = \"2s\"\n", c.zk.Addr))
	for range 3 {
		n := &node{args: []string{"--config", file, "--data-dir", t.TempDir(), "--sync-journal", "never"}}
		n.Process = clitest.Serve(t, n.args...)
		c.nodes = append(c.nodes, n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*clitest.Patience)
	defer cancel()
	var err error
	c.client, err = client.Dial(ctx, "zk://"+c.zk.Addr+"/kestrel", client.Options{
		ReplyTimeout: replyTimeout, DialTimeout: replyTimeout,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Close)
	c.wait("all servers are in both sets", func() bool { return c.in(3, 3) })

	c.ledger = newLedger(t)
	c.ledger.leased = lease > 0
	working, stopWorker := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w := &client.Worker{Client: c.client, Queue: "work", Lease: lease, Handlers: 6, Handle: c.ledger.handle, Failed: c.ledger.failed,
		Backoff: client.Backoff{First: time.Millisecond, Most: time.Millisecond}}
	running.Go(func() {
		if err := w.Run(working); err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	t.Cleanup(func() { stopWorker(); running.Wait() })
	return c
}

// produce has four producers put until the function that it returns is called.
func (c *cluster) produce() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var producers sync.WaitGroup
	for p := range c.unsure {
		producers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if !c.ledger.put(c.client, fmt.Sprintf("%d/%d", p, n)) {
					c.ledger.mu.Lock()
					c.unsure[p]++
					c.ledger.mu.Unlock()
				}
			}
		})
	}
	end := sync.OnceFunc(func() { cancel(); producers.Wait() })
	c.t.Cleanup(end)
	return end
}

// in reports whether the client sees so many servers in the sets.
func (c *cluster) in(write, read int) bool {
	m := c.client.Members()
	return len(m.Write) == write && len(m.Read) == read
}

// wait looks again and again until something is so.
func (c *cluster) wait(what string, so func() bool) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	// A client that ZooKeeper refuses, because it has lost data that the client has seen, needs 20 s to notice.
	for end := time.Now().Add(10 * clitest.Patience); !so(); <-tick.C {
		if time.Now().After(end) {
			c.t.Fatalf("waited in vain until %s; members %+v", what, c.client.Members())
		}
	}
}

// restart starts a server again that has ended.
func (c *cluster) restart(n *node) {
	c.t.Helper()
	_, port, err := net.SplitHostPort(n.Addr)
	if err != nil {
		c.t.Fatal(err)
	}
	n.Process = clitest.Serve(c.t, append(slices.Clone(n.args), "--memcache-port", port)...)
}

// setStatus gives one server a status.
func (c *cluster) setStatus(n *node, status string) {
	c.t.Helper()
	one, err := client.Dial(c.t.Context(), n.Addr, client.Options{ReplyTimeout: clitest.Patience})
	if err != nil {
		c.t.Fatal(err)
	}
	defer one.Close()
	if err := one.SetStatus(c.t.Context(), status); err != nil {
		c.t.Fatal(err)
	}
}

// phase does something, and tests that no producer is left without an answer more often than it may be by that, nor for
// longer. A put waits for one server that does not answer, and for each further one that it is left alone by.
func (c *cluster) phase(what string, allowed int, do func()) {
	c.t.Helper()
	c.ledger.mu.Lock()
	before, slowest := slices.Clone(c.unsure), c.ledger.slowest
	c.ledger.slowest, c.ledger.latest = 0, 0
	clear(c.ledger.longest)
	stored := len(c.ledger.stored)
	c.ledger.mu.Unlock()
	began := time.Now()
	do()
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for p, n := range c.unsure {
		if n -= before[p]; n > allowed {
			c.t.Errorf("%s: producer %d was left without an answer %d times, and may be %d times; at last: %v", what, p, n, allowed,
				c.ledger.unknown)
		}
	}
	gap := time.Duration(0)
	for producer, longest := range c.ledger.longest {
		if most := time.Duration(1+allowed) * replyTimeout; longest > most {
			c.t.Errorf("%s: a put of producer %s took %v, want %v at most", what, producer, longest, most)
		}
		gap = max(gap, longest)
	}
	c.t.Logf("%s: %v, %d puts, the slowest that was answered took %v, the longest gap of a producer was %v, the latest item came after %v",
		what, time.Since(began).Round(time.Millisecond), len(c.ledger.stored)-stored, c.ledger.slowest, gap, c.ledger.latest)
	c.ledger.slowest = max(c.ledger.slowest, slowest)
}

// quiesceOne has the first server leave both sets and come back.
func (c *cluster) quiesceOne() {
	c.setStatus(c.nodes[0], "Quiescent")
	c.wait("it has left both", func() bool { return c.in(2, 2) })
	c.ledger.more(500)
	c.setStatus(c.nodes[0], "Up")
	c.wait("it is back", func() bool { return c.in(3, 3) })
	c.ledger.more(500)
}

// killOne kills the second server, and starts it again when its session has ended.
func (c *cluster) killOne() {
	c.nodes[1].Signal(syscall.SIGKILL)
	c.nodes[1].ExitCode()
	c.ledger.more(500)
	c.wait("its session has ended", func() bool { return c.in(2, 2) })
	c.restart(c.nodes[1])
	c.wait("it is back", func() bool { return c.in(3, 3) })
	c.ledger.more(500)
}

// TestEndToEndCluster has producers and a worker use three servers that a real ZooKeeper knows. Meanwhile the servers
// change their status, die, stall and restart in turn. ZooKeeper stalls past every session, loses its data and dies.
// What was acknowledged is handled. A producer is left without an answer once at most by each server that dies or
// stalls, and never by a status or by ZooKeeper. Only what had no answer comes twice.
func TestEndToEndCluster(t *testing.T) {
	c := startCluster(t, 0)
	stop := c.produce()
	c.phase("everything is well", 0, func() { c.ledger.more(1000) })
	c.phase("statuses change", 0, func() {
		c.setStatus(c.nodes[0], "ReadOnly")
		c.wait("a server has left the write set", func() bool { return c.in(2, 3) })
		c.ledger.more(500)
		c.quiesceOne()
	})
	c.phase("a server is killed", 1, c.killOne)
	c.phase("a server stalls until its session has ended", 1, func() {
		c.nodes[2].Signal(syscall.SIGSTOP)
		c.wait("its session has ended", func() bool { return c.in(2, 2) })
		c.ledger.more(500)
		c.nodes[2].Signal(syscall.SIGCONT)
		c.wait("it is back", func() bool { return c.in(3, 3) })
		c.ledger.more(500)
	})
	c.phase("ZooKeeper stalls past all sessions", 0, func() {
		c.zk.Stall()
		stalled := time.After(20 * time.Second) // sessions last 2 s, and the client's 10 s
		for waiting := true; waiting; {
			c.ledger.more(200)
			if !c.in(3, 3) {
				t.Errorf("the client forgot servers: %+v", c.client.Members())
			}
			select {
			case <-stalled:
				waiting = false
			default:
			}
		}
		c.zk.Continue()
		c.ledger.more(500)
		c.setStatus(c.nodes[0], "ReadOnly") // shows that the client hears of changes again
		c.wait("the client hears of a change", func() bool { return len(c.client.Members().Write) == 2 })
		c.setStatus(c.nodes[0], "Up")
		c.wait("all are back", func() bool { return c.in(3, 3) })
	})
	c.phase("ZooKeeper dies and forgets everything", 0, func() {
		c.zk.Kill()
		c.ledger.more(500)
		c.zk.Wipe()
		c.zk.Restart()
		c.ledger.more(500)
		c.wait("a new set has a change of status", func() bool {
			c.setStatus(c.nodes[1], "Quiescent")
			return c.in(2, 2)
		})
		c.setStatus(c.nodes[1], "Up")
		c.wait("all are back", func() bool { return c.in(3, 3) })
	})
	c.phase("all servers restart in turn", 3, func() {
		for _, n := range c.nodes {
			n.Signal(syscall.SIGTERM)
			if code := n.ExitCode(); code != 0 {
				t.Errorf("a server ended with exit code %d", code)
			}
			c.ledger.more(300)
			c.restart(n)
			c.wait("it is back", func() bool { return c.in(3, 3) })
			c.ledger.more(300)
		}
	})
	stop()
	c.check()
	c.order()
}

// check waits until all that was acknowledged is handled, and tests that nothing came twice but what had no answer, or
// was lost.
func (c *cluster) check() {
	c.t.Helper()
	c.ledger.drained()
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for item, times := range c.ledger.handled {
		if times > 1 && !c.ledger.again[item] {
			c.t.Errorf("item %s was handled %d times", item, times)
		}
	}
	c.t.Logf("%d items; without an answer by producer %v; %d came again", len(c.ledger.stored), c.unsure, len(c.ledger.again))
}

// order puts items one behind the other and takes them one behind the other. Those of each server come in the order in
// which they were put.
func (c *cluster) order() {
	c.t.Helper()
	const items = 300
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*clitest.Patience)
	defer cancel()
	for n := range items {
		if err := c.client.Put(ctx, "line", fmt.Append(nil, n), client.PutOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	consumer, err := c.client.Consume("line")
	if err != nil {
		c.t.Fatal(err)
	}
	defer consumer.Close()
	last := make(map[string]int) // of each server
	for range items {
		d, err := consumer.Next(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		n, err := strconv.Atoi(string(d.Data))
		if before, known := last[d.Server]; err != nil || known && n <= before {
			c.t.Errorf("%s hands out item %q behind %d", d.Server, d.Data, before)
		}
		last[d.Server] = n
		if err := d.Confirm(ctx); err != nil {
			c.t.Fatal(err)
		}
	}
	if len(last) < 2 { // one that has just come back may be left alone still
		c.t.Errorf("items went to few servers: %v", last)
	}
}

// TestEndToEndClusterLeases has a worker lease items of servers that a real ZooKeeper knows. Meanwhile one server
// changes its status, one dies and comes back, and ZooKeeper loses its data. What was acknowledged is handled, and
// twice only what could not be confirmed.
func TestEndToEndClusterLeases(t *testing.T) {
	c := startCluster(t, 2*time.Second)
	stop := c.produce()
	c.phase("statuses change", 0, c.quiesceOne)
	c.phase("a server is killed", 1, c.killOne)
	c.phase("ZooKeeper dies and forgets everything", 0, func() {
		c.zk.Kill()
		c.ledger.more(500)
		c.zk.Wipe()
		c.zk.Restart()
		c.wait("a new set has a change of status", func() bool {
			c.setStatus(c.nodes[2], "Quiescent")
			return c.in(2, 2)
		})
		c.setStatus(c.nodes[2], "Up")
		c.wait("all are back", func() bool { return c.in(3, 3) })
		c.ledger.more(500)
	})
	stop()
	c.check()
}

// TestEndToEndClusterCommands drains a server that ZooKeeper names, and finds nobody where there is nothing.
func TestEndToEndClusterCommands(t *testing.T) {
	c := startCluster(t, 0)
	stop := c.produce()
	c.ledger.more(300)
	set := "zk://" + c.zk.Addr + "/kestrel"
	code, out, errs := clitest.RunToEnd(t, "cluster", "drain", c.nodes[0].Addr, "--server", set, "--interval", "50ms")
	if want := c.nodes[0].Addr + " is empty and quiescent: it can be stopped\n"; code != 0 || out != want {
		t.Fatalf("drain = %d, %s%s; want %s", code, out, errs, want)
	}
	c.ledger.more(300)
	stop()
	c.ledger.drained()
	code, out, errs = clitest.RunToEnd(t, "cluster", "status", "--server", set)
	if code != 0 || strings.Count(out, " read write ") != 2 || strings.Contains(out, c.nodes[0].Addr) {
		t.Errorf("status = %d, %s%s; want the two servers that are left", code, out, errs)
	}
	code, _, errs = clitest.RunToEnd(t, "cluster", "status", "--server", "zk://"+c.zk.Addr+"/nowhere", "--timeout", "1s")
	if code != 1 || !strings.Contains(errs, "no server is known") {
		t.Errorf("status of an empty set = %d, %s", code, errs)
	}
	nowhere, err := client.Dial(t.Context(), "zk://"+c.zk.Addr+"/nowhere", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	if err := nowhere.Put(t.Context(), "work", nil, client.PutOptions{}); !errors.Is(err, client.ErrNoServers) {
		t.Errorf("Put to an empty set = %v", err)
	}
}
