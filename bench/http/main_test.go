package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

// TestRow tests that a figure beyond its goal is said, and that the run then fails.
func TestRow(t *testing.T) {
	for _, tt := range []struct {
		figure float64
		goal   goal
		want   string
		missed bool
	}{
		{3, goal{most: 3, unit: " µs"}, "| x | ≤ 3 µs | yes |\n", false},
		{3.01, goal{most: 3, unit: " µs"}, "| x | ≤ 3 µs | **NO** |\n", true},
		{1.5, goal{most: 1.5, below: true, unit: " ×"}, "| x | < 1.5 × | **NO** |\n", true},
	} {
		var b bench
		b.row(tt.figure, tt.goal, "x")
		if got := b.report.String(); got != tt.want || b.missed != tt.missed {
			t.Errorf("row(%v) = %q, missed %t, want %q, %t", tt.figure, got, b.missed, tt.want, tt.missed)
		}
	}
}

// TestReplyHTTP tests that replies are read to their ends, and what is none is an error.
func TestReplyHTTP(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	go func() {
		io.WriteString(server, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcSSH-2.0\r\n")
		server.Close()
	}()
	c := &conn{client, bufio.NewReader(client)}
	for _, want := range []struct {
		status int
		body   string
	}{{201, ""}, {200, "abc"}} {
		if status, body, err := c.replyHTTP(); status != want.status || string(body) != want.body || err != nil {
			t.Errorf("replyHTTP = %d, %q, %v, want %d, %q", status, body, err, want.status, want.body)
		}
	}
	if status, _, err := c.replyHTTP(); err == nil {
		t.Errorf("replyHTTP of another protocol = %d", status)
	}
}

// TestSlowList tests that messages are counted that begin in one piece and end in another.
func TestSlowList(t *testing.T) {
	const n = 5000
	list := &slowList{from: strings.NewReader("[" + strings.Repeat(`{"body":"0123456789","id":"x"},`, n) + "]")}
	for !list.over {
		if err := list.read(1); err != nil {
			t.Fatal(err)
		}
	}
	if list.messages != n {
		t.Errorf("%d messages are counted, want %d", list.messages, n)
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
}
