package loadtest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/testserver"
)

// pusher is nsqd as the generator sees it. It keeps so many messages on the way to a consumer, also
// while that has no request on the way.
func pusher(t *testing.T, items chan []byte) *testserver.Server {
	return testserver.Answering(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		io.ReadFull(in, make([]byte, len("  V2")))
		for ready := 0; ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			words := strings.Fields(line)
			switch words[0] {
			case "IDENTIFY", "PUB":
				var size [4]byte
				io.ReadFull(in, size[:])
				body := make([]byte, binary.BigEndian.Uint32(size[:]))
				io.ReadFull(in, body)
				if words[0] == "PUB" {
					items <- body
				}
				io.WriteString(c, "\x00\x00\x00\x06\x00\x00\x00\x00OK")
			case "SUB":
				io.WriteString(c, "\x00\x00\x00\x06\x00\x00\x00\x00OK")
			case "RDY":
				ready = 4
			case "FIN":
				ready++
			}
			for ; ready > 0 && len(items) > 0; ready-- {
				body := <-items
				frame := binary.BigEndian.AppendUint32(nil, uint32(4+nsqMessageHead+len(body)))
				frame = binary.BigEndian.AppendUint32(frame, nsqMessage)
				frame = append(frame, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x010123456789abcdef"...)
				c.Write(append(frame, body...))
			}
		}
	})
}

// TestRunPushes gets from a server that pushes, in two windows: what comes between them counts in
// the second.
func TestRunPushes(t *testing.T) {
	items := make(chan []byte, 1000)
	s := pusher(t, items)
	ledger := NewLedger(1, false)
	put := Options{Addr: s.Addr(), Protocol: NSQ, Ledger: ledger, Groups: []Group{{Operations: 1000}}}
	if _, err := Run(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	get := put
	get.Warmup = time.Millisecond
	get.Groups = []Group{{Operation: CloseOpen, Burst: 4, Drain: true}}
	if _, err := Run(t.Context(), get); err != nil {
		t.Fatal(err)
	}
	if c := ledger.Counts(); c.Put != 1000 || c.Got != 1000 {
		t.Errorf("Counts = %+v, want 1000 put and got", c)
	}
}
