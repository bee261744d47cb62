package netloop

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestRefusalWording: what files stand in the way of is refused in the words of each protocol, and the
// connection goes on. The path of a file is not for clients.
func TestRefusalWording(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{engine.ErrWithheld, "queue is withheld"},
		{engine.ErrBacklog, "backlog cannot be read"},
		{engine.ErrJournal, "journal failed"},
		{engine.ErrOutOfDisk, "out of disk space"},
	} {
		err := fmt.Errorf("%w: read 64 bytes at offset 64 of data/backlog/0000000001.run: %w", tt.cause, syscall.EIO)
		reply, fatal := memcacheRefusal(nil, err)
		if got := string(reply); got != "SERVER_ERROR "+tt.want+"\r\n" || fatal {
			t.Errorf("memcache says %q, and ends the connection: %t", got, fatal)
		}
		if got := string(textProtocol{}.retract(nil, nil, err)); got != "-"+tt.want+"\n" {
			t.Errorf("text says %q", got)
		}
		if got := thriftReason(err); got != tt.want {
			t.Errorf("Thrift says %q", got)
		}
	}
}

// TestBacklogRefusal has clients of each protocol ask for an item that a failing disk keeps back.
func TestBacklogRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := defaults()
		set.Default.MaxMemorySize = 1
		ts := newTestServer(t, Options{}, set)
		a, b := ts.dial(memcacheProtocol{}), ts.dial(textProtocol{})
		a.feed([]byte(strings.Repeat("set q 0 0 1\r\nx\r\n", 3)), 1<<20)
		a.consume(3 * len("STORED\r\n"))
		synctest.Wait() // until the items are in a run
		ts.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpReadAt, 0, syscall.EIO))
		a.feed([]byte("get q\r\nversion\r\n"), 1<<20)
		want := "SERVER_ERROR backlog cannot be read\r\nVERSION " + Version + "\r\n"
		if out, ended := a.received(); string(out) != want || ended {
			t.Errorf("memcache got %q, closed %t; want %q", out, ended, want)
		}
		b.feed([]byte("get q\n"), 1<<20)
		if out, ended := b.received(); string(out) != "-backlog cannot be read\n" || ended {
			t.Errorf("text got %q, closed %t", out, ended)
		}
		ts.fs.SetFault(nil)
		a.hangUp()
		b.hangUp()
		ts.stop()
	})
}
