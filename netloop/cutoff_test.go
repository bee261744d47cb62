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

// bigItem is one of as many items as no socket takes at once.
func bigItem(items int) string { return strings.Repeat("x", 24<<20/items) }

// bigReply is the reply to a GET of each such item: a large one, which is sent in pieces, or many, which are made
// together.
func bigReply(items int) string {
	item := bigItem(items)
	value := fmt.Sprintf("VALUE big 0 %d\r\n", len(item)) + item + "\r\nEND\r\n"
	if items == 1 {
		return value
	}
	return strings.Repeat(value, items)
}

// getUnread has a client get items without reading them, until a part of the reply has been sent.
func getUnread(t *testing.T, s *Server, items int) *peer {
	t.Helper()
	item := bigItem(items)
	p := dial(t, s)
	for range items {
		p.send("set big 0 0 %d\r\n", len(item))
		p.sendWhole(item)
		p.sendWhole("\r\n")
		p.expect("STORED\r\n")
	}
	p.send("%s", strings.Repeat("get big\r\n", items))
	waitFor(t, func() bool {
		n := s.Counters()
		return n.GetHits == int64(items) && n.BytesWritten > bodyPiece
	})
	return p
}

// cutOffCases are how many items make a reply, and what its connection may hold: the session is stalled,
// and idle.
var cutOffCases = []struct{ items, pending int }{{1, 0}, {120, 1 << 30}}

// TestShutdownFinishesReplies stops a server in the middle of a reply. The item in it is gone from its queue. The
// client gets it whole, as long as it reads within the grace period, however much its connection may hold.
func TestShutdownFinishesReplies(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		for _, tt := range cutOffCases {
			pending := tt.pending
			s := startServer(t, eventLoop, Options{Loops: 1, MaxPending: pending, ShutdownGrace: testDeadline}, unsynced())
			p := getUnread(t, s, tt.items)
			done := make(chan error, 1)
			go func() { done <- s.Shutdown(context.Background()) }()
			if pending > 0 {
				waitFor(t, func() bool { return s.Connections() == 0 }) // the reply is the drainer's
			}
			reply := bigReply(tt.items)
			p.expect(reply)
			if got := p.expectEnd(); got != "" {
				t.Errorf("with %d bytes allowed: %d bytes arrived behind the reply", pending, len(got))
			}
			if err := <-done; err != nil {
				t.Errorf("Shutdown = %v", err)
			}
			if n, _ := s.drainer.undelivered(); n != 0 {
				t.Errorf("%d replies are counted as cut off", n)
			}
		}
	})
}

// TestShutdownCountsReplies stops a server whose client does not read: what it did not get is logged and
// counted.
func TestShutdownCountsReplies(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		for _, tt := range cutOffCases {
			pending := tt.pending
			var log bytes.Buffer
			s := startServer(t, eventLoop, Options{
				Loops: 1, MaxPending: pending, ShutdownGrace: time.Millisecond,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			}, unsynced())
			getUnread(t, s, tt.items)
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
	})
}
