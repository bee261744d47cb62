package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// laws are what a server may use of what it was given.
type laws struct {
	s       *server
	env     *surroundings
	clients int    // connections of clients that it takes
	admin   string // address
	written int64  // when it had started, bytes
}

// lawsOf reads what a server that has just started says about itself.
func lawsOf(s *server, env *surroundings) (*laws, error) {
	share, err := s.awaitLog("descriptors")
	if err != nil {
		return nil, err
	}
	port, err := s.awaitLog("admin port is open")
	if err != nil {
		return nil, err
	}
	clients, _ := share["client_connections"].(float64)
	l := &laws{s: s, env: env, clients: int(clients), admin: fmt.Sprint(port["address"])}
	l.written, err = writtenBy(s.pid)
	return l, err
}

const (
	// idleTime is for how long a server without work is watched, after as long to finish what it has begun. idleBytes
	// is what it may write in that time, to its log for instance.
	idleTime  = 3 * time.Second
	idleBytes = 64 << 10
	// residentSlack is the memory, in bytes, that a server may have besides its memory_limit: the program,
	// its buffers, and garbage.
	residentSlack = 192 << 20
	// writtenSlack and writtenShare are how many bytes a server may write: to begin with, and for each
	// one that it receives.
	writtenSlack = 256 << 20
	writtenShare = 64
)

// idle checks that a server of which nobody wants anything writes nothing.
func (l *laws) idle(t *trial) error {
	time.Sleep(idleTime)
	before, err := writtenBy(l.s.pid)
	if err != nil {
		return err
	}
	time.Sleep(idleTime)
	after, err := writtenBy(l.s.pid)
	if err != nil {
		return err
	}
	t.counts.checks.Add(1)
	if after-before > idleBytes {
		t.violate("an idle server wrote %d bytes in %v", after-before, idleTime)
	}
	return nil
}

// openReads checks that a connection may have as many reads open as max_open_transactions says, and no more. It does so
// only where that number is small enough to try.
func (l *laws) openReads(t *trial) error {
	const queue = "open-reads"
	most := l.env.openReads
	if most > mostInspected {
		return nil
	}
	body := func(int) []byte { return []byte("x") }
	c, err := dial(l.s, "memcache")
	if err != nil {
		return err
	}
	defer c.conn.Close()
	many := func(r request) error {
		for left := most; left > 0; left -= openAtOnce {
			requests := slices.Repeat([]request{r}, min(left, openAtOnce))
			if err := c.send(requests, body); err != nil {
				return err
			}
			for range requests {
				a, err := c.receive(r)
				if err != nil {
					return err
				}
				if a.refusal != "" || r.op == opOpen && len(a.items) != 1 {
					t.violate("of %d open reads one is refused, or finds no item: %s", most, a.refusal)
					return nil
				}
			}
		}
		return nil
	}
	flush := request{op: opFlush, queue: queue}
	if _, err := c.ask(flush, body); err != nil {
		return err
	}
	if err := many(request{op: opPut, queue: queue, items: []int{1}}); err != nil {
		return err
	}
	open := request{op: opOpen, queue: queue}
	if err := many(open); err != nil {
		return err
	}
	t.counts.checks.Add(1)
	a, err := c.ask(open, body)
	if err == nil && a.refusal == "" {
		t.violate("a connection opened read %d of max_open_transactions = %d", most+1, most)
	}
	return nil
}

// check compares what a server uses, and has used, with what it may.
func (l *laws) check(t *trial) error {
	open, err := descriptorsOf(l.s.pid)
	if err != nil {
		return err
	}
	memory, err := resident(l.s.pid)
	if err != nil {
		return err
	}
	written, err := writtenBy(l.s.pid)
	if err != nil {
		return err
	}
	metrics, err := l.metrics()
	if err != nil {
		return err
	}
	t.counts.checks.Add(1)
	parts := 0
	for _, m := range partUse.FindAllSubmatch(metrics, -1) {
		limit := regexp.MustCompile(`(?m)^kestrel_descriptors_limit\{part="` + string(m[1]) + `"\} (\S+)$`)
		most := limit.FindSubmatch(metrics)
		if most == nil || number(m[2]) > number(most[1]) {
			t.violate("%s use %s descriptors, and may use %s", m[1], m[2], most)
		}
		parts++
	}
	if parts < 6 {
		t.violate("the metrics tell of %d parts of the descriptors", parts)
	}
	if n := l.env.descriptors; n > 0 && open > n {
		t.violate("%d descriptors are open, of %d", open, n)
	}
	if most := l.env.memoryLimit + residentSlack; memory > most {
		t.violate("%d bytes are resident, with a memory_limit of %d", memory, l.env.memoryLimit)
	}
	received := int64(0)
	if m := receivedBytes.FindSubmatch(metrics); m != nil {
		received = int64(number(m[1]))
	}
	if most := writtenSlack + 8*l.env.segmentSize + writtenShare*received; written-l.written > most {
		t.violate("%d bytes were written for %d that were received", written-l.written, received)
	}
	return nil
}

var (
	partUse       = regexp.MustCompile(`(?m)^kestrel_descriptors\{part="(\w+)"\} (\S+)$`)
	receivedBytes = regexp.MustCompile(`(?m)^kestrel_received_bytes_total (\S+)$`)
	writtenField  = regexp.MustCompile(`(?m)^wchar: (\d+)$`)
)

// number is a value of a metric.
func number(b []byte) float64 {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return -1
	}
	return f
}

// metrics asks the server for its metrics.
func (l *laws) metrics() ([]byte, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get("http://" + l.admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	return io.ReadAll(reply.Body)
}

// writtenBy returns how many bytes a process has given to the kernel to be written.
func writtenBy(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	m := writtenField.FindSubmatch(b)
	if m == nil {
		return 0, fmt.Errorf("/proc/%d/io does not tell what was written", pid)
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}
