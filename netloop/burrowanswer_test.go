package netloop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// TestAnswersOfJobs has the jobs of two requests end in the same turn, in both orders: each client gets its own answer.
func TestAnswersOfJobs(t *testing.T) {
	const size = 32 << 10 // of a message: a job gathers two of them
	list := func(at *testServer, c *testClient) {
		at.loop.begin()
		c.session.receive(burrowRequest("GET /v1.0/big/q?detail=body", false))
		if c.session.state != waiting {
			t.Error("the list is no job")
		}
	}
	wantList := fmt.Sprintf(`["%s","%s"]`, strings.Repeat("x", size), strings.Repeat("y", size))
	for _, tt := range []struct{ first, want string }{
		{"GET /v1.0/acme", `["small"]`},
		{"GET /v1.0?detail=id", `["big","acme"]`},
		{"DELETE /v1.0/acme?detail=id", `["small"]`},
		{"GET /v1.1/acme", `{"queues":["small"]}`},
		{"POST /v1.0/acme/small/m0?ttl=0&detail=body", "old"},
	} {
		t.Run(tt.first, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := defaults()
				set.Default.MaxMemorySize = 1 // the message is on the disk alone
				ts := newTestServer(t, Options{}, set)
				p := &burrowPlayer{ts: ts, clients: map[byte]*testClient{}, size: 1 << 20}
				for _, put := range []string{
					"big/q/a < " + strings.Repeat("x", size), "big/q/b < " + strings.Repeat("y", size), "acme/small/k < old",
					"acme/small/m0 < old", "acme/small/m1 < old", "acme/small/m2 < old",
				} {
					if err := p.play("PUT /v1.0/" + put + " -> 201"); err != nil {
						t.Fatal(err)
					}
				}
				a, b := p.client('A'), p.client('B')
				for _, c := range []*testClient{a, b} {
					out, _ := c.received()
					c.consume(len(out))
				}
				ts.do(func() {
					ts.loop.begin()
					a.session.receive(burrowRequest(tt.first, false))
					if a.session.state != waiting {
						t.Errorf("%s is no job", tt.first)
					}
					ts.server.jobs.Wait()
					list(ts, b)
					ts.server.jobs.Wait()
					ts.loop.tick()
				})
				<-time.After(time.Second)
				if out, _ := a.received(); !bytes.HasSuffix(out, []byte("\r\n\r\n"+tt.want)) {
					t.Errorf("%s: %.300q, want %q", tt.first, out, tt.want)
				}
				if out, _ := b.received(); !bytes.HasSuffix(out, []byte("\r\n\r\n"+wantList)) {
					t.Errorf("the list beside %s: %d bytes, %.300q", tt.first, len(out), out)
				}
				a.hangUp()
				b.hangUp()
				ts.stop()
			})
		})
	}
}

// TestLargePutsOfOneID has two clients put a large message with the same id in one turn: one makes it, and the other
// replaces it.
func TestLargePutsOfOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		a, b := ts.dial(burrowProtocol{}), ts.dial(burrowProtocol{})
		put := fmt.Appendf(nil, "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", largePut+1,
			strings.Repeat("x", largePut+1))
		ts.do(func() {
			ts.loop.begin()
			a.session.receive(put)
			b.session.receive(put)
			ts.server.jobs.Wait()
			ts.loop.tick()
		})
		made := 0
		for _, c := range []*testClient{a, b} {
			switch out, _ := c.received(); {
			case bytes.HasPrefix(out, []byte("HTTP/1.1 201 ")):
				made++
			case !bytes.HasPrefix(out, []byte("HTTP/1.1 204 ")):
				t.Errorf("a put: %q", out)
			}
			c.hangUp()
		}
		if made != 1 {
			t.Errorf("%d of two puts of one id have made the message, want 1", made)
		}
	})
}

// TestHideTooLong has a request wait at a new queue for a message, which it would then hide for longer than the queue
// allows. The request is refused, and the message stays.
func TestHideTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := defaults()
		set.Default.MaxDelay = time.Minute
		ts := newTestServer(t, Options{}, set)
		defer ts.stop()
		a, b := ts.dial(burrowProtocol{}), ts.dial(burrowProtocol{})
		a.feed(burrowRequest("POST /v1.0/a/q?hide=61&wait=10&detail=id", false), 1<<20)
		b.feed(fmt.Appendf(nil, "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"), 1<<20)
		if out, _ := a.received(); !bytes.HasPrefix(out, []byte("HTTP/1.1 400 ")) {
			t.Errorf("hidden for too long: %q", out)
		}
		if q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("a/q")); q.Items != 1 || q.OpenReads != 0 {
			t.Errorf("%d messages, %d open, want 1 and 0", q.Items, q.OpenReads)
		}
		a.hangUp()
		b.hangUp()
	})
}

// TestHideWithTTL has a request wait for a message, to hide it and to give it another time to live. A hidden message of a
// queue that is over its memory goes to the disk at once. It has the new time there all the same. At a queue that is new the
// server does not know whether it may be hidden for so long. If it may not, it has its own time again.
func TestHideWithTTL(t *testing.T) {
	const hidden = 20 // messages, which are more than the queue's memory holds
	for _, tt := range []struct {
		name, terms, reply, kept string
		others                   int
	}{
		{"both", "hide=60&ttl=30", `200 [{"hide":60,"id":"m","ttl":30}]`, `200 {"hide":59,"id":"m","ttl":29}`, hidden},
		{"hidden for too long", "hide=6000&ttl=30", "400 hide: longer than the queue allows.", `200 {"hide":0,"id":"m","ttl":299}`, hidden},
		{"too long at a new queue", "hide=6000&ttl=30", "400 hide: longer than the queue allows.", `200 {"hide":0,"id":"m","ttl":299}`, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			set := defaults()
			set.Default.MaxMemorySize, set.Default.MaxDelay = 1, time.Hour
			ts := newTestServer(t, Options{}, set)
			defer ts.stop()
			a, b := ts.dial(burrowProtocol{}), ts.dial(burrowProtocol{})
			for i := range tt.others {
				b.burrowReply(fmt.Sprintf("PUT /v1.0/a/q/%d?hide=3600 < %s", i, strings.Repeat("x", 4000)))
			}
			a.feed(burrowRequest("POST /v1.0/a/q?wait=10&detail=attributes&"+tt.terms, false), 1<<20)
			b.burrowReply("PUT /v1.0/a/q/m?ttl=300 < " + strings.Repeat("y", 4000))
			pass(time.Second)
			out, _ := a.received()
			if got := statusAndBody(string(out)); got != tt.reply {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.reply)
			}
			if got := statusAndBody(b.burrowReply("GET /v1.0/a/q/m?detail=attributes")); got != tt.kept {
				t.Errorf("%s: the message is %s, want %s", tt.name, got, tt.kept)
			}
			a.hangUp()
			b.hangUp()
		})
	}
}

// statusAndBody are those of a reply.
func statusAndBody(reply string) string {
	head, body, _ := strings.Cut(reply, "\r\n\r\n")
	status, _, _ := strings.Cut(strings.TrimPrefix(head, "HTTP/1.1 "), " ")
	return status + " " + body
}

// TestLongNames asks for a page of queues whose names are long to word. A job words them, and the reply is sent from
// where it lies.
func TestLongNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		const queues = 400
		for i := range queues {
			name := engine.AppendAccountQueue(nil, []byte("a"), fmt.Appendf(nil, "%03d%s", i, strings.Repeat("\x01", 200)))
			put := []engine.PutRequest{{Data: []byte("x"), Extra: &engine.PutExtra{Key: []byte("m")}}}
			if _, err := ts.opts.Engine.PutAll(engine.Now(), name, put); err != nil {
				t.Fatal(err)
			}
		}
		c := ts.dial(burrowProtocol{})
		ts.do(func() {
			ts.loop.begin()
			c.session.receive(burrowRequest("GET /v1.1/a", false))
			ts.server.jobs.Wait()
			ts.loop.heedNews()
			if n := len(c.session.out); n > wholeReply {
				t.Errorf("the loop has copied %d bytes of the names", n)
			}
			ts.loop.tick()
		})
		pass(time.Second)
		out, _ := c.received()
		if n := strings.Count(string(out), `\u0001`); n != queues*200 || !bytes.HasSuffix(out, []byte(`"]}`)) {
			t.Errorf("%d bytes, with %d of %d characters: %.100q", len(out), n, queues*200, out)
		}
		c.hangUp()
	})
}
