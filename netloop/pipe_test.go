package netloop

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// A client in memory is served like one behind a socket. It gets its replies, even those that come after it has closed
// its sending side. What it had open goes back when it resets its connection.
func TestPipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(engine.Options{Dir: "data", FS: segmenttest.New(), Settings: defaults(), SegmentSize: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPipes(Options{Engine: e, MaxPending: 100}, true)
		if err != nil {
			t.Fatal(err)
		}
		p.Start()
		const item = "VALUE q 0 1\r\nx\r\nEND\r\n"
		wantRead := func(c *PipeConn, want string) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("client reads %q, %v; want %q", got, err, want)
			}
		}
		a := p.Dial(PipeMemcache, 1<<10)
		a.Write([]byte("set q 0 0 1\r\nx\r\nget q/open\r\n"))
		wantRead(a, "STORED\r\n"+item)
		a.Close()
		if rest, err := io.ReadAll(a); err != nil || len(rest) > 0 {
			t.Errorf("after a reset the client reads %q, %v", rest, err)
		}
		b := p.Dial(PipeMemcache, 10) // of which most does not fit
		b.Write([]byte(strings.Repeat("get q/peek\r\n", 20)))
		synctest.Wait()
		b.CloseWrite()
		out, err := io.ReadAll(b)
		if n := strings.Count(string(out), item); err != nil || n == 0 || len(out) != n*len(item) {
			t.Errorf("half-closed client reads %q, %v; want whole replies", out, err)
		}
		c := p.Dial(PipeText, 1<<10)
		c.Write([]byte("get q 60000\n"))
		wantRead(c, ":x\n")
		c.Write([]byte("get q 60000\n")) // waits
		synctest.Wait()
		p.Shutdown(t.Context())
		if rest, err := io.ReadAll(c); err != nil || string(rest) != "*\n" {
			t.Errorf("a client that waits when the server stops reads %q, %v; want *", rest, err)
		}
		if _, err := p.Dial(PipeText, 1).Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a client of a stopped server reads %v, want EOF", err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Pipes refuse connections over the limit, as ports do, and say what they keep for a client that does not read.
func TestPipesBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engine.Open(engine.Options{Dir: "data", FS: segmenttest.New(), Settings: defaults(), SegmentSize: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPipes(Options{Engine: e, MaxConnections: 1}, true)
		if err != nil {
			t.Fatal(err)
		}
		p.Start()
		a := p.Dial(PipeMemcache, 10)
		refused, err := io.ReadAll(p.Dial(PipeMemcache, 1<<10))
		if want := "SERVER_ERROR too many open connections\r\n"; err != nil || string(refused) != want {
			t.Errorf("a connection over the limit reads %q, %v; want %q", refused, err, want)
		}
		const reply = "END\r\n"
		a.Write([]byte(strings.Repeat("get q\r\n", 20)))
		synctest.Wait()
		if got, want := a.Kept(), 20*len(reply)-10; got != want {
			t.Errorf("the server keeps %d bytes for a client that does not read, want %d", got, want)
		}
		a.Close()
		synctest.Wait()
		if n := p.Connections(); n != 0 {
			t.Errorf("%d connections are open after the last has ended", n)
		}
		p.Shutdown(t.Context())
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
