package netloop

import (
	"bytes"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

// orderedSink is a sink that notes in a list which of several sessions was sent something.
type orderedSink struct {
	*testClient
	name string
	sent *[]string
}

func (o orderedSink) send(p []byte) {
	*o.sent = append(*o.sent, o.name)
	o.testClient.send(p)
}

// Of one turn, replies with items leave before all others, whoever asked first, also those of a
// session that was waiting. Without that, producers stay a round ahead of consumers, and a queue
// that was long once stays so: tick.go with one loop over dirty fails here.
func TestItemsLeaveFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		var sent []string
		clients := make(map[string]*testClient)
		for _, name := range []string{"producer", "waiting", "other", "consumer"} {
			c := ts.dial(memcacheProtocol{})
			ts.do(func() { c.session.sink = orderedSink{c, name, &sent} })
			clients[name] = c
			defer c.hangUp()
		}
		clients["waiting"].feed([]byte("get q/t=1000\r\n"), 100)
		ts.do(func() {
			ts.loop.begin()
			clients["producer"].session.receive(bytes.Repeat([]byte("set q 0 0 1\r\nx\r\n"), 2))
			clients["other"].session.receive([]byte("version\r\n"))
			clients["consumer"].session.receive([]byte("get q\r\n"))
			ts.loop.tick()
		})
		if len(sent) != 4 {
			t.Fatalf("replies to %v, want all four", sent)
		}
		if got := slices.Sorted(slices.Values(sent[:2])); !slices.Equal(got, []string{"consumer", "waiting"}) {
			t.Errorf("replies left in the order %v, want those with items first", sent)
		}
	})
}

// What has come while a turn was handled shares its sync, if the loop is to wait for that: turn
// without its second look fails here.
func TestSecondLookBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		d := ts.server.loops[0]
		if err := d.poller.start(); err != nil {
			t.Fatal(err)
		}
		defer d.poller.close()
		d.poller.events = d.poller.events[:1] // the first look sees one of the two
		var clients [2]int
		for i := range clients {
			near, far := socketPair(t)
			fd, err := unix.Dup(near) // the driver closes its own
			if err != nil {
				t.Fatal(err)
			}
			c := &conn{fd: fd, addr: new(net.TCPAddr)}
			c.session.proto, c.session.local = memcacheProtocol{}, true
			ts.do(func() {
				ts.server.limit(&c.session, ts.server.connections.Add(1))
				d.take(c)
			})
			clients[i] = far
			if _, err := unix.Write(far, []byte("set q 0 0 1\r\nx\r\n")); err != nil {
				t.Fatal(err)
			}
		}
		before := ts.server.Metrics().Syncs.Total()
		ts.do(d.turn)
		for i, fd := range clients {
			var reply [64]byte
			if n, _ := unix.Read(fd, reply[:]); string(reply[:max(n, 0)]) != "STORED\r\n" {
				t.Errorf("client %d got %q after one turn, want STORED", i, reply[:max(n, 0)])
			}
		}
		if n := ts.server.Metrics().Syncs.Total() - before; n != 1 {
			t.Errorf("%d syncs for two puts, want 1", n)
		}
		ts.do(func() { d.stop() })
	})
}
