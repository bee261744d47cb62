package client

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	k := serve(t)
	gone := rigged(t, silent)
	gone.close()
	c := dial(t, Options{}, k.addr, gone.addr)
	one := dial(t, Options{}, k.addr)
	put(t, one, "a_mem", "12345", "x")
	put(t, one, "a+child", "y")
	put(t, one, "a", "z")
	all := c.Stats(within(t))
	if len(all) != 2 {
		t.Fatalf("Stats = %+v", all)
	}
	failed := 0
	for _, s := range all {
		if s.Server == gone.addr {
			failed++
			if s.Err == nil {
				t.Errorf("a server that is away: %+v", s)
			}
			continue
		}
		if s.Err != nil || s.Items != 5 || s.Bytes != 9 || s.Version == "" || s.Puts != 4 || s.Connections < 1 {
			t.Errorf("Stats = %+v", s)
		}
		var names []string
		for _, q := range s.Queues {
			names = append(names, fmt.Sprint(q.Name, q.Items, q.Bytes, q.Children))
		}
		if got, want := fmt.Sprint(names), "[a1 1 [a+child] a+child2 2 [] a_mem2 6 []]"; got != want {
			t.Errorf("queues %s, want %s", got, want)
		}
	}
	if failed != 1 {
		t.Errorf("%d servers failed, want 1", failed)
	}
}

// TestStatsWithoutDump tests a server that knows STATS alone.
func TestStatsWithoutDump(t *testing.T) {
	lines := strings.Join([]string{"STAT uptime 77", "STAT curr_items 3", "STAT pid 9",
		"STAT queue_a_items 1", "STAT queue_a_mem_items 5", "STAT queue_a_logsize 10", "STAT queue_a_age 1500",
		"STAT queue_a_mem_items 2", "STAT queue_b_c_items 3", "STAT queue_b_c_odd 3", "END", ""}, "\r\n")
	r := rigged(t, func(_ int, conn net.Conn) {
		for in := bufio.NewScanner(conn); in.Scan(); {
			if in.Text() == "stats" {
				fmt.Fprint(conn, lines)
			} else {
				fmt.Fprint(conn, "ERROR\r\n")
			}
		}
	})
	s := dial(t, Options{}, r.addr).Stats(within(t))[0]
	want := ServerStats{
		Server: r.addr, Uptime: 77 * time.Second, Items: 3, Other: map[string]string{"pid": "9", "queue_b_c_odd": "3"},
		Queues: []QueueStats{
			{Name: "a", Items: 1, DiskBytes: 10, Age: 1500 * time.Millisecond, Other: map[string]string{"mem_items": "2"}},
			{Name: "b_c", Items: 3},
		},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("Stats = %+v\nwant    %+v", s, want)
	}
}

// TestFiguresForEver asks for figures a server that sends them without end: the client does not keep them all. It does
// not take the short list of STATS for all if the other one has no end.
func TestFiguresForEver(t *testing.T) {
	stats, dump := strings.Repeat("STAT x 1\r\n", 1<<10), strings.Repeat("queue 'q' {\r\n", 1<<10)
	for name, behave := range map[string]func(n int, conn net.Conn){
		"STATS": endless(stats),
		"DUMP_STATS": func(n int, conn net.Conn) {
			conn.Read(make([]byte, 1<<10))
			fmt.Fprint(conn, "END\r\n")
			endless(dump)(n, conn)
		},
	} {
		r := rigged(t, behave)
		c := dial(t, Options{ReplyTimeout: patience}, r.addr)
		c.most = 1 << 20
		if s := c.Stats(within(t))[0]; !errors.Is(s.Err, ErrReplyTooLarge) || !errors.Is(s.Err, ErrProtocol) ||
			!strings.Contains(s.Err.Error(), r.addr) || len(s.Queues) > 0 {
			t.Errorf("%s: %d queues and %v, want ErrReplyTooLarge of %s", name, len(s.Queues), s.Err, r.addr)
		}
	}
}

// TestFiguresOfLongNames asks for figures of queues with the longest names. They count as what is kept of them: their part
// of the bound is that of each of a million queues.
func TestFiguresOfLongNames(t *testing.T) {
	const queues = 1000
	var stats strings.Builder
	for n := range queues {
		name := fmt.Sprintf("%0255d", n)
		fmt.Fprintf(&stats, "STAT queue_%s_items 1\r\n", name) // the first of each
		for entry := range queueEntries {
			fmt.Fprintf(&stats, "STAT queue_%s_%s %d\r\n", name, entry, 1)
		}
	}
	r := rigged(t, func(_ int, conn net.Conn) {
		for in := bufio.NewScanner(conn); in.Scan(); {
			if in.Text() == "stats" {
				fmt.Fprint(conn, stats.String()+"END\r\n")
			} else {
				fmt.Fprint(conn, "ERROR\r\n")
			}
		}
	})
	c := dial(t, Options{}, r.addr)
	c.most = maxFigures >> 20 * queues // of so many as a server has by default at most
	if s := c.Stats(within(t))[0]; s.Err != nil || len(s.Queues) != queues {
		t.Errorf("%d queues and %v, want %d", len(s.Queues), s.Err, queues)
	}
}

func TestManage(t *testing.T) {
	a, b := serve(t), serve(t)
	c := dial(t, Options{}, a.addr, b.addr)
	ctx := within(t)
	for _, remove := range []func() error{
		func() error { return c.Flush(ctx, "work") },
		func() error { return c.Delete(ctx, "work") },
	} {
		for range 40 {
			put(t, c, "work", "x")
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(ctx, "work", 0); !errors.Is(err, ErrEmpty) {
			t.Errorf("Get = %v, want ErrEmpty", err)
		}
	}
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	status, err := c.Status(ctx)
	if err != nil || status[a.addr] != "UP" || status[b.addr] != "UP" {
		t.Errorf("Status = %v, %v", status, err)
	}
	if err := c.SetStatus(ctx, "readonly"); err != nil {
		t.Fatal(err)
	}
	if status, err := c.Status(ctx); err != nil || status[a.addr] != "READONLY" || status[b.addr] != "READONLY" {
		t.Errorf("Status = %v, %v", status, err)
	}
	if err := c.SetStatus(ctx, "asleep"); err == nil {
		t.Error("SetStatus took a status that there is not")
	}
	if err := c.SetStatus(ctx, "Up"); err != nil {
		t.Fatal(err)
	}
	b.stop()
	if err := c.Ping(ctx); err == nil || !strings.Contains(err.Error(), b.addr) {
		t.Errorf("Ping = %v, want an error that names %s", err, b.addr)
	}
	if err := c.Flush(ctx, "work"); err == nil || !strings.Contains(err.Error(), b.addr) {
		t.Errorf("Flush = %v, want an error that names %s", err, b.addr)
	}
}
