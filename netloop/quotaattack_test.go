package netloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// These tests are a user who has a quota and tries to use more.

// hangUpAll ends all connections.
func (qs *quotaServer) hangUpAll() {
	qs.do(func() {
		for s := qs.loop.sessions.head; s != nil; s = qs.loop.sessions.head {
			qs.loop.endSession(s, true)
		}
	})
}

// form is a request of version 1.1 about the plain queue work.
func form(path, body string) string {
	return fmt.Sprintf("POST /v1.1/default/work/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// many is a call that puts n empty items.
func many(n int) string {
	return string(thrift.Client{}.AppendPut(nil, 1, []byte("work"), 0, make([][]byte, n)...))
}

// TestQuotaOfManyConnections: a user that asks over many connections at the same moment gets no more through than over
// one. A build that charges for a request when the connection makes its next lets each have one.
func TestQuotaOfManyConnections(t *testing.T) {
	for _, tt := range []struct {
		name    string
		quota   access.Quota
		request string
		served  string
		most    int
	}{
		{"operations", access.Quota{Operations: 100}, "set work 0 0 1\r\nx\r\n", "STORED", 101},
		{"bytes sent", access.Quota{Bytes: 10_000}, fmt.Sprintf("set work 0 0 1000\r\n%01000d\r\n", 7), "STORED", 11},
		{"bytes received", access.Quota{Bytes: 10_000}, "get large\r\n", "VALUE", 2},
		{"bytes of several queues", access.Quota{Bytes: 10_000}, "get none/or=large\r\n", "VALUE", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withQuota(t, tt.quota, func(t *testing.T, qs *quotaServer) {
				bob := qs.as(memcacheProtocol{}, "bob")
				bob.say(strings.Repeat(fmt.Sprintf("set large 0 0 9000\r\n%09000d\r\n", 7), 300))
				var all []*testClient
				for range 300 {
					all = append(all, qs.as(memcacheProtocol{}, "alice"))
				}
				qs.do(func() { // in one turn: no reply leaves before the last request has come
					qs.loop.begin()
					for _, c := range all {
						c.session.receive([]byte(tt.request))
					}
					qs.loop.tick()
				})
				served, last := 0, ""
				for _, c := range all {
					out, _ := c.received()
					last = string(out)
					served += strings.Count(last, tt.served)
				}
				if served < 1 || served > tt.most {
					t.Errorf("%d of 300 connections are served, want at most %d: %.200q", served, tt.most, last)
				}
				qs.hangUpAll()
			})
		})
	}
}

// TestQuotaAtOnce: no single request gets a user more than a minute's worth, in any protocol, however it brings its
// items.
func TestQuotaAtOnce(t *testing.T) {
	withQuota(t, access.Quota{Operations: 10, Bytes: 10_000}, func(t *testing.T, qs *quotaServer) {
		const tooMany, tooMuch = "over quota: 600 operations at once", "over quota: 600000 bytes at once"
		large := strings.Repeat("x", 600_000)
		messages := strings.TrimSuffix(strings.Repeat(`{"body":"x"},`, 700), ",")
		for _, tt := range []struct {
			name    string
			proto   protocol
			request string
			refusal string
		}{
			{"an item", memcacheProtocol{}, "set work 0 0 600000\r\n" + large + "\r\n", tooMuch},
			{"a call of many items", thriftProtocol{}, many(700), tooMany},
			{"a call that a job decodes", thriftProtocol{}, many(20_000), tooMany},
			{"a message", burrowProtocol{}, "PUT /v1.0/default/work/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000\r\n\r\n" + large, tooMuch},
			{"a batch of messages", burrowProtocol{}, form("messages", `{"messages":[`+messages+`]}`), tooMany},
			{"a body that nobody reads", burrowProtocol{}, "GET /v1.0/default/work HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000\r\n\r\n", tooMuch},
		} {
			<-time.After(time.Hour)
			c := qs.as(tt.proto, "alice")
			if got := c.say(tt.request); !strings.Contains(got, tt.refusal) {
				t.Errorf("%s: %.200q, want %q", tt.name, got, tt.refusal)
			}
			c.hangUp()
		}
		if got := qs.items("work"); got != 0 {
			t.Errorf("%d items are stored all the same", got)
		}
		<-time.After(time.Hour)
		c := qs.as(textProtocol{}, "alice")
		if got := c.say("put work:\n" + strings.Repeat("x\n", 5000) + "\n"); !strings.HasPrefix(got, "-over quota: 10 operations a second; try again in ") {
			t.Errorf("a put without end: %.200q", got)
		}
		if got := qs.items("work"); got < 500 || got > 610 {
			t.Errorf("a put without end has stored %d items, want a minute's worth", got)
		}
		<-time.After(61 * time.Second)
		if got := c.say("peek work\n"); !strings.HasPrefix(got, ":x\n") {
			t.Errorf("a minute later: %.200q", got)
		}
		c.hangUp()
	})
}

// items is how many items a queue has.
func (qs *quotaServer) items(name string) (n int64) {
	qs.do(func() {
		s, _ := qs.loop.engine.QueueStats(engine.Now(), []byte(name))
		n = s.Items
	})
	return n
}

// TestQuotaReceive: what Burrow's version 1.1 leases, and waits for, counts as it does in other protocols; so do the
// messages of one request.
func TestQuotaReceive(t *testing.T) {
	const receive = `{"limit":10,"lease_ms":60000}`
	withQuota(t, access.Quota{OpenReads: 3, Waits: 1}, func(t *testing.T, qs *quotaServer) {
		qs.as(memcacheProtocol{}, "bob").say(strings.Repeat("set work 0 0 1\r\nx\r\n", 20))
		a, b := qs.as(burrowProtocol{}, "alice"), qs.as(burrowProtocol{}, "alice")
		if got := a.say(form("receive", receive)); strings.Count(got, `"receipt"`) != 3 {
			t.Errorf("three leases are allowed, and a request for ten gets %.500q", got)
		}
		if got := b.say(form("receive", receive)); !strings.Contains(got, "over quota: 3 open_reads at once") {
			t.Errorf("one lease too many: %.500q", got)
		}
		<-time.After(2 * time.Minute)
		if got := b.say(form("receive", receive)); strings.Count(got, `"receipt"`) != 3 {
			t.Errorf("when the leases have lapsed: %.500q", got)
		}
		<-time.After(2 * time.Minute)
		wait := strings.ReplaceAll(form("receive", `{"wait_ms":5000,"lease_ms":1000}`), "/work/", "/none/")
		if got := a.say(wait); got != "" {
			t.Errorf("a request that waits: %.500q", got)
		}
		if got := b.say(wait); !strings.Contains(got, "over quota: 1 waits at once") {
			t.Errorf("one wait too many: %.500q", got)
		}
		qs.hangUpAll()
		<-time.After(2 * time.Minute)
	})
	for _, tt := range []struct{ name, request string }{
		{"a batch", form("messages", `{"messages":[`+strings.Repeat(`{"body":"x"},`, 99)+`{"body":"x"}]}`)},
		{"leases", form("receive", `{"limit":100,"lease_ms":1000}`)},
		{"messages that go", "DELETE /v1.0/default/work?limit=100 HTTP/1.1\r\nHost: localhost\r\n\r\n"},
	} {
		withQuota(t, access.Quota{Operations: 10}, func(t *testing.T, qs *quotaServer) {
			qs.as(memcacheProtocol{}, "bob").say(strings.Repeat("set work 0 0 1\r\nx\r\n", 100))
			a := qs.as(burrowProtocol{}, "alice")
			if got := a.say(tt.request); !strings.HasPrefix(got, "HTTP/1.1 20") {
				t.Errorf("%s: %.500q", tt.name, got)
			}
			if got := a.say(tt.request); !strings.Contains(got, "try again in 91") {
				t.Errorf("%s of a hundred counts as less: %.500q", tt.name, got)
			}
			qs.hangUpAll()
			<-time.After(2 * time.Minute)
		})
	}
}

// TestQuotaCountsEverything: what needs no right of its own costs an operation all the same. Questions for the version
// and the status are answered even beyond the quota, and count for what comes next.
func TestQuotaCountsEverything(t *testing.T) {
	withQuota(t, access.Quota{Operations: 10}, func(t *testing.T, qs *quotaServer) {
		var c thrift.Client
		a := qs.as(memcacheProtocol{}, "alice")
		if got := a.say(strings.Repeat("version\r\n", 1000)); strings.Count(got, "VERSION") != 1000 {
			t.Errorf("questions for the version: %.200q", got)
		}
		const over = "over quota: 10 operations a second; try again in 98"
		if got := a.say("get work\r\n"); !strings.HasPrefix(got, "SERVER_ERROR "+over) {
			t.Errorf("after a thousand of them: %.200q", got)
		}
		if got := a.say("version\r\n"); !strings.HasPrefix(got, "VERSION") {
			t.Errorf("a question beyond the quota: %q", got)
		}
		for _, tt := range []struct {
			proto   protocol
			request string
		}{
			{memcacheProtocol{}, "get one/or=other\r\n"},
			{thriftProtocol{}, string(c.AppendGetAny(nil, 1, [][]byte{[]byte("one"), []byte("other")}, nil, 0, 0))},
			{burrowProtocol{}, "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"},
			{textProtocol{}, "peek work\n"},
		} {
			b := qs.as(tt.proto, "alice")
			if got := b.say(tt.request); !strings.Contains(got, "over quota") {
				t.Errorf("%q beyond the quota: %.200q", tt.request, got)
			}
			b.hangUp()
		}
		a.hangUp()
	})
}

// TestQuotaAfterRefusedLogin: a client whose second login its quota refuses stays the user that it was, with its quota.
func TestQuotaAfterRefusedLogin(t *testing.T) {
	withQuota(t, access.Quota{Connections: 1, Operations: 10}, func(t *testing.T, qs *quotaServer) {
		a := qs.as(memcacheProtocol{}, "alice")
		alice, bob := grants(t, "alice", "get *"), grants(t, "bob", "get *")
		alice.Quota, bob.Quota = access.Quota{Connections: 1, Operations: 10}, access.Quota{Connections: 1}
		users := usersOf(t, alice, bob)
		qs.checker.SetUsers(users)
		b := qs.as(memcacheProtocol{}, "bob")
		qs.do(func() {
			qs.loop.begin()
			if err := a.session.become(users.Named("alice")); err != nil {
				t.Errorf("the same user again: %v", err)
			}
			if err := a.session.become(users.Named("bob")); err == nil {
				t.Error("a connection of bob too many is let in")
			}
			qs.loop.tick()
		})
		if got := strings.Count(a.say(strings.Repeat("get none\r\n", 100)), "over quota"); got < 80 {
			t.Errorf("%d of 100 requests are refused, want those over alice's quota", got)
		}
		a.hangUp()
		b.hangUp()
		if u := qs.server.usages.byName["bob"]; u.connections.Load() != 0 {
			t.Errorf("bob has %d connections left", u.connections.Load())
		}
	})
}

// TestUserGoneDuringHandshake: a reload that removes a user ends the connection whose handshake has found that user,
// though its session begins later.
func TestUserGoneDuringHandshake(t *testing.T) {
	withQuota(t, access.Quota{Connections: 1}, func(t *testing.T, qs *quotaServer) {
		alice := grants(t, "alice", "get *")
		alice.Certificates = []string{"CN=alice"}
		with := usersOf(t, alice)
		qs.checker.SetUsers(with)
		open := func() *testClient {
			c := &testClient{ts: qs.testServer}
			c.session.proto, c.session.sink, c.session.loop = memcacheProtocol{}, c, qs.loop
			c.session.id.names = []string{"CN=alice"}
			c.session.id.become(with.WithCertificate(c.session.id.names)) // the handshake ends
			return c
		}
		begin := func(c *testClient) { qs.do(func() { qs.loop.open(&c.session); qs.loop.tick() }) }
		first, second := open(), open()
		begin(first)
		if got := first.say("version\r\n"); !strings.HasPrefix(got, "VERSION") {
			t.Errorf("a user that there is: %q", got)
		}
		qs.checker.SetUsers(usersOf(t, grants(t, "bob", "get *")))
		begin(second)
		if out, ended := second.received(); !ended || len(out) > 0 {
			t.Errorf("a user that is gone: %q, ended: %t", out, ended)
		}
		first.hangUp()
		qs.checker.SetUsers(quotaUsers(t, access.Quota{Connections: 1}))
	})
}
