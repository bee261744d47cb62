package netloop

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// bigReply is an item that no socket takes at once, and the reply to a GET of it.
func bigReply() (item, reply string) {
	item = strings.Repeat("x", 24<<20)
	return item, fmt.Sprintf("VALUE big 0 %d\r\n%s\r\nEND\r\n", len(item), item)
}

// getUnread has a client get an item without reading it, until a part of the reply has been sent.
func getUnread(t *testing.T, s *Server) *peer {
	t.Helper()
	item, _ := bigReply()
	p := dial(t, s)
	p.send("set big 0 0 %d\r\n%s\r\n", len(item), item)
	p.expect("STORED\r\n")
	p.send("get big\r\n")
	waitFor(t, func() bool { return s.Counters().BytesWritten > int64(len(item)) })
	return p
}

// TestShutdownFinishesReplies stops a server in the middle of a reply. The item in it is gone from its
// queue: the client gets it whole, as long as it reads within the grace period, however much its
// connection may hold.
func TestShutdownFinishesReplies(t *testing.T) {
	for _, pending := range []int{0, 1 << 30} { // the session is stalled, and idle
		s := startServer(t, Options{Loops: 1, MaxPending: pending, ShutdownGrace: testDeadline}, unsynced())
		p := getUnread(t, s)
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		if pending > 0 {
			waitFor(t, func() bool { return s.Connections() == 0 }) // the reply is the drainer's
		}
		_, reply := bigReply()
		if got := p.expectEnd(); got != reply {
			t.Errorf("with %d bytes allowed: %d bytes of the reply arrived, want %d", pending, len(got), len(reply))
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		if n, _ := s.drainer.undelivered(); n != 0 {
			t.Errorf("%d replies are counted as cut off", n)
		}
	}
}

// TestShutdownCountsReplies stops a server whose client does not read: what it did not get is logged and
// counted.
func TestShutdownCountsReplies(t *testing.T) {
	for _, pending := range []int{0, 1 << 30} {
		var log bytes.Buffer
		s := startServer(t, Options{
			Loops: 1, MaxPending: pending, ShutdownGrace: time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, unsynced())
		getUnread(t, s)
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		n, size := s.drainer.undelivered()
		want := fmt.Sprintf("connections=1 bytes=%d", size)
		if n != 1 || size == 0 || s.Stats().RepliesCut != 1 || !strings.Contains(log.String(), want) {
			t.Errorf("with %d bytes allowed: %d connections, %d bytes, log %q, want one, and %q",
				pending, n, size, log.String(), want)
		}
	}
}
