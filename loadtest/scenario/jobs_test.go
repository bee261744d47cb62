package scenario

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// jobServer is a server with delays and leases, which may break a promise.
type jobServer struct {
	bug string

	mu sync.Mutex
	// Guarded by mu.
	queues   map[string][]*served
	receipts uint64
	takes    int
}

// served is an item of a jobServer.
type served struct {
	data       string
	due        time.Time
	receipt    uint64
	deliveries int
}

// serveJobs runs a jobServer and returns its address.
func serveJobs(t *testing.T, bug string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &jobServer{bug: bug, queues: make(map[string][]*served)}
	var wg sync.WaitGroup
	conns := make(map[net.Conn]bool)
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			conns[c] = true
			s.mu.Unlock()
			wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for c := range conns {
			c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

func (s *jobServer) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		reply := "END\r\n"
		switch words[0] {
		case "version":
			reply = "VERSION 3.0.0\r\n"
		case "set":
			n, _ := strconv.Atoi(words[4])
			data := make([]byte, n+2)
			if _, err := io.ReadFull(in, data); err != nil {
				return
			}
			queue, delay := options(words[1])["queue"], millisOf(options(words[1])["delay"])
			s.add(queue, string(data[:n]), delay)
			reply = "STORED\r\n"
		case "get", "gets":
			reply = s.get(options(words[1]))
		case "touch":
			seconds, _ := strconv.Atoi(words[2])
			reply = s.end(options(words[1]), "lease", time.Duration(seconds)*time.Second, "TOUCHED\r\n", "NOT_FOUND\r\n")
		case "delete":
			reply = s.end(options(words[1]), "lease", 0, "DELETED\r\n", "NOT_FOUND\r\n")
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
}

// options are those of a name: what stands behind the slashes, and the queue.
func options(name string) map[string]string {
	o := make(map[string]string)
	for i, option := range strings.Split(name, "/") {
		key, value, _ := strings.Cut(option, "=")
		if i == 0 {
			key, value = "queue", option
		}
		o[key] = value
	}
	return o
}

func millisOf(text string) time.Duration {
	n, _ := strconv.Atoi(text)
	return time.Duration(n) * time.Millisecond
}

func (s *jobServer) add(queue, data string, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bug == "early" {
		delay /= 2
	}
	s.queues[queue] = append(s.queues[queue], &served{data: data, due: time.Now().Add(delay)})
}

// get takes an item, leases one, or gives one back.
func (s *jobServer) get(o map[string]string) string {
	for _, verb := range []string{"abort", "reject"} {
		if o[verb] == "" {
			continue
		}
		if verb == "reject" {
			return s.end(o, verb, 0, "END\r\n", "CLIENT_ERROR not held\r\n")
		}
		delay := millisOf(o["delay"])
		if s.bug == "early" {
			delay /= 2
		}
		return s.end(o, verb, max(delay, 1), "END\r\n", "CLIENT_ERROR not held\r\n")
	}
	for end := time.Now().Add(millisOf(o["t"])); ; {
		if reply := s.take(o); reply != "" || !time.Now().Before(end) {
			return reply + "END\r\n"
		}
		<-time.After(time.Millisecond)
	}
}

// take returns the value of an item that is due, or "".
func (s *jobServer) take(o map[string]string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, it := range s.queues[o["queue"]] {
		if time.Now().Before(it.due) {
			continue
		}
		s.takes++
		it.deliveries++
		value := func(suffix string) string {
			return fmt.Sprintf("VALUE %s 0 %d%s\r\n%s\r\n", o["queue"], len(it.data), suffix, it.data)
		}
		if o["lease"] == "" {
			s.leave(o["queue"], i, it, 7)
			return value("")
		}
		counted := it.deliveries
		if s.bug == "count" && counted > 1 {
			counted--
		}
		s.receipts++
		it.receipt, it.due = s.receipts, time.Now().Add(millisOf(o["lease"]))
		if s.bug == "short" {
			it.due = time.Now().Add(millisOf(o["lease"]) / 2)
		}
		json := fmt.Sprintf(`{"id":1,"deliveries":%d,"added":1,"receipt":"%d"}`, counted, it.receipt)
		return fmt.Sprintf("VALUE %s/meta 0 %d\r\n%s\r\n", o["queue"], len(json), json) + value(fmt.Sprint(" ", it.receipt))
	}
	return ""
}

// leave removes an item for good, but for one that a bug keeps.
func (s *jobServer) leave(queue string, i int, it *served, every int) {
	if s.bug == "twice" && s.takes%every == 0 {
		it.due = time.Now()
		s.bug = ""
		return
	}
	s.queues[queue] = append(s.queues[queue][:i:i], s.queues[queue][i+1:]...)
}

// end ends a lease, or has it end in a while.
func (s *jobServer) end(o map[string]string, option string, in time.Duration, yes, no string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	receipt, _ := strconv.ParseUint(o[option], 10, 64)
	for i, it := range s.queues[o["queue"]] {
		if it.receipt != receipt {
			continue
		}
		switch {
		case in > 0:
			it.due = time.Now().Add(in)
		case option == "reject":
			s.leave(o["queue"], i, it, 1)
			if s.bug != "lost" {
				s.queues[o["queue"]+"_dead"] = append(s.queues[o["queue"]+"_dead"], &served{data: it.data})
			}
			if s.bug == "two copies" {
				s.queues[o["queue"]+"_dead"] = append(s.queues[o["queue"]+"_dead"], &served{data: it.data})
			}
		default:
			s.leave(o["queue"], i, it, 1)
		}
		return yes
	}
	return no
}

// TestJobs runs the scenarios of delays, leases and retries against a server that keeps its promises, and against ones
// that do not.
func TestJobs(t *testing.T) {
	jobs := Jobs{Queue: "jobs", Items: 60, Size: 64, Producers: 2, Consumers: 3}
	delayed := Delayed{Jobs: jobs, Min: 300 * time.Millisecond, Max: 600 * time.Millisecond}
	leases := Leases{Jobs: jobs, Lease: time.Second, Leak: 0.2}
	retries := Retries{Jobs: jobs, Fails: 2, Backoff: 200 * time.Millisecond, Reject: 5}
	for _, tt := range []struct {
		scenario Scenario
		bug      string
		want     string // of the error; "" for none
	}{
		{delayed, "", ""},
		{leases, "", ""},
		{retries, "", ""},
		{delayed, "early", "before it was due"},
		{delayed, "twice", "has come again after its end"},
		{leases, "twice", "has come"}, // again after its end, or before the end of the lease
		{leases, "short", "before it was due"},
		{leases, "count", "and the server says"},
		{retries, "early", "before it was due"},
		{retries, "count", "and the server says"},
		{retries, "lost", "is no dead letter"},
		{retries, "two copies", "the dead-letter queue has"},
	} {
		t.Run(tt.scenario.Name()+" "+tt.bug, func(t *testing.T) {
			t.Parallel()
			out := new(strings.Builder)
			e := &Env{Server: serveJobs(t, tt.bug), Out: out, Figures: new(figures.Run), Seed: 5, Verify: true, Flush: true,
				Timeout: time.Minute}
			err := Run(context.Background(), e, tt.scenario)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run = %v, want %q; it printed:\n%s", err, tt.want, out)
			}
			if c := e.Figures.Checked; c.Put != 60 || err == nil && (c.Got != 60 || c.Early+c.Twice+c.Lost+c.Foreign != 0) {
				t.Errorf("Checked = %+v", c)
			}
		})
	}
}

// TestJobLedgerLost tests that a job that does not come is lost, and one that nobody has put is no job.
func TestJobLedgerLost(t *testing.T) {
	l := newJobLedger(5)
	l.patience = time.Millisecond
	for seq := range uint64(3) {
		l.put(seq, 0)
	}
	now := time.Now()
	for _, body := range [][]byte{l.body(0, 64), l.body(7, 64), []byte("somebody's"), newJobLedger(6).body(1, 64)} {
		if seq, n := l.came(body, now.Add(time.Hour), false); n > 0 {
			l.end(seq, false)
		}
	}
	l.putting = false
	e := &Env{Out: io.Discard, Figures: new(figures.Run)}
	err := l.report(e, &figures.Phase{Wall: int64(time.Second)})
	if c := e.Figures.Checked; c.Put != 3 || c.Got != 1 || c.Lost != 2 || c.Foreign != 3 {
		t.Errorf("Checked = %+v, want 3 put, 1 got, 2 lost and 3 foreign", c)
	}
	if err == nil || !strings.Contains(err.Error(), "job 2 has not come") && !strings.Contains(err.Error(), "job 1 has not come") {
		t.Errorf("the report's error is %v", err)
	}
}

// TestJobsOptions tests that options that make no sense are refused.
func TestJobsOptions(t *testing.T) {
	good := Jobs{Queue: "jobs", Items: 1, Size: 64, Producers: 1, Consumers: 1}
	small := good
	small.Size = minJobSize - 1
	for _, s := range []Scenario{
		Delayed{Jobs: Jobs{}}, Delayed{Jobs: small}, Delayed{Jobs: good, Min: 2, Max: 1}, Delayed{Jobs: good, Min: -1},
		Leases{Jobs: good}, Leases{Jobs: good, Lease: time.Second, Leak: 1},
		Retries{Jobs: good, Fails: -1}, Retries{Jobs: good, Reject: -1}, Retries{Jobs: good, Backoff: -1},
	} {
		if err := s.Validate(); err == nil {
			t.Errorf("%T %+v is taken", s, s)
		}
	}
	var r memcache.Reply
	r.Kind = memcache.KindStored
	if err := unexpected("get", &r); !strings.Contains(err.Error(), "STORED") {
		t.Errorf("unexpected = %v", err)
	}
}
