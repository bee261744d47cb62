package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

const (
	// longestTurn is how long a turn of an event loop may work on what hostile clients ask for.
	longestTurn = 20 * time.Millisecond
	// turnTries is how often a case is tried in which a turn is longer. A loop may wait for a lock whose holder waits
	// for a processor. As far as it knows, it works then; on a busy machine that happens now and then.
	turnTries = 3
)

// longTurn says which turn of the server took long, as the server has measured it. The time that the loop waited for a
// processor does not count. It is empty if no turn took long.
func longTurn(s *server) (string, error) {
	line, err := s.awaitLog("admin port is open")
	if err != nil {
		return "", err
	}
	client := http.Client{Timeout: patience}
	reply, err := client.Get(fmt.Sprintf("http://%v/metrics?queues=", line["address"]))
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), "kestrel_longest_turn_work_seconds ")
		if !ok {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if took := time.Duration(seconds * float64(time.Second)); took > longestTurn {
			return fmt.Sprintf("a turn of an event loop worked for %v, want %v at most; the server logged %v",
				took, longestTurn, s.logged("event loop ")), err
		}
		return "", err
	}
	return "", fmt.Errorf("the status has no longest turn: %s", reply.Status)
}

// unreadReplies are clients that ask for a large item, or many, and read nothing. Memory stays within
// what the server may have, and others are served.
func unreadReplies(_ context.Context, t *trial, s *server) error {
	const size, clients = 8 << 20, 40
	for name, n := range map[string]int{"large": size, "small": 100 << 10} {
		put := fmt.Appendf(nil, "set %s 0 0 %d\r\n%s\r\n", name, n, strings.Repeat("x", n))
		if _, err := exchange(s, "memcache", put, 1<<20); err != nil {
			return err
		}
	}
	before, err := resident(s.pid)
	if err != nil {
		return err
	}
	for i := range clients {
		for protocol, request := range map[string]string{
			"memcache": strings.Repeat([]string{"get large/peek\r\n", "get small/peek\r\n"}[i%2], 20),
			"text":     strings.Repeat([]string{"peek large\n", "peek small\n"}[i%2], 20),
			"thrift":   strings.Repeat([]string{thriftPeek("large"), thriftPeek("small")}[i%2], 20),
			"burrow":   strings.Repeat(httpRequest("GET", "/v1.0/default/"+[]string{"large", "small"}[i%2], ""), 20),
		} {
			c, err := dialNarrow(s, protocol, 16<<10)
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := io.WriteString(c, request); err != nil {
				return err
			}
		}
	}
	expectService(t, s, "beside clients that do not read")
	// A quarter of memory_limit, in buffers that have grown by doubling, and the collector's share.
	return grows(t, s, before, 64<<20, fmt.Sprint(4*clients, " clients that do not read"))
}

// thriftPeek is a call of peek.
func thriftPeek(queue string) string {
	return string(thrift.Client{}.AppendCall(nil, thrift.MethodPeek, 1, []byte(queue)))
}

// expensiveFloods are pipelines of requests that cost more than they take to send. No turn of a loop may
// be long on their account.
func expensiveFloods(_ context.Context, t *trial, s *server) error {
	var queues strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&queues, "get n%d\r\n", i)
	}
	for _, request := range []string{
		queues.String(), strings.Repeat("stats\r\n", 20), strings.Repeat("flush_all\r\n", 200),
		strings.Repeat("dump_config\r\n", 20), strings.Repeat("get nothing\r\n", 20_000),
		strings.Repeat("set n1 0 0 1\r\nx\r\n", 20_000), strings.Repeat("get n1\r\n", 20_000),
	} {
		if _, err := exchange(s, "memcache", []byte(request), 1<<20); err != nil {
			return err
		}
		expectService(t, s, "behind a flood of requests")
		t.counts.trials.Add(1)
	}
	var messages strings.Builder
	for i := range 2000 {
		messages.WriteString(httpRequest("PUT", fmt.Sprintf("/v1.0/default/flood/%d", i), "x"))
	}
	for _, request := range []string{
		messages.String(),
		strings.Repeat(httpRequest("GET", "/v1.0/default", ""), 200), // a list of 2000 queues each
		strings.Repeat(httpRequest("GET", "/v1.0/default/flood", ""), 200),
		strings.Repeat(httpRequest("POST", "/v1.0/default/flood?ttl=1000", ""), 200),
		strings.Repeat(httpRequest("GET", "/v1.0/default/flood/1999", ""), 20_000),
		strings.Repeat(httpRequest("DELETE", "/v1.0/default/nothing", ""), 20_000),
		httpRequest("POST", "/v1.1/default/flood/messages", `{"messages":[`+strings.Repeat(`{"body":"x"},`, 20_000)+`{"body":"x"}]}`),
		httpRequest("DELETE", "/v1.0/default/flood", ""),
	} {
		if _, err := exchange(s, "burrow", []byte(request), 1<<20); err != nil {
			return err
		}
		expectService(t, s, "behind a flood of HTTP requests")
		t.counts.trials.Add(1)
	}
	return nil
}

// manyPolls are clients that wait for messages by the thousand, and go. Each costs little, nobody else waits for them,
// and nothing of them is left.
func manyPolls(_ context.Context, t *trial, s *server) error {
	const polls = 2000
	files, err := descriptorsOf(s.pid)
	if err != nil {
		return err
	}
	before, err := resident(s.pid)
	if err != nil {
		return err
	}
	for range 2 {
		var conns []*net.TCPConn
		for i := range polls {
			c, err := dialRaw(s, "burrow")
			if err != nil {
				return err
			}
			defer c.Close()
			method := []string{"GET", "DELETE"}[i%2]
			if _, err := io.WriteString(c, httpRequest(method, fmt.Sprintf("/v1.0/default/polled%d?wait=600", i%10), "")); err != nil {
				return err
			}
			conns = append(conns, c)
		}
		expectService(t, s, "beside many polls")
		if err := grows(t, s, before, polls*(16<<10), fmt.Sprint(polls, " polls")); err != nil {
			return err
		}
		for _, c := range conns {
			c.SetLinger(0)
			c.Close()
		}
		if err := awaitClosed(t, s, files); err != nil {
			return err
		}
	}
	return nil
}

// putsAndCloses are clients that put and close at once, while syncs are slow. No loop waits for the disk
// on their account, and what they have put is there.
func putsAndCloses(_ context.Context, t *trial, s *server) error {
	const clients = 50
	for i := range clients {
		c, err := dialRaw(s, "memcache")
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, "set left 0 0 1\r\nx\r\n"); err != nil {
			return err
		}
		if i%2 == 0 {
			c.CloseWrite()
			reply, err := readSome(c)
			if string(reply) != "STORED\r\n" {
				t.violate("a client that puts and sends nothing more got %q, %v", reply, err)
			}
		}
		c.Close()
		t.counts.trials.Add(1)
	}
	return nil
}

// reloadsBeside has operators reload while one client keeps many reads open and a queue has much in memory. The
// reloads take queues into the journal and out of it, and end the reads because they are overdue.
func reloadsBeside(ctx context.Context, t *trial, s *server) error {
	const long, reads = 10_000, 10_000
	puts := strings.Repeat(fmt.Sprintf("set long 0 0 4096\r\n%4096d\r\n", 1), long) +
		strings.Repeat(fmt.Sprintf("set held 0 0 1024\r\n%1024d\r\n", 1), reads)
	stored, err := exchange(s, "memcache", []byte(puts), 1<<20)
	if err != nil || strings.Count(string(stored), "STORED") != long+reads {
		return fmt.Errorf("puts ahead of reloads: %.100q, %w", stored, err)
	}
	holder, err := dialRaw(s, "memcache")
	if err != nil {
		return err
	}
	defer holder.Close()
	go io.WriteString(holder, strings.Repeat("get held/open\r\n", reads)) // the replies come meanwhile
	reply := len(fmt.Sprintf("VALUE held 0 1024\r\n%1024d\r\nEND\r\n", 1))
	if n, err := io.CopyN(io.Discard, holder, int64(reads*reply)); err != nil {
		return fmt.Errorf("replies of opened items end after %d bytes: %w", n, err)
	}
	others, stop := context.WithCancel(ctx)
	var served sync.WaitGroup
	defer served.Wait()
	defer stop()
	served.Go(func() {
		for others.Err() == nil {
			// These queues are in the shards that the reloads lock.
			reply, err := exchangeOpen(s, "set long 0 0 1\r\nx\r\nset held 0 0 1\r\nx\r\nget long\r\n", "END\r\n")
			if !strings.HasPrefix(reply, "STORED\r\nSTORED\r\nVALUE long") {
				t.violate("beside reloads a client got %.100q, %v", reply, err)
			}
		}
	})
	for _, config := range []string{"true", "false", "true\nopen_transaction_timeout = \"1ms\""} {
		config = "max_open_transactions = 10000\n[default]\nkeep_journal = " + config + "\n"
		if err := os.WriteFile(filepath.Join(s.cmd.Dir, "lab.toml"), []byte(config), 0o600); err != nil {
			return err
		}
		reply, err := exchange(s, "memcache", []byte("reload\r\n"), 64)
		if err != nil || !strings.HasPrefix(string(reply), "Reloaded") {
			t.violate("a reload beside open reads got %q, %v", reply, err)
		}
		t.counts.trials.Add(1)
	}
	// The oldest comes back last, and nobody gets another one before.
	back, err := exchangeOpen(s, "get held/t=20000\r\n", "END\r\n")
	if err != nil || !strings.HasPrefix(back, "VALUE held") {
		t.violate("an overdue read has not come back: %.100q, %v", back, err)
	}
	return nil
}
