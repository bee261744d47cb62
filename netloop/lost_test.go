package netloop

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// TestLostItem has the item that a wait brings be overwritten before its client gets it. The client gets what the queue
// has instead, or waits for what is left of its time. It does not hear that the queue is empty.
func TestLostItem(t *testing.T) {
	const reply = "VALUE q 0 3\r\nnew\r\nEND\r\n"
	for _, tt := range []struct {
		name, ask, got string
		proto          protocol
	}{
		{"get", "get q/t=1000\r\n", reply, memcacheProtocol{}},
		{"open", "get q/t=1000/open\r\n", reply, memcacheProtocol{}},
		{"lease", "get q/lease=5000/t=1000\r\n", reply, memcacheProtocol{}},
		{"several", "get p/or=q/t=1000\r\n", reply, memcacheProtocol{}},
		{"monitor", "monitor q 1 1\r\n", reply + "END\r\n", memcacheProtocol{}},
		{"text", "get q 1000\n", ":new\n", textProtocol{}},
	} {
		for _, taken := range []bool{false, true} { // by somebody else
			t.Run(fmt.Sprintf("%s, taken %t", tt.name, taken), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ts := newTestServer(t, Options{}, defaults())
					defer ts.stop()
					c := ts.dial(tt.proto)
					c.feed([]byte(tt.ask), len(tt.ask))
					e, now := ts.opts.Engine, engine.Now()
					put := func(body string) {
						p := engine.PutRequest{Data: []byte(body), Extra: &engine.PutExtra{Key: []byte("K")}}
						if _, err := e.Put(now, []byte("q"), p); err != nil {
							t.Error(err)
						}
					}
					ts.do(func() {
						put("old")
						put("new")
						if !taken {
							return
						}
						if _, err := e.Fetch(now, []byte("q"), engine.FetchRequest{}, anyItem{}); err != nil {
							t.Error(err)
						}
					})
					if taken {
						if got, ended := c.received(); len(got) > 0 || ended {
							t.Fatalf("the client waits no more: %q", got)
						}
						time.Sleep(500 * time.Millisecond) // of the bubble
						ts.do(func() { put("new") })
					}
					if got, _ := c.received(); string(got) != tt.got {
						t.Errorf("the client gets %q, want %q", got, tt.got)
					}
					if n := ts.loop.counters; n.CmdGet != 1 && tt.name != "monitor" || n.GetMisses > 0 {
						t.Errorf("counted are %d fetches and %d misses", n.CmdGet, n.GetMisses)
					}
				})
			})
		}
	}
}
