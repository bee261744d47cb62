package netloop

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// burrowPlayer plays the pairs of testdata/burrow.txt.
type burrowPlayer struct {
	ts      *testServer
	clients map[byte]*testClient
	size    int // bytes per read
	chunked bool
}

func TestBurrowPairs(t *testing.T) {
	for _, run := range []struct {
		name    string
		size    int
		chunked bool
		handOff bool
	}{{"whole", 1 << 20, false, false}, {"bytewise", 1, false, false}, {"chunked", 3, true, false}, {"handoff", 1 << 20, false, true}} {
		for title, lines := range burrowParts(t) {
			t.Run(run.name+"/"+title, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &burrowPlayer{ts: newTestServer(t, Options{}, defaults()), clients: map[byte]*testClient{},
						size: run.size, chunked: run.chunked}
					p.ts.handOff, p.ts.server.inline.allowed = run.handOff, !run.handOff
					for _, line := range lines {
						if err := p.play(line); err != nil {
							t.Errorf("%s: %v", line, err)
							break
						}
					}
					for _, c := range p.clients {
						c.hangUp()
					}
					p.ts.stop()
				})
			})
		}
	}
}

// play plays one line.
func (p *burrowPlayer) play(line string) error {
	step, err := parseBurrowStep(line)
	if err != nil {
		return err
	}
	switch step.kind {
	case stepPass:
		p.pass(step.time)
	case stepAsk:
		p.send(step.client, step.request)
		return p.expect(step.client, step.reply)
	case stepSend:
		p.send(step.client, step.request)
	case stepReply:
		return p.expect(step.client, step.reply)
	case stepQuiet:
		p.pass(step.time)
		if out, ended := p.client(step.client).received(); len(out) > 0 || ended {
			return fmt.Errorf("got %q, closed %t", out, ended)
		}
	}
	return nil
}

func (p *burrowPlayer) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (p *burrowPlayer) client(name byte) *testClient {
	if p.clients[name] == nil {
		p.clients[name] = p.ts.dial(burrowProtocol{})
	}
	return p.clients[name]
}

// send sends a request.
func (p *burrowPlayer) send(name byte, request string) {
	p.client(name).feed(burrowRequest(request, p.chunked), p.size)
}

// expect takes the next reply and compares it.
func (p *burrowPlayer) expect(name byte, want string) error {
	c := p.client(name)
	synctest.Wait()
	out, ended := c.received()
	in := bufio.NewReader(bytes.NewReader(out))
	got, err := readBurrow(in)
	if err != nil {
		return fmt.Errorf("got %q, closed %t: %v", out, ended, err)
	}
	if want := unescape(want); got != want {
		return fmt.Errorf("got %s", got)
	}
	left, _ := io.ReadAll(in)
	c.consume(len(out) - len(left))
	return nil
}

// TestBurrowBesideMemcache checks that clients of both protocols see one queue: what one holds or hides, the other
// does not get.
func TestBurrowBesideMemcache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		p := &burrowPlayer{ts: ts, clients: map[byte]*testClient{}, size: 1 << 20}
		m := ts.dial(memcacheProtocol{})
		for _, step := range []string{
			`m set q 0 0 3\r\none\r\n`, `m< STORED\r\n`,
			`PUT /v1.0/default/q/key < two -> 201`,
			`GET /v1.0/default/q?detail=id -> 200 ["@1.1","key"]`,
			`GET /v1.0/default/q/@1.1?detail=body -> 200 one`,
			`GET /v1.0/default/q/@2.1 -> 404 Message not found`,
			`GET /v1.0/default/q/@1 -> 404 Message not found`,
			`GET /v1.0/default/q?detail=id&marker=@1.1 -> 200 ["key"]`,
			`m get q/open\r\n`, `m< VALUE q 0 3\r\none\r\nEND\r\n`,
			`GET /v1.0/default/q?detail=id -> 200 ["key"]`,
			`DELETE /v1.0/default/q/@1.1 -> 409 A client of another protocol holds the message.`,
			`POST /v1.0/default/q?limit=1&hide=30&detail=body -> 200 ["two"]`,
			`m get q/close/open\r\n`, `m< END\r\n`,
			`A> DELETE /v1.0/default/q?limit=1&wait=10&detail=body`,
			`m set q 0 0 5\r\nthree\r\n`, `m< STORED\r\n`,
			`A< 200 ["three"]`,
			`m set q 0 0 4\r\nfour\r\n`, `m< STORED\r\n`,
			`A> DELETE /v1.0/default/other?limit=1&wait=10&detail=body`,
			`m get other/t=5000\r\n`,
			`B> PUT /v1.0/default/other/x < x`, `B< 201`,
			`A< 200 ["x"]`,
			`B> PUT /v1.0/default/other/y < y`, `B< 201`,
			`m< VALUE other 0 1\r\ny\r\nEND\r\n`,
			`m flush_all\r\n`, `m< Flushed all queues.\r\n`,
			`GET /v1.0/default/q?detail=id -> 404 Account not found`,
			`m get acme/x\r\n`, `m< END\r\n`, // an option, not an account
		} {
			var err error
			if sent, ok := strings.CutPrefix(step, "m "); ok {
				m.feed([]byte(unescape(sent)), 1<<20)
			} else if want, ok := strings.CutPrefix(step, "m< "); ok {
				out, _ := m.received()
				if string(out) != unescape(want) {
					err = fmt.Errorf("got %q", out)
				}
				m.consume(len(out))
			} else {
				err = p.play(step)
			}
			if err != nil {
				t.Errorf("%s: %v", step, err)
				break
			}
		}
		for _, c := range append([]*testClient{m}, p.client('A'), p.client('B')) {
			c.hangUp()
		}
		ts.stop()
	})
}

// TestBurrowSlow tests that a request has its time to arrive, and a large one more.
func TestBurrowSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		slow, steady, waits := ts.dial(burrowProtocol{}), ts.dial(burrowProtocol{}), ts.dial(burrowProtocol{})
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		// A long poll is no slow request, also if it came in two pieces.
		waits.feed([]byte("GET /v1.0/a/q?wait=60 HTTP/1.1\r\n"), 1<<20)
		pass(time.Second)
		waits.feed([]byte("Host: localhost\r\n\r\n"), 1<<20)
		const size = 400 << 10
		steady.feed(fmt.Appendf(nil, "PUT /v1.0/a/other/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", size), 1<<20)
		slow.feed([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nX: "), 1<<20)
		for range 28 {
			slow.feed([]byte("x"), 1)
			steady.feed(make([]byte, size/50), 1<<20)
			pass(time.Second)
		}
		pass(time.Second)
		if out, ended := slow.received(); len(out) > 0 || ended {
			t.Fatalf("after 29 s: %q, ended %t", out, ended)
		}
		pass(2 * time.Second)
		out, ended := slow.received()
		if want := burrowReply("408 Request Timeout", "The request took too long to arrive.", true); string(out) != want || !ended {
			t.Errorf("after 31 s: %q, ended %t, want %q", out, ended, want)
		}
		for range 22 {
			steady.feed(make([]byte, size/50), 1<<20)
			pass(time.Second)
		}
		if out, ended := steady.received(); !bytes.HasPrefix(out, []byte("HTTP/1.1 201")) || ended {
			t.Errorf("a large body that took 50 s: %q, ended %t", out, ended)
		}
		if out, ended := waits.received(); len(out) > 0 || ended {
			t.Errorf("a long poll: %q, ended %t", out, ended)
		}
		pass(10 * time.Second)
		if out, ended := waits.received(); !bytes.HasPrefix(out, []byte("HTTP/1.1 404")) || ended {
			t.Errorf("a long poll that is over: %q, ended %t", out, ended)
		}
		pass(time.Hour) // nobody who sends nothing is cut off
		waits.feed([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 1<<20)
		if out, ended := waits.received(); !bytes.Contains(out, []byte("200 OK")) || ended {
			t.Errorf("after an hour: %q, ended %t", out, ended)
		}
		for _, c := range []*testClient{steady, waits} {
			c.hangUp()
		}
		ts.stop()
	})
}

// TestBurrowAccountsApart checks that no name that another protocol can send is that of an account's queue.
func TestBurrowAccountsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		p := &burrowPlayer{ts: ts, clients: map[byte]*testClient{}, size: 1 << 20}
		if err := p.play("PUT /v1.0/acme/q/m < secret -> 201"); err != nil {
			t.Fatal(err)
		}
		var calls thrift.Client
		name := []byte("acme/q")
		for _, tt := range []struct {
			proto protocol
			in    string
		}{
			{textProtocol{}, "get acme/q\n"}, {textProtocol{}, "peek acme/q\n"}, {textProtocol{}, "flush acme/q\n"},
			{textProtocol{}, "delete acme/q\n"}, {textProtocol{}, "monitor acme/q 1\n"},
			{memcacheProtocol{}, "get acme/q\r\n"}, {memcacheProtocol{}, "flush acme/q\r\n"},
			{memcacheProtocol{}, "delete acme/q\r\n"}, {memcacheProtocol{}, "monitor acme/q 1\r\n"},
			{memcacheProtocol{}, "flush_all\r\n"},
			{thriftProtocol{}, string(calls.AppendGet(nil, 1, name, everything))},
			{thriftProtocol{}, string(calls.AppendGetAny(nil, 1, [][]byte{name}, nil, 0, 0))},
			{thriftProtocol{}, string(calls.AppendCall(nil, thrift.MethodPeek, 1, name))},
			{thriftProtocol{}, string(calls.AppendBrowse(nil, 1, name, thrift.Which{}, 0, 10, true))},
			{thriftProtocol{}, string(calls.AppendRemove(nil, 1, name, thrift.Which{ID: 1}))},
			{thriftProtocol{}, string(calls.AppendCall(nil, thrift.MethodFlushQueue, 1, name))},
			{thriftProtocol{}, string(calls.AppendCall(nil, thrift.MethodFlushAllQueues, 1, nil))},
			{thriftProtocol{}, string(calls.AppendCall(nil, thrift.MethodDeleteQueue, 1, name))},
		} {
			c := ts.dial(tt.proto)
			c.feed([]byte(tt.in), 1<<20)
			if out, ended := c.received(); bytes.Contains(out, []byte("secret")) {
				t.Errorf("%q gets %q", tt.in, out)
			} else if !ended {
				c.hangUp()
			}
		}
		if err := p.play(`GET /v1.0/acme/q -> 200 [{"body":"secret","hide":0,"id":"m","ttl":600}]`); err != nil {
			t.Error(err)
		}
		p.client('A').hangUp()
		ts.stop()
	})
}
