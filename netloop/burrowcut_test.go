package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// puts are requests that store messages in queue q of account a, each in its framing, and how the queue then shows
// them.
func puts() []struct{ name, in, want string } {
	const head = " HTTP/1.1\r\nHost: localhost\r\n"
	batch := `{"messages":[{"id":"m","body":"hello"},{"id":"n","body":"world"}]}`
	return []struct{ name, in, want string }{
		{"length", "PUT /v1.0/a/q/m?ttl=60&hide=0" + head + "Content-Length: 5\r\n\r\nhello", `["hello"]`},
		{"chunked", "PUT /v1.0/a/q/m" + head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX: y\r\n\r\n", `["hello"]`},
		{"empty", "PUT /v1.0/a/q/m" + head + "\r\n", `[""]`},
		{"batch", fmt.Sprintf("POST /v1.1/a/q/messages%sContent-Length: %d\r\n\r\n%s", head, len(batch), batch), `["hello","world"]`},
		{"chunked batch", fmt.Sprintf("POST /v1.1/a/q/messages%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
			head, 20, batch[:20], len(batch)-20, batch[20:]), `["hello","world"]`},
	}
}

// TestBurrowCut checks that a request that is cut off anywhere stores nothing, whether its client hangs up or its
// connection breaks. The whole request stores its message.
func TestBurrowCut(t *testing.T) {
	for _, tt := range puts() {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{}, defaults())
				defer ts.stop()
				for cut := range len(tt.in) {
					for _, end := range []func(*testClient){(*testClient).hangUp, (*testClient).reset} {
						c := ts.dial(burrowProtocol{})
						c.feed([]byte(tt.in[:cut]), 1<<20)
						if out, ended := c.received(); len(out) > 0 || ended {
							t.Fatalf("cut at %d of %q: got %q, closed %t", cut, tt.in, out, ended)
						}
						end(c)
					}
					if s := ts.opts.Engine.Stats(); s.Queues > 0 || s.TotalItems > 0 {
						t.Fatalf("cut at %d of %q: %d queues, %d items were put", cut, tt.in, s.Queues, s.TotalItems)
					}
				}
				if kept := ts.server.buffered.Load(); kept != 0 {
					t.Errorf("%d bytes of input are still counted as kept", kept)
				}
				c := ts.dial(burrowProtocol{})
				c.feed([]byte(tt.in), 1)
				out, _ := c.received()
				if !strings.HasPrefix(string(out), "HTTP/1.1 201 ") {
					t.Errorf("the whole of %q = %q, want 201", tt.in, out)
				}
				c.consume(len(out))
				p := &burrowPlayer{ts: ts, clients: map[byte]*testClient{'A': c}, size: 1 << 20}
				if err := p.play("GET /v1.0/a/q?detail=body -> 200 " + tt.want); err != nil {
					t.Error(err)
				}
				c.hangUp()
			})
		})
	}
}
