package netloop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// httpCaller is a client of version 1.1 in fake time.
type httpCaller struct {
	t  *testing.T
	ts *testServer
}

// ask sends a request over a connection of its own. It is METHOD TARGET, perhaps with "< BODY". ask returns the
// reply's status line and what follows the head.
func (c *httpCaller) ask(request string) (status, body string) {
	c.t.Helper()
	line, form, _ := strings.Cut(request, " < ")
	conn := c.ts.dial(burrowProtocol{})
	defer conn.hangUp()
	conn.feed(fmt.Appendf(nil, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", line, len(form), form), 1<<20)
	for range 100 {
		synctest.Wait()
		if out, _ := conn.received(); strings.Contains(string(out), "\r\n\r\n") {
			head, body, _ := strings.Cut(string(out), "\r\n\r\n")
			return strings.Fields(head)[1], body
		}
		<-time.After(10 * time.Millisecond)
	}
	c.t.Fatalf("%s has no reply", request)
	return "", ""
}

// expect asks, and compares the status, and a part of the body.
func (c *httpCaller) expect(request, status, part string) {
	c.t.Helper()
	if got, body := c.ask(request); got != status || !strings.Contains(body, part) {
		c.t.Errorf("%.90s = %s %s, want %s %s", request, got, body, status, part)
	}
}

// lease receives one message, whose deliveries must be so many, and returns the path of its receipt.
func (c *httpCaller) lease(queue string, ms, deliveries int) string {
	c.t.Helper()
	status, body := c.ask(fmt.Sprintf(`POST /v1.1/a/%s/receive < {"lease_ms":%d}`, queue, ms))
	var reply struct {
		Messages []struct {
			Receipt    string
			Deliveries int
		}
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil || status != "200" || len(reply.Messages) != 1 {
		c.t.Fatalf("receive from %s = %s %s", queue, status, body)
	}
	if got := reply.Messages[0].Deliveries; got != deliveries {
		c.t.Errorf("%s: %d deliveries, want %d", queue, got, deliveries)
	}
	return "/v1.1/a/" + queue + "/receipts/" + reply.Messages[0].Receipt
}

// TestBurrowLapsed tests what version 1.1 says of leases that have lapsed, that count, and that the queue limits: what
// the other protocols say.
func TestBurrowLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := engine.Settings{Default: engine.DefaultQueueOptions(), Queues: map[string]engine.QueueOptions{}}
		o := set.Default
		o.MaxDeliveries, o.MaxDelay, o.Lease, o.MaxKeys = 2, time.Minute, time.Second, 1
		set.Queues["a/work"] = o
		ts := newTestServer(t, Options{}, set)
		defer ts.stop()
		c := &httpCaller{t, ts}
		const none = "The receipt holds no message"
		put := func(form, status, part string) {
			t.Helper()
			c.expect("POST /v1.1/a/work/messages < "+form, status, part)
		}

		// It has lapsed, and nobody has taken the message: it can be confirmed, and nothing else.
		put(`{"messages":[{"body":"x","id":"k"}]}`, "201", `{"stored":1}`)
		receipt := c.lease("work", 1000, 1)
		<-time.After(1100 * time.Millisecond)
		c.expect("POST "+receipt+` < {"lease_ms":5000}`, "404", none)
		c.expect("POST "+receipt+` < {"release":true}`, "404", none)
		c.expect("POST "+receipt+` < {"reject":true}`, "404", none)
		c.expect("DELETE "+receipt, "204", "")
		c.expect("DELETE "+receipt, "404", none)

		// Somebody else has it: the receipt is stale. The second lapse buries the message, with its id.
		put(`{"messages":[{"body":"x","id":"k"}]}`, "201", `{"stored":1}`)
		first := c.lease("work", 1000, 1)
		<-time.After(1100 * time.Millisecond)
		second := c.lease("work", 1000, 2)
		c.expect("DELETE "+first, "404", none)
		c.expect("DELETE /v1.1/a/work/messages/k", "409", "")
		<-time.After(1100 * time.Millisecond)
		c.expect("GET /v1.1/a/work_dead/messages", "200", `{"messages":[{"id":"k","body":"x","deliveries":0`)
		c.expect("GET /v1.1/a/work/messages?match_hidden=true", "200", `{"messages":[]}`)
		c.expect("DELETE "+second, "404", none)

		// A lease that is extended lasts from then on, and a message that is given back may be hidden first.
		put(`{"messages":[{"body":"y"}]}`, "201", `{"stored":1}`)
		receipt = c.lease("work", 1000, 1)
		<-time.After(900 * time.Millisecond)
		began := engine.Now()
		var extended struct{ Due engine.Time }
		status, body := c.ask("POST " + receipt + ` < {"lease_ms":2000}`)
		err := json.Unmarshal([]byte(body), &extended)
		if err != nil || status != "200" || extended.Due < began+2000 || extended.Due > engine.Now()+2000 {
			t.Errorf("more time at %d = %s %s, want that it lasts for two seconds from then on", began, status, body)
		}
		<-time.After(1900 * time.Millisecond)
		c.expect("POST "+receipt+` < {"release":true,"delay_ms":60001}`, "400", "")
		c.expect("POST "+receipt+` < {"release":true,"delay_ms":500}`, "204", "")
		c.expect(`POST /v1.1/a/work/receive < {"lease_ms":1000}`, "200", `{"messages":[]}`)
		<-time.After(600 * time.Millisecond)
		c.lease("work", 30000, 1)

		// What the queue does not take, or no message may have, is refused, and nothing is stored.
		for _, bad := range []struct{ form, status string }{
			{`{"messages":[{"body":"z","delay_ms":60001}]}`, "400"},
			{`{"messages":[{"body":"z","delay_ms":-1}]}`, "400"},
			{`{"messages":[{"body":"z","id":"` + strings.Repeat("k", 251) + `"}]}`, "400"},
			{`{"messages":[{"body":"z","id":"a/b"}]}`, "400"},
			{`{"messages":[{"body":"z","id":"a\u0001b"}]}`, "400"},
			{`{"messages":[{"body":"z","id":"a"},{"body":"z","id":"` + strings.Repeat("k", 251) + `"}]}`, "400"},
		} {
			put(bad.form, bad.status, "")
		}
		c.expect(`POST /v1.1/a/work/receive < {"lease_ms":-1}`, "400", "")
		c.expect("GET /v1.1/a/work/messages", "200", `{"messages":[]}`)

		// A queue with all the keys that it may have takes messages without one, and overwrites.
		put(`{"messages":[{"body":"1","id":"one"}]}`, "201", `{"stored":1}`)
		put(`{"messages":[{"body":"2","id":"two"}]}`, "507", "")
		put(`{"messages":[{"body":"3","id":"one"}]}`, "201", `{"stored":1}`)
		c.expect("GET /v1.1/a/work/messages", "200", `{"id":"one","body":"3","deliveries":0}`)

		// Without lease_ms the queue's own lease counts.
		receipt = c.lease("work", 0, 1)
		<-time.After(1100 * time.Millisecond)
		c.expect("POST "+receipt+` < {"release":true}`, "404", none)
	})
}
