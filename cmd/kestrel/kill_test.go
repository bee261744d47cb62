package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// TestEndToEndKillUnderLoad kills the server with SIGKILL at random moments while producers put and
// consumers fetch, and starts it again on the same directory. Over the whole run no acknowledged
// put may be missing, no acknowledged removal may come back, and the order is that of the puts. The
// seed is printed; a failure depends on timing too, so a seed need not repeat it.
//
// The control reads what a producer was promised one item too far, as a server would make it that
// says STORED before it writes. The checker must object.
func TestEndToEndKillUnderLoad(t *testing.T) { killUnderLoad(t, "") }

// TestEndToEndKillInReadBehind is TestEndToEndKillUnderLoad with queues that keep hardly any item
// in memory.
func TestEndToEndKillInReadBehind(t *testing.T) {
	killUnderLoad(t, "journal_size = \"1MiB\"\n[default]\nmax_memory_size = 40\n")
}

func killUnderLoad(t *testing.T, config string) {
	cycles := 4
	if os.Getenv("KESTREL_LONG") != "" {
		cycles = 50
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d cycles", seed, cycles)
	lab := &killLab{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir()}
	if config != "" {
		lab.args = []string{"--config", clitest.WriteConfig(t, config)}
	}
	for i := range 6 {
		lab.lanes = append(lab.lanes, &lane{queue: fmt.Sprint("lane", i), reliable: i%2 == 1})
	}
	for cycle := range cycles {
		lab.cycle([]string{"always", "never", "50ms"}[cycle%3])
	}
	if config != "" && lab.runs == 0 {
		t.Error("no kill met a queue in read-behind")
	}
	lab.drain()
	for _, l := range lab.lanes {
		for _, complaint := range l.complaints {
			t.Errorf("%s: %s", l.queue, complaint)
		}
		t.Logf("%s: %d puts acknowledged, %d items received, %d in doubt", l.queue, l.acked, l.received,
			len(l.doubt))
	}
	control := &lane{queue: "control", next: 3, expect: 1}
	control.got(1)
	control.endOfQueue() // 2 was acknowledged and is not there
	if len(control.complaints) == 0 {
		t.Error("the checker accepts a queue that lacks an acknowledged item")
	}
}

// killLab runs one server after the other on one directory.
type killLab struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	args  []string
	runs  int // files of backlogs that kills left
	lanes []*lane
	acks  atomic.Int64 // replies received in this cycle
}

// lane is one queue with one producer and one consumer, and what is known of it. Items are numbered
// from 1; the goroutine that works on the lane owns the fields it changes.
type lane struct {
	queue    string
	reliable bool // the consumer opens items and confirms them with the next fetch

	// Of the producer.
	next  int // number of the next item to put
	acked int
	sent  []int        // put, not answered
	doubt map[int]bool // put, and never answered: there once, or absent

	// Of the consumer.
	expect     int  // number of the next item
	open       int  // item that is open; 0 if none
	asked      bool // a fetch was not answered
	received   int
	maySkip    bool // a fetch that was not answered may have taken the next item
	mayRepeat  int  // item that was open and may, or may not, have been confirmed
	complaints []string
}

func (l *lane) complain(format string, args ...any) {
	l.complaints = append(l.complaints, fmt.Sprintf(format, args...))
}

// cycle starts the server, lets the lanes work until a random number of replies have come, and
// kills it.
func (lab *killLab) cycle(policy string) {
	p := clitest.Serve(lab.t, append(lab.args, "--data-dir", lab.dir, "--sync-journal", policy)...)
	lab.acks.Store(0)
	enough := int64(200 + lab.rng.IntN(4000))
	done := make(chan struct{})
	var workers sync.WaitGroup
	var once sync.Once
	ack := func() {
		if lab.acks.Add(1) == enough {
			once.Do(func() { close(done) })
		}
	}
	for _, l := range lab.lanes {
		workers.Go(func() { l.produce(p.Addr, ack) })
		workers.Go(func() { l.consume(p.Addr, ack) })
	}
	select {
	case <-done:
	case <-time.After(clitest.Patience):
		lab.t.Fatalf("only %d replies of %d", lab.acks.Load(), enough)
	}
	p.Signal(os.Kill)
	workers.Wait()
	p.ExitCode()
	if left, err := os.ReadDir(filepath.Join(lab.dir, "backlog")); err == nil {
		lab.runs += len(left)
	}
	for _, l := range lab.lanes {
		l.killed()
	}
}

// killed takes stock of a lane after the server died.
func (l *lane) killed() {
	if l.doubt == nil {
		l.doubt = make(map[int]bool)
	}
	for _, n := range l.sent {
		l.doubt[n] = true
	}
	l.sent = nil
	switch {
	case l.reliable && l.open > 0 && l.asked:
		l.mayRepeat = l.open
		l.expect = l.open
	case l.reliable && l.open > 0:
		l.mayRepeat = 0
		l.expect = l.open // it was not confirmed: it is back
	case !l.reliable && l.asked:
		l.maySkip = true
	} // otherwise what an earlier kill left open is open still: nothing has come since
	l.open, l.asked = 0, false
}

// produce puts items, a few ahead of the replies, until the connection ends.
func (l *lane) produce(addr string, ack func()) {
	conn, err := net.DialTimeout("tcp", addr, clitest.Patience)
	if err != nil {
		return
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	if l.next == 0 {
		l.next = 1
	}
	for {
		var batch []byte
		for range 1 + l.next%5 {
			body := []byte(fmt.Sprintf("%d %s", l.next, strings.Repeat("x", l.next%200)))
			batch = memcache.AppendSet(batch, []byte(l.queue), 0, 0, body)
			l.sent = append(l.sent, l.next)
			l.next++
		}
		if _, err := conn.Write(batch); err != nil {
			return
		}
		for len(l.sent) > 0 {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if line != memcache.ReplyStored {
				l.complain("put of item %d got %q", l.sent[0], line)
				return
			}
			l.sent = l.sent[1:]
			l.acked++
			ack()
		}
	}
}

// consume fetches items until the connection ends.
func (l *lane) consume(addr string, ack func()) {
	conn, err := net.DialTimeout("tcp", addr, clitest.Patience)
	if err != nil {
		return
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	if l.expect == 0 {
		l.expect = 1
	}
	options := memcache.GetOptions{WaitMillis: 20, Open: l.reliable, Close: l.reliable}
	request := memcache.AppendGet(nil, []byte(l.queue), options)
	for {
		l.asked = true
		if _, err := conn.Write(request); err != nil {
			return
		}
		n, err := readItem(in)
		if err != nil {
			return
		}
		l.asked, l.open = false, 0 // the answer says that the item before is confirmed
		if n > 0 {
			l.got(n)
			if l.reliable {
				l.open = n
			}
		}
		ack()
	}
}

// readItem reads the reply to a fetch and returns the item's number, or 0 if there is none.
func readItem(in *bufio.Reader) (int, error) {
	head, err := in.ReadString('\n')
	if err != nil || head == memcache.ReplyEnd {
		return 0, err
	}
	body, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(body, " ")
	return strconv.Atoi(number)
}

// got checks that item n may be the next one.
func (l *lane) got(n int) {
	l.received++
	for l.expect < n {
		switch {
		case l.doubt[l.expect]:
			delete(l.doubt, l.expect) // its put was never answered, and it is not there
		case l.mayRepeat == l.expect:
			l.mayRepeat = 0 // it was confirmed after all
		case l.maySkip:
			l.maySkip = false // the fetch that was not answered took it
		default:
			l.complain("item %d is missing: item %d came", l.expect, n)
		}
		l.expect++
	}
	if l.expect > n {
		l.complain("item %d came again, or late: item %d was to come", n, l.expect)
		return
	}
	l.maySkip, l.mayRepeat = false, 0
	delete(l.doubt, n)
	l.expect++
}

// endOfQueue checks that nothing more had to come.
func (l *lane) endOfQueue() {
	for ; l.expect < l.next; l.expect++ {
		switch {
		case l.doubt[l.expect]:
		case l.mayRepeat == l.expect:
		case l.maySkip:
			l.maySkip = false
		default:
			l.complain("item %d is missing at the end", l.expect)
		}
	}
}

// drain starts the server a last time and fetches everything that is left.
func (lab *killLab) drain() {
	p := clitest.Serve(lab.t, append(lab.args, "--data-dir", lab.dir)...)
	for _, l := range lab.lanes {
		c := p.Dial()
		for {
			c.Send("get " + l.queue + "\n")
			n, err := readItem(c.In)
			if err != nil {
				lab.t.Fatal(err)
			}
			if n == 0 {
				break
			}
			l.got(n)
		}
		l.endOfQueue()
	}
}
