package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// TestWorkOfRequests tests what a request counts as that touches many items, or looks at many queues. Many such
// requests in a row take turns with other clients.
func TestWorkOfRequests(t *testing.T) {
	const items, few = 200, 50 // a job changes many
	call := thrift.Client{}
	ids := make([]int64, items)
	for _, tt := range []struct {
		proto   protocol
		request []byte
		work    int
	}{
		{burrowProtocol{}, burrowRequest(fmt.Sprintf("DELETE /v1.0/default/q?limit=%d", few), false), few},
		{burrowProtocol{}, burrowRequest(fmt.Sprintf("POST /v1.0/default/q?hide=60&limit=%d", few), false), few},
		{thriftProtocol{}, call.AppendConfirm(nil, 1, []byte("q"), ids...), items},
		{thriftProtocol{}, call.AppendAbort(nil, 1, []byte("q"), ids...), items},
		{burrowProtocol{}, burrowRequest("GET /v1.0/default/none/m", false), 0}, // see lookSoon
	} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestServer(t, Options{}, defaults())
			defer ts.stop()
			puts := make([]engine.PutRequest, items)
			for i := range puts {
				puts[i].Data = []byte("x")
			}
			if _, err := ts.opts.Engine.PutAll(engine.Now(), []byte("q"), puts); err != nil {
				t.Fatal(err)
			}
			c := ts.dial(tt.proto)
			ts.do(func() {
				ts.loop.begin()
				s := &c.session
				s.receive(tt.request)
				if s.wait.kind != noWait || s.work < tt.work || tt.work == 0 && s.look >= s.work {
					t.Errorf("%.60q counts as %d, and the next look is at %d; want %d", tt.request, s.work, s.look, tt.work)
				}
				ts.loop.tick()
			})
			c.hangUp()
		})
	}
}

// TestWorkOfExtras tests what a put of items with delays or keys counts as, for each queue that takes them. A job does one
// of so many items that the loop would take too long.
func TestWorkOfExtras(t *testing.T) {
	const children, items = 15, 100
	var call thrift.Client
	data := make([][]byte, items)
	batch := `{"messages":[` + strings.Repeat(`{"body":"x","delay_ms":9},`, 599) + `{"body":"x"}]}`
	for _, tt := range []struct {
		name    string
		proto   protocol
		request string
		work    int // 0: a job's
	}{
		{"text", textProtocol{}, "put p delay=9:\nx\n\n", (1 + children) * extraWork},
		{"thrift", thriftProtocol{}, string(call.AppendPutWith(nil, 1, []byte("p"), thrift.PutOptions{DelayMillis: 9}, data...)), 0},
		{"thrift, without", thriftProtocol{}, string(call.AppendPut(nil, 1, []byte("p"), 0, data...)), (1 + children) * items},
		{"Burrow", burrowProtocol{}, string(burrowRequest("POST /v1.1/a/q/messages < "+batch, false)), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{}, defaults())
				defer ts.stop()
				for i := range children {
					p := engine.PutRequest{Data: []byte("x")}
					if _, err := ts.opts.Engine.Put(engine.Now(), fmt.Appendf(nil, "p+%d", i), p); err != nil {
						t.Fatal(err)
					}
				}
				c := ts.dial(tt.proto)
				ts.do(func() {
					ts.loop.begin()
					s := &c.session
					s.receive([]byte(tt.request))
					if isJob := s.wait.kind == waitJob; isJob != (tt.work == 0) || s.work < tt.work {
						t.Errorf("it counts as %d and is a job's: %t; want %d", s.work, isJob, tt.work)
					}
					ts.loop.tick()
				})
				synctest.Wait()
				c.hangUp()
			})
		})
	}
}
