package netloop

import (
	"bufio"
	"context"
	"net"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// A put whose item lines are still to come when the server stops has begun: it is answered.
func TestShutdownBetweenItemLines(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		opts := Options{Text: "127.0.0.1:0", Loops: 1, ShutdownGrace: testDeadline}
		s := startServer(t, eventLoop, opts, unsynced())
		nc, err := net.Dial("tcp", s.TextAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(testDeadline))
		p := &peer{t, nc.(*net.TCPConn), bufio.NewReader(nc)}
		silent := dial(t, s)
		silent.send("version\r\n")
		silent.expect("VERSION " + Version + "\r\n")
		p.send("put q:\nfirst\n")
		waitFor(t, func() bool {
			q, _ := s.opts.Engine.QueueStats(engine.Now(), []byte("q"))
			return q.Items == 1
		})
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		silent.expectEnd() // the loop has ended what can be ended
		p.send("second\n\n")
		const want = "-Server not available for operation setItem\n"
		if got := p.expectEnd(); got != want {
			t.Errorf("put that had begun got %q, want %q", got, want)
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown = %v", err)
		}
	})
}
