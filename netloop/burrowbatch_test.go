package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/engine"
)

// postBatch is a request with a batch.
func postBatch(queue, form string) []byte {
	return fmt.Appendf(nil, "POST /v1.1/%s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", queue, len(form), form)
}

// TestBatchMemory tests that a large batch is read only if there is memory for what reading it takes.
func TestBatchMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		ts.stop()
		ts.memory = 16 << 20
		ts.start()
		for _, tt := range []struct {
			size int
			want string
		}{{1 << 20, "201 Created"}, {4 << 20, "503 Service Unavailable"}, {1 << 20, "201 Created"}} {
			c := ts.dial(burrowProtocol{})
			c.feed(postBatch("a/q", `{"messages":[{"body":"`+strings.Repeat("x", tt.size)+`"}]}`), 64<<10)
			synctest.Wait()
			if got, _ := c.received(); !strings.HasPrefix(string(got), "HTTP/1.1 "+tt.want) {
				t.Errorf("a batch of %d bytes, with %d left: %.200q, want %s", tt.size, ts.opts.Engine.MemoryLeft(), got, tt.want)
			}
			c.hangUp()
			synctest.Wait()
		}
	})
}

// TestBatchToMany tests that a job puts a batch to a queue with many children, and the loop one to a queue with few.
func TestBatchToMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		const children, puts = 100, 100
		c := ts.dial(memcacheProtocol{})
		for i := range children {
			c.feed(fmt.Appendf(nil, "get many+%d\r\n", i), 1<<20)
		}
		c.hangUp()
		form := `{"messages":[` + strings.TrimSuffix(strings.Repeat(`{"body":"x"},`, puts), ",") + "]}"
		for queue, job := range map[string]bool{"default/many": true, "default/one": false} {
			c := ts.dial(burrowProtocol{})
			began := false
			ts.do(func() {
				ts.loop.begin()
				c.session.receive(postBatch(queue, form))
				began = c.session.state == waiting && c.session.wait.kind == waitJob
			})
			ts.do(ts.loop.tick)
			got, _ := c.received()
			if want := fmt.Sprintf(`{"stored":%d}`, puts); !strings.HasSuffix(string(got), want) || began != job {
				t.Errorf("a batch to %s: in a job %t, want %t, and answered %q", queue, began, job, got)
			}
			c.hangUp()
		}
		stats, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("many+7"))
		if stats.Items != puts {
			t.Errorf("a child has %d items, want %d", stats.Items, puts)
		}
	})
}
