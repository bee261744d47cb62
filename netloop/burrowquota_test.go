package netloop

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// TestAccountQuota plays requests of accounts with quotas, on a clock of its own.
func TestAccountQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{Accounts: map[string]AccountQuota{
			"few":  {Queues: 2, Items: 3, Bytes: 100},
			"wait": {Waits: 1},
			"slow": {Operations: 2},
			"thin": {Traffic: 1000},
		}}, defaults())
		p := &burrowPlayer{ts: ts, clients: map[byte]*testClient{}, size: 1 << 20}
		large := strings.Repeat("x", 90)
		const full = "507 The account may have 3 messages, and has as many."
		refused := int64(0)
		for _, step := range []string{
			"PUT /v1.0/few/a/1 < x -> 201", "PUT /v1.0/few/a/2?hide=60 < x -> 201",
			"PUT /v1.0/few/b/1 < " + large + " -> 201",
			"PUT /v1.0/few/b/2 < x -> " + full,
			"PUT /v1.0/few/c/1 < x -> 507 The account may have 2 queues, and has as many.",
			`POST /v1.1/few/a/messages < {"messages":[{"body":"x"}]} -> 507 {"type":"about:blank","title":"Insufficient Storage","status":507,"detail":"The account may have 3 messages, and has as many."}`,
			"DELETE /v1.0/few/a/1 -> 204",
			"PUT /v1.0/few/a/3 < " + large + " -> 507 The account may have 100 bytes of messages, and has as many.",
			"PUT /v1.0/few/a/3 < x -> 201",
			"PUT /v1.0/few/a/4 < x -> " + full,
			"POST /v1.0/few/a/2?hide=0 -> 204", // changes nothing of that
			"DELETE /v1.0/few/a -> 204",
			"PUT /v1.0/few/a/4 < x -> 201",
			"PUT /v1.0/other/c/1 < x -> 201", "PUT /v1.0/default/c/1 < x -> 201",

			"A> GET /v1.0/wait/q?wait=10", "A. 100",
			"B> GET /v1.0/wait/q?wait=10", "B< 429 The account may have 1 requests that wait, and has as many.",
			"B> POST /v1.0/wait/q?wait=10&hide=5", "B< 429 The account may have 1 requests that wait, and has as many.",
			"A. 9800", "wait 200", "A< 404 Account not found",
			"B> POST /v1.0/wait/q?wait=1&hide=5", "B. 900", "wait 200", "B< 404 Account not found",
			"B> DELETE /v1.0/wait/q?wait=10&detail=body", "B. 100", "PUT /v1.0/wait/q/m < x -> 201", `B< 200 ["x"]`,
			"A> GET /v1.0/wait/q?wait=1", "A. 900", "wait 200", "A< 404 Account not found",

			"GET /v1.0/slow/q -> 404 Account not found", "GET /v1.0/slow/q -> 404 Account not found",
			"GET /v1.0/slow/q -> 404 Account not found",
			"GET /v1.0/slow/q -> 429 The account may have 2 requests a second, and has as many.",
			"wait 500", "GET /v1.0/slow/q -> 404 Account not found",
			"GET /v1.0/slow/q -> 429 The account may have 2 requests a second, and has as many.",
			"PUT /v1.0/thin/q/m < " + strings.Repeat("x", 3000) + " -> 201",
			"GET /v1.0/thin/q?detail=none -> 429 The account may have 1000 bytes of requests a second, and has as many.",
			"wait 3000", "GET /v1.0/thin/q?detail=none -> 204",
		} {
			if err := p.play(step); err != nil {
				t.Errorf("%s: %v", step, err)
				break
			}
			refused += int64(strings.Count(step, "and has as many"))
		}
		if got := ts.server.Counters().OverQuota; got != (OverQuota{Account: refused}) {
			t.Errorf("refusals are counted as %+v, want %d of accounts", got, refused)
		}
		// A client that goes away while it waits is not counted any more.
		p.send('C', "GET /v1.0/wait/q?wait=100")
		p.pass(10 * time.Millisecond)
		p.clients['C'].hangUp()
		delete(p.clients, 'C')
		synctest.Wait()
		ts.server.SetAccounts(map[string]AccountQuota{"wait": {Waits: 1}})
		if err := p.play("PUT /v1.0/few/d/1 < " + large + " -> 201"); err != nil { // by a reload
			t.Error(err)
		}
		p.send('D', "GET /v1.0/wait/q?wait=1")
		p.pass(900 * time.Millisecond)
		if out, _ := p.client('D').received(); len(out) > 0 {
			t.Errorf("the next who waits gets %q", out)
		}
		p.pass(200 * time.Millisecond)
		for _, c := range p.clients {
			c.hangUp()
		}
		ts.stop()
	})
}

// TestAccountOfManyQueues has an account with many queues reach its quota: a job counts what it has, and the loop does not. The
// quota is exact all the same.
func TestAccountOfManyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues = countAtOnce + 10
		ts := newTestServer(t, Options{Accounts: map[string]AccountQuota{"many": {Items: queues + 4}}}, defaults())
		defer ts.stop()
		for i := range queues {
			put := []engine.PutRequest{{Data: []byte("x"), Extra: &engine.PutExtra{Key: []byte("m")}}}
			if _, err := ts.opts.Engine.PutAll(engine.Now(), fmt.Appendf(nil, "many/q%d", i), put); err != nil {
				t.Fatal(err)
			}
		}
		c := ts.dial(burrowProtocol{})
		put := func(id int, size int) []byte {
			return burrowRequest(fmt.Sprintf("PUT /v1.0/many/q/%d < %s", id, strings.Repeat("x", size)), false)
		}
		batch := func(n int) []byte {
			return postBatch("many/q", `{"messages":[`+strings.TrimSuffix(strings.Repeat(`{"body":"x"},`, n), ",")+"]}")
		}
		for _, tt := range []struct {
			request []byte
			piece   int // how it comes
			counts  bool
			want    string
		}{
			{put(1, 1), 1 << 20, true, "201"}, // nobody knows what the account has
			{put(2, 1), 1 << 20, false, "201"},
			{batch(3), 1 << 20, true, "507"},
			{batch(2), 1 << 20, false, "201"},
			{put(5, 1), 1 << 20, true, "507"},
			{put(5, 100_000), 10_000, true, "507"},
			{burrowRequest("DELETE /v1.0/many/q/1", false), 1 << 20, false, "204"},
			{put(6, 100_000), 10_000, true, "201"},
			{postBatch("many/q", `{"messages":[{"body":"`+strings.Repeat("x", 2*maxPooledBuffer)+`"}]}`), 64 << 10, true, "507"},
		} {
			pass(time.Second) // it may be counted again
			for len(tt.request) > tt.piece {
				c.feed(tt.request[:tt.piece], tt.piece)
				tt.request = tt.request[tt.piece:]
			}
			counts := false
			ts.do(func() {
				ts.loop.begin()
				c.session.receive(bytes.Clone(tt.request))
				counts = c.session.state == waiting && c.session.wait.kind == waitJob
				ts.loop.tick()
			})
			out, _ := c.received()
			if c.consume(len(out)); counts != tt.counts || !strings.HasPrefix(string(out), "HTTP/1.1 "+tt.want) {
				t.Errorf("%.60q: a job %t, want %t, and answered %.200q, want %s", tt.request, counts, tt.counts, out, tt.want)
			}
		}
		got := ts.opts.Engine.AccountUse([]byte("many"))
		if got.Items != queues+4 {
			t.Errorf("the account has %d messages, want %d", got.Items, queues+4)
		}
		c.hangUp()
	})
}

// TestAccountUse tests what an account takes: visible, hidden, leased and open messages.
func TestAccountUse(t *testing.T) {
	s := startServer(t, DefaultEventLoop, Options{Burrow: "127.0.0.1:0", Loops: 1}, unsynced())
	c := newModernClient(t, s)
	c.play(
		modernStep{`POST /v1.1/a/q/messages < {"messages":[{"body":"four"},{"body":"four"},{"body":"four","delay_ms":60000}]}`, 201, `{"stored":3}`},
		modernStep{`POST /v1.1/a/r/messages < {"messages":[{"body":"two"}]}`, 201, `{"stored":1}`},
		modernStep{`POST /v1.1/ab/q/messages < {"messages":[{"body":"two"}]}`, 201, `{"stored":1}`},
	)
	c.receive("q", `{"lease_ms":60000}`)
	if got, want := s.opts.Engine.AccountUse([]byte("a")), (engine.AccountUse{Queues: 2, Items: 4, Bytes: 15}); got != want {
		t.Errorf("account a takes %+v, want %+v", got, want)
	}
}

// TestFloodIsBounded counts what a turn does for a tenant that floods. Its requests cost a turn no more than maxWork,
// and others are served in the same turn. What is over its quota is not run at all.
func TestFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{Accounts: map[string]AccountQuota{"flood": {Operations: 100}}}, defaults())
		flood, other := ts.dial(burrowProtocol{}), ts.dial(burrowProtocol{})
		put := "PUT /v1.0/flood/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
		flood.feed([]byte(strings.Repeat(put, 2000)), 1<<20)
		other.feed([]byte("PUT /v1.0/quiet/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"), 1<<20)
		if out, _ := other.received(); !strings.HasPrefix(string(out), "HTTP/1.1 201") {
			t.Errorf("the other tenant gets %q", out)
		}
		synctest.Wait()
		out, _ := flood.received()
		stored := strings.Count(string(out), "HTTP/1.1 20")
		refused := strings.Count(string(out), "HTTP/1.1 429")
		if stored > 102 || stored+refused != 2000 || strings.Count(string(out), "Retry-After: 1\r\n") != refused {
			t.Errorf("%d of the tenant's requests were run, and %d refused", stored, refused)
		}
		if q, _ := ts.server.opts.Engine.QueueStats(engine.Now(), []byte("flood/q")); q.Puts != int64(stored) {
			t.Errorf("%d puts reached the queue, and %d were answered", q.Puts, stored)
		}
		flood.hangUp()
		other.hangUp()
		ts.stop()
	})
}

// TestAccountQuotaConcurrently puts over many connections and two loops: the account never has more than it may.
func TestAccountQuotaConcurrently(t *testing.T) {
	const most = 20
	s := startServer(t, DefaultEventLoop, Options{
		Loops:     2,
		Accounts:  map[string]AccountQuota{"a": {Items: most}},
		Listeners: []Listener{{Protocol: ProtocolBurrow, Port: ports.Spec{Address: "127.0.0.1:0"}}},
	}, unsynced())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stored := make(chan int)
	for i := range 4 {
		go func() {
			n := 0
			for j := range most {
				url := fmt.Sprintf("http://%s/v1.0/a/q%d/m%d", s.BurrowAddr(), i, j)
				r, _ := http.NewRequestWithContext(ctx, "PUT", url, strings.NewReader("x"))
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					break
				}
				response.Body.Close()
				if response.StatusCode == 201 {
					n++
				}
			}
			stored <- n
		}()
	}
	total := 0
	for range 4 {
		total += <-stored
	}
	http.DefaultClient.CloseIdleConnections()
	if got := s.opts.Engine.AccountUse([]byte("a")); total != most || got.Items != most {
		t.Errorf("%d puts were taken, and the account has %d messages, want %d", total, got.Items, most)
	}
}

// TestAccountWaitServed tests a receive that the quota of its account refuses the wait, when a message has just reached
// its Waiter: it gets the message. If it were refused, the news of that would end what the session does next.
func TestAccountWaitServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{Accounts: map[string]AccountQuota{"wait": {Waits: 1}}}, defaults())
		defer ts.stop()
		p := &burrowPlayer{ts: ts, clients: map[byte]*testClient{}, size: 1 << 20}
		p.send('A', "GET /v1.0/wait/other?wait=10")
		p.send('B', "GET /v1.0/wait/q")
		b := p.client('B')
		if got, _ := b.received(); len(got) > 0 {
			b.consume(len(got))
		}
		ts.do(func() {
			s, e := &b.session, ts.opts.Engine
			ts.loop.begin()
			s.burrow.lease = time.Minute
			s.burrow.answer.gather(s, nil)
			request := s.fetchRequest(engine.Lease, true)
			request.Lease, request.Delivery = s.burrow.lease, &s.burrow.answer.delivery
			var got engine.Fetched
			err := e.FetchMany(ts.loop.now, s.burrow.name, &request, 1, s.burrow.answer, nil, &got)
			if !got.Waiting || err != engine.ErrEmpty {
				t.Fatalf("a receive does not wait: %v", err)
			}
			put := []engine.PutRequest{{Data: []byte("hello")}}
			if _, err := e.PutAll(ts.loop.now, s.burrow.name, put); err != nil {
				t.Fatal(err)
			}
			if err := s.admitWaiter(); err != nil {
				t.Errorf("a receive that a message has reached is refused: %v", err)
				return
			}
			s.copyRequest()
			s.burrow.modern, s.wait.matched = true, (*session).receiveWaited
			s.beginWait(waitMatch, s.burrow.name, nil, engine.Lease, ts.loop.clock.after(time.Second))
		})
		ts.do(ts.loop.tick)
		if got, _ := b.received(); !strings.Contains(string(got), "hello") {
			t.Errorf("the receive is answered %q", got)
		}
		for _, c := range p.clients {
			c.hangUp()
		}
		synctest.Wait()
	})
}
