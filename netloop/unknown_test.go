package netloop

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
)

// unknownProtocols are those of the event loops.
func unknownProtocols() []protocol {
	return []protocol{memcacheProtocol{}, textProtocol{}, thriftProtocol{}, burrowProtocol{}}
}

// checkUnknown sends bytes in pieces to a server that asks who its clients are, from a client that nobody knows. The
// server keeps no more than 64 KiB, runs nothing, and ends the connection when its time and its attempts are used up.
func checkUnknown(t *testing.T, proto protocol, sent []byte, piece int) {
	synctest.Test(t, func(t *testing.T) {
		checker := access.NewChecker(usersOf(t, grants(t, "alice", "put *", "get *", "manage *", "operate")), access.Options{})
		ts := newTestServer(t, Options{Access: checker}, defaults())
		defer ts.stop()
		setup := ts.dial(memcacheProtocol{})
		setup.feed([]byte("set work 0 0 6\r\nhidden\r\n"), 100)
		ts.do(func() { // others have kept much
			ts.loop.buffers.inputs.Put(&bytebufferpool.ByteBuffer{B: make([]byte, 0, 4*maxUnknown)})
		})
		c := &testClient{ts: ts}
		c.session.proto, c.session.sink, c.session.loop, c.session.local = proto, c, ts.loop, true
		c.session.id.unknown, c.session.id.port = true, &listener{auth: AuthPassword}
		ts.do(func() { ts.loop.open(&c.session); ts.loop.tick() })
		began := time.Now()
		for rest := sent; len(rest) > 0; {
			next := rest[:min(piece, len(rest))]
			rest = rest[len(next):]
			for checks := true; checks; { // nothing is read while a password is checked
				ts.do(func() { checks = c.session.answering() })
				if checks {
					<-time.After(time.Second)
				}
			}
			c.feed(next, len(next))
			if c.kept > maxUnknown {
				t.Fatalf("%s: %d bytes are kept", proto.name(), c.kept)
			}
		}
		<-time.After(time.Until(began.Add(identifyTime + time.Millisecond)))
		out, ended := c.received()
		if !c.session.id.unknown {
			t.Fatalf("%s: nobody knows the password, and the client is known", proto.name())
		}
		if !ended {
			t.Fatalf("%s: the connection is open after %v", proto.name(), time.Since(began))
		}
		if bytes.Contains(out, []byte("hidden")) || bytes.Contains(out, []byte("STORED")) {
			t.Fatalf("%s: something was run: %q", proto.name(), out)
		}
		if got := ts.opts.Engine.Stats().TotalItems; got != 1 {
			t.Fatalf("%s: %d items, want the one of before", proto.name(), got)
		}
	})
}

// TestUnknownTime tests that all attempts of a connection to say who it is have 10 s together, from its beginning. That
// holds for the last of them, which waits because earlier ones have failed, and also if a handshake took most of the
// time.
func TestUnknownTime(t *testing.T) {
	attempts := map[protocol]string{
		memcacheProtocol{}: "set x 0 0 11\r\nalice wrong\r\n",
		textProtocol{}:     "auth alice wrong\n",
		thriftProtocol{}:   string(thrift.Client{}.AppendAuthenticate(nil, 1, []byte("alice"), []byte("wrong"))),
		burrowProtocol{}:   "GET /v1.0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YWxpY2U6d3Jvbmc=\r\n\r\n",
	}
	for proto, attempt := range attempts {
		for _, handshake := range []time.Duration{0, 9 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				checker := access.NewChecker(usersOf(t, grants(t, "alice", "put *")), access.Options{FreeFailures: 1})
				ts := newTestServer(t, Options{Access: checker}, defaults())
				defer ts.stop()
				began := time.Now()
				since := ts.server.clock.now()
				<-time.After(handshake)
				c := &testClient{ts: ts}
				c.session.proto, c.session.sink, c.session.loop, c.session.local = proto, c, ts.loop, true
				c.session.id, _ = ts.server.identityOf(&listener{auth: AuthPassword}, &net.TCPConn{}, nil, since)
				ts.do(func() { ts.loop.open(&c.session); ts.loop.tick() })
				for range maxStrikes - 1 {
					c.feed([]byte(attempt), len(attempt))
					for {
						if _, ended := c.received(); ended {
							break
						}
						var checks bool
						if ts.do(func() { checks = c.session.answering() }); !checks {
							break
						}
						<-time.After(100 * time.Millisecond)
					}
				}
				for {
					if _, ended := c.received(); ended {
						break
					}
					<-time.After(10 * time.Millisecond)
				}
				if took := time.Since(began); took > identifyTime+100*time.Millisecond {
					t.Errorf("%s: behind a handshake of %v, the connection was open for %v", proto.name(), handshake, took)
				}
				if ts.loop.counters.Unidentified == 0 {
					t.Errorf("%s: the connection is not counted", proto.name())
				}
			})
		}
	}
}

// burrowUnknownSeeds are requests over HTTP, with everything that a stranger may say of who it is.
func burrowUnknownSeeds() (seeds []string) {
	for _, request := range []string{
		"GET /v1.0", "PUT /v1.0/default/work/m", "DELETE /v1.0", "GET /v1.0/default/work?wait=1", "POST /v1.1/default/work/messages",
	} {
		for _, said := range []string{
			"", "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n", "Authorization: Basic !\r\n", "Authorization: Bearer kestrel_x\r\n",
		} {
			seeds = append(seeds, request+" HTTP/1.1\r\nHost: localhost\r\n"+said+"Content-Length: 1\r\n\r\nx",
				request+" HTTP/1.1\r\nHost: localhost\r\n"+said+"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		}
	}
	return seeds
}

// unknownSeeds are requests that do something once the client is known, what says who one is wrongly, and garbage.
func unknownSeeds() (seeds []string) {
	for _, rows := range memcacheRows {
		seeds = append(seeds, rows[0].request)
	}
	for _, rows := range textRows {
		seeds = append(seeds, rows[0].request)
	}
	for _, rows := range thriftRows() {
		seeds = append(seeds, string(rows[0].call))
	}
	seeds = append(seeds, burrowUnknownSeeds()...)
	return append(seeds, "set x 0 0 11\r\nalice wrong\r\n", "auth alice wrong\n",
		string(thrift.Client{}.AppendAuthenticate(nil, 1, []byte("alice"), []byte("wrong"))),
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x00\x00\x00\x00", "\xff\xff\xff\xff")
}

// TestUnknownBytes has strangers send as much as they like, as one request and as many, in pieces of every size.
func TestUnknownBytes(t *testing.T) {
	much := strings.Repeat("x", 300_000)
	for _, sent := range []string{
		much, "set x 0 0 33554432\r\n" + much, "set x 0 0 60000\r\n" + much, "put work:\n" + much, "\x00\x00\xff\xff" + much,
		"GET / HTTP/1.1\r\nX: " + much, "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" + much,
		"set x 0 0 11\r\nalice wrong\r\n" + much, "auth alice wrong\n" + much,
	} {
		for _, piece := range []int{100, 4097, 33_000, readSize} {
			for _, proto := range unknownProtocols() {
				checkUnknown(t, proto, []byte(sent), piece)
			}
		}
	}
}

// TestUnknownHTTP sends each of the requests over HTTP.
func TestUnknownHTTP(t *testing.T) {
	for _, seed := range burrowUnknownSeeds() {
		checkUnknown(t, burrowProtocol{}, []byte(seed), 1<<20)
	}
}

// TestUnknownGarbage sends drawn mixtures of requests, pieces of them and garbage.
func TestUnknownGarbage(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	seeds := unknownSeeds()
	for range rounds {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			s := []byte(seeds[r.IntN(len(seeds))])
			switch r.IntN(5) {
			case 0:
				s = s[:r.IntN(len(s)+1)]
			case 1:
				if len(s) > 0 {
					s[r.IntN(len(s))] = byte(r.UintN(256))
				}
			case 2:
				s = bytes.Repeat(s, 1+r.IntN(40))
			}
			b.Write(s)
		}
		if r.IntN(8) == 0 {
			b.WriteString(strings.Repeat("x", r.IntN(200_000)))
		}
		checkUnknown(t, unknownProtocols()[r.IntN(4)], []byte(b.String()), 1+r.IntN(5000))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzUnknown does so with what the fuzzer finds.
func FuzzUnknown(f *testing.F) {
	for i, seed := range unknownSeeds() {
		if len(seed) < 1000 {
			f.Add(uint8(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, sent []byte) { checkUnknown(t, unknownProtocols()[which%4], sent, 1000) })
}
