package wire

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// FuzzRead feeds a connection what a server might send, in pieces of some size. Replies come as
// DecodeReply finds them in the whole, and the buffer stays in proportion to what came.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"STORED\r\n", "VALUE q 0 5\r\nhello\r\nEND\r\nEND\r\n", "VALUE q 0 99999999999\r\n",
		"VALUE q 0 2147483647\r\nx", "STAT a b\r\nEND\r\n", "\x00\xff\n\n\r\n", "VALUE q 0 3\r\nabcde"} {
		f.Add([]byte(seed), uint8(1))
		f.Add([]byte(seed), uint8(200))
	}
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		c := &Conn{stream: &canned{rest: sent, piece: int(piece) + 1}}
		rest := sent
		for {
			var got, want memcache.Reply
			err := c.Read(&got)
			n, wantErr := memcache.DecodeReply(rest, &want)
			if len(c.in) > 4*(len(sent)+readSize) {
				t.Fatalf("a buffer of %d bytes for %d that came", len(c.in), len(sent))
			}
			if err != nil {
				if wantErr == nil {
					t.Fatalf("Read = %v, and %q begins with a reply", err, rest)
				}
				return
			}
			if wantErr != nil || got.Kind != want.Kind || !bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Text, want.Text) {
				t.Fatalf("Read = %+v, want %+v, %v", got, want, wantErr)
			}
			rest = rest[n:]
		}
	})
}

// canned is a connection on which bytes come in pieces.
type canned struct {
	net.Conn
	rest  []byte
	piece int
}

func (c *canned) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *canned) SetReadDeadline(time.Time) error { return nil }
