package client

import (
	"context"
	"math"
	"net"
	"strings"
	"testing"
	"time"
)

// TestLongestTimes makes calls with the longest times that there are: servers hear of long ones, and not of none.
func TestLongestTimes(t *testing.T) {
	heard := make(chan string, 10)
	r := rigged(t, func(_ int, conn net.Conn) {
		buf := make([]byte, 1<<16)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			heard <- string(buf[:n])
			answer := "VALUE work 0 1 7\r\nx\r\nEND\r\n"
			switch {
			case strings.HasPrefix(string(buf[:n]), "version"):
				answer = "VERSION 3.0.0\r\n"
			case strings.HasPrefix(string(buf[:n]), "touch"):
				answer = "TOUCHED\r\n"
			case strings.Contains(string(buf[:n]), "/abort"):
				answer = "END\r\n"
			}
			conn.Write([]byte(answer))
		}
	})
	c := dial(t, Options{}, r.addr)
	k, err := c.ConsumeLeased("work", math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	d, err := k.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Extend(within(t), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	if err := d.AbortAfter(within(t), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"version", "/lease=2147483647", "touch work/lease=7 2147483647", "/delay=2147483647"} {
		if got := <-heard; !strings.Contains(got, want) {
			t.Errorf("the server heard %q, which lacks %q", got, want)
		}
	}
}

// lateContext is a context that has ended, of which nobody has heard yet.
type lateContext struct{ context.Context }

func (lateContext) Err() error { return context.Canceled }

// TestBatchAbortLate has the context of an Abort end at the moment in which the answer has come.
func TestBatchAbortLate(t *testing.T) {
	c := dial(t, Options{}, serve(t).addr)
	put(t, c, "work", "x")
	b, err := c.OpenBatch(within(t), "work", 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Abort(lateContext{context.Background()}); err != nil {
		t.Errorf("Abort = %v, and the server has the item back", err)
	}
}
