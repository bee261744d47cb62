package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
)

// quotaServer is a server in memory, in fake time, whose users are alice, who has a quota, and bob, who has none.
type quotaServer struct {
	*testServer
	checker *access.Checker
}

func quotaUsers(t *testing.T, q access.Quota) *access.Users {
	alice, bob := grants(t, "alice", "put *", "get *", "peek *"), grants(t, "bob", "put *", "get *", "peek *")
	alice.Quota = q
	return usersOf(t, alice, bob)
}

// withQuota runs a test with a quota of alice.
func withQuota(t *testing.T, q access.Quota, test func(t *testing.T, qs *quotaServer)) {
	synctest.Test(t, func(t *testing.T) {
		checker := access.NewChecker(quotaUsers(t, q), access.Options{Parallel: 4})
		qs := &quotaServer{newTestServer(t, Options{Access: checker, MaxOpenReads: 100}, defaults()), checker}
		defer qs.stop()
		test(t, qs)
		if u := qs.server.usages.of(checker.Users().Named("alice")); u.connections.Load()|u.reads.Load()|u.waits.Load() != 0 || u.leases.Leases() != 0 {
			t.Errorf("left behind: %d connections, %d reads, %d waits, %d leases", u.connections.Load(), u.reads.Load(),
				u.waits.Load(), u.leases.Leases())
		}
	})
}

// as opens a connection of a user, which is closed when the test ends, and what ended connections had is given back.
func (qs *quotaServer) as(proto protocol, name string) *testClient {
	qs.t.Helper()
	c := qs.dial(proto)
	var err error
	qs.do(func() { qs.loop.begin(); err = c.session.become(qs.checker.Users().Named(name)); qs.loop.tick() })
	if err != nil {
		qs.t.Fatal(err)
	}
	return c
}

// say sends a request and returns what comes back at once.
func (c *testClient) say(request string) string {
	c.feed([]byte(request), 1<<20)
	out, _ := c.received()
	c.consume(len(out))
	return string(out)
}

// TestQuotaReasons tests that statistics say which part of a quota refused something, and name no other.
func TestQuotaReasons(t *testing.T) {
	for _, tt := range []struct {
		reason string
		quota  access.Quota
		exceed func(*quotaServer)
	}{
		{"connections", access.Quota{Connections: 1}, func(qs *quotaServer) {
			qs.as(memcacheProtocol{}, "alice")
			c := qs.dial(memcacheProtocol{})
			qs.do(func() { c.session.id.unknown = true })
			c.say("set x 0 0 11\r\nalice right\r\n")
		}},
		{"open_reads", access.Quota{OpenReads: 1}, func(qs *quotaServer) {
			c := qs.as(memcacheProtocol{}, "alice")
			c.say("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nget a/open\r\n")
			qs.as(memcacheProtocol{}, "alice").say("get b/open\r\n")
		}},
		{"waits", access.Quota{Waits: 1}, func(qs *quotaServer) {
			qs.as(memcacheProtocol{}, "alice").say("get none/t=10000\r\n")
			qs.as(memcacheProtocol{}, "alice").say("get none/t=10000\r\n")
		}},
		{"operations", access.Quota{Operations: 1}, func(qs *quotaServer) {
			qs.as(memcacheProtocol{}, "alice").say("get none\r\nget none\r\nget none\r\n")
		}},
		{"bytes", access.Quota{Bytes: 1}, func(qs *quotaServer) {
			qs.as(memcacheProtocol{}, "alice").say("get none\r\nget none\r\n")
		}},
	} {
		withQuota(t, tt.quota, func(t *testing.T, qs *quotaServer) {
			tt.exceed(qs)
			stats := qs.dial(memcacheProtocol{}).say("stats\r\n")
			counts := qs.server.Counters().OverQuota
			counts.Each(func(reason string, refused int64) {
				if line := fmt.Sprintf("STAT over_quota_%s %d\r\n", reason, refused); !strings.Contains(stats, line) {
					t.Errorf("over %s: STATS lacks %q", tt.reason, line)
				}
				if (refused > 0) != (reason == tt.reason) {
					t.Errorf("over %s: %d refusals because of %s", tt.reason, refused, reason)
				}
			})
			qs.do(func() {
				for s := qs.loop.sessions.head; s != nil; s = qs.loop.sessions.head {
					qs.loop.endSession(s, true)
				}
			})
		})
	}
}

// TestQuotaConnections tests that a user has no more connections than its quota, whatever the protocol, and another
// one when one has ended.
func TestQuotaConnections(t *testing.T) {
	withQuota(t, access.Quota{Connections: 2}, func(t *testing.T, qs *quotaServer) {
		unknown := func(p protocol) *testClient {
			c := qs.dial(p)
			qs.do(func() { c.session.id.unknown = true })
			return c
		}
		first, second := unknown(memcacheProtocol{}), unknown(textProtocol{})
		if got := first.say("set x 0 0 11\r\nalice right\r\n"); got != "STORED\r\n" {
			t.Fatal(got)
		}
		if got := second.say("auth alice right\n"); got != "+0\n" {
			t.Fatal(got)
		}
		const over = "over quota: 2 connections at once"
		third := unknown(memcacheProtocol{})
		if got := third.say("set x 0 0 11\r\nalice right\r\n"); got != "SERVER_ERROR "+over+"\r\n" {
			t.Errorf("a third connection: %q", got)
		}
		if got := third.say("get work\r\n"); got != "CLIENT_ERROR unauthenticated\r\n" {
			t.Errorf("over the quota: %q", got)
		}
		fourth := unknown(thriftProtocol{})
		if got := fourth.say(string(thrift.Client{}.AppendAuthenticate(nil, 1, []byte("alice"), []byte("right")))); !strings.Contains(got, over) {
			t.Errorf("a fourth connection: %q", got)
		}
		if got := third.say("set x 0 0 9\r\nbob right\r\n"); got != "STORED\r\n" {
			t.Errorf("a user without quota: %q", got)
		}
		first.hangUp()
		if got := unknown(textProtocol{}).say("auth alice right\n"); got != "+0\n" {
			t.Errorf("when one has ended: %q", got)
		}
		if got := qs.server.Counters().OverQuota; got != (OverQuota{Connections: 2}) {
			t.Errorf("refusals are counted as %+v, want 2 of connections", got)
		}
		qs.do(func() {
			for s := qs.loop.sessions.head; s != nil; s = qs.loop.sessions.head {
				qs.loop.endSession(s, true)
			}
		})
	})
}

// TestQuotaOfCertificate tests that a connection that a certificate makes a user's is refused as one too many.
func TestQuotaOfCertificate(t *testing.T) {
	withQuota(t, access.Quota{Connections: 1}, func(t *testing.T, qs *quotaServer) {
		open := func() *testClient {
			c := &testClient{ts: qs.testServer}
			c.session.proto, c.session.sink, c.session.loop = memcacheProtocol{}, c, qs.loop
			c.session.id.become(qs.checker.Users().Named("alice"))
			qs.do(func() { qs.loop.open(&c.session); qs.loop.tick() })
			return c
		}
		first, second := open(), open()
		if got := first.say("version\r\n"); !strings.HasPrefix(got, "VERSION") {
			t.Errorf("the first: %q", got)
		}
		if out, ended := second.received(); !ended || string(out) != "SERVER_ERROR too many open connections\r\n" {
			t.Errorf("the second: %q, ended: %t", out, ended)
		}
		first.hangUp()
	})
}

// TestQuotaOpenReads tests that open reads, leases, waits for them, and monitors of all connections of a user count
// together, and that what ends makes room.
func TestQuotaOpenReads(t *testing.T) {
	withQuota(t, access.Quota{OpenReads: 3}, func(t *testing.T, qs *quotaServer) {
		bob := qs.as(memcacheProtocol{}, "bob")
		bob.say(strings.Repeat("set work 0 0 4\r\n@@@@\r\nset other 0 0 1\r\ny\r\n", 20))
		a, b, c := qs.as(memcacheProtocol{}, "alice"), qs.as(textProtocol{}, "alice"), qs.as(thriftProtocol{}, "alice")
		const over = "over quota: 3 open_reads at once"
		if got := a.say("get work/open\r\n"); !strings.HasPrefix(got, "VALUE") {
			t.Fatal(got)
		}
		if got := b.say("get work\n"); got != ":@@@@\n" {
			t.Fatal(got)
		}
		get := func(n int32, abort int32) string {
			return c.say(string(thrift.Client{}.AppendGet(nil, 1, []byte("work"), thrift.GetOptions{MaxItems: n, AutoAbortMillis: abort})))
		}
		if got := strings.Count(get(10, 60_000), "@@@@"); got != 1 {
			t.Errorf("a call that leases gets %d items, want the one that is left", got)
		}
		for who, got := range map[string]string{
			"open": a.say("get other/open\r\n"), "lease": a.say("gets other/lease=1000\r\n"), "wait": a.say("get empty/open/t=1000\r\n"),
			"monitor": a.say("monitor other 1\r\n"), "several": a.say("get other/or=empty/open\r\n"),
		} {
			if got != "SERVER_ERROR "+over+"\r\n" {
				t.Errorf("%s: %q", who, got)
			}
		}
		if got := get(10, 60_000); !strings.Contains(got, over) {
			t.Errorf("a call that leases: %q", got)
		}
		if got := strings.Count(get(2, 0), "@@@@"); got != 2 {
			t.Errorf("a call that leases nothing gets %d items, want 2", got)
		}
		if got := a.say("get other\r\n"); !strings.HasPrefix(got, "VALUE other") {
			t.Errorf("a plain get: %q", got)
		}
		if got := bob.say("get work/open\r\n"); !strings.HasPrefix(got, "VALUE") {
			t.Errorf("a user without quota: %q", got)
		}
		if got := a.say("get work/close\r\n"); got != "END\r\n" {
			t.Fatal(got)
		}
		a.say("get empty/open/t=1000\r\n")
		if got := b.say("get work\n"); got != ":@@@@\n" { // it confirms the one of before
			t.Errorf("with one waiting, two open: %q", got)
		}
		if got := bob.say("get work/abort\r\n"); got != "END\r\n" {
			t.Fatal(got)
		}
		if d := qs.as(textProtocol{}, "alice"); d.say("get other\n") != "-"+over+"\n" {
			t.Error("a wait for an open read does not count as one")
		}
		<-time.After(2 * time.Second)
		a.say("") // the wait has ended with nothing
		if got := a.say("gets other/lease=1000\r\n"); !strings.HasPrefix(got, "VALUE") {
			t.Errorf("a lease once the wait is over: %q", got)
		}
		if got := a.say("get other/open\r\n"); got != "SERVER_ERROR "+over+"\r\n" {
			t.Errorf("a lease does not count: %q", got)
		}
		<-time.After(2 * time.Second)
		if got := a.say("get other/open\r\n"); !strings.HasPrefix(got, "VALUE") {
			t.Errorf("when a lease has lapsed: %q", got)
		}
		a.hangUp()
		b.hangUp()
		c.hangUp() // its leases stay
		<-time.After(2 * time.Minute)
		qs.do(func() {
			for s := qs.loop.sessions.head; s != nil; s = qs.loop.sessions.head {
				qs.loop.endSession(s, true)
			}
		})
	})
}

// TestQuotaWaits tests that a user has no more requests waiting than its quota: what finds an item at once is served.
func TestQuotaWaits(t *testing.T) {
	withQuota(t, access.Quota{Waits: 2}, func(t *testing.T, qs *quotaServer) {
		const over = "over quota: 2 waits at once"
		a, b, c := qs.as(memcacheProtocol{}, "alice"), qs.as(textProtocol{}, "alice"), qs.as(memcacheProtocol{}, "alice")
		if got := a.say("get empty/t=60000\r\n") + b.say("monitor empty 60\n"); got != "" {
			t.Fatal(got)
		}
		for _, request := range []string{"get empty/t=60000\r\n", "get empty/or=empty2/t=60000\r\n", "monitor empty 60\r\n", "get empty/open/t=60000\r\n"} {
			if got := c.say(request); got != "SERVER_ERROR "+over+"\r\n" {
				t.Errorf("%q: %q", request, got)
			}
		}
		d := qs.as(thriftProtocol{}, "alice")
		if got := d.say(string(thrift.Client{}.AppendGet(nil, 1, []byte("empty"), thrift.GetOptions{MaxItems: 1, WaitMillis: 1000}))); !strings.Contains(got, over) {
			t.Errorf("a Thrift call: %q", got)
		}
		for _, method := range []string{"GET", "DELETE"} { // one watches, one is in line
			h := qs.as(burrowProtocol{}, "alice")
			got := h.say(method + " /v1.0/default/empty?wait=10 HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.HasSuffix(got, over) {
				t.Errorf("Burrow's %s: %q", method, got)
			}
			h.hangUp()
		}
		if got := c.say("set work 0 0 1\r\nx\r\nget work/t=60000\r\nget empty\r\nget empty/t=0\r\n"); got != "STORED\r\nVALUE work 0 1\r\nx\r\nEND\r\nEND\r\nEND\r\n" {
			t.Errorf("requests that need not wait: %q", got)
		}
		e := qs.as(memcacheProtocol{}, "bob")
		if got := e.say("get empty3/t=1000\r\n"); got != "" {
			t.Errorf("a user without quota: %q", got)
		}
		b.hangUp()
		if got := c.say("get empty/t=60000\r\n"); got != "" {
			t.Errorf("when one has ended: %q", got)
		}
		c.reset()
		a.hangUp()
		d.hangUp()
	})
}

// TestQuotaOperations tests that requests of all connections of a user together are bounded, with a burst of a second.
// Refused requests cost nothing, and what the others put and fetch counts.
func TestQuotaOperations(t *testing.T) {
	withQuota(t, access.Quota{Operations: 100}, func(t *testing.T, qs *quotaServer) {
		a, b := qs.as(memcacheProtocol{}, "alice"), qs.as(textProtocol{}, "alice")
		const put = "set work 0 0 1\r\nx\r\n"
		out := a.say(strings.Repeat(put, 60)) + a.say(strings.Repeat(put, 60))
		// The one that reaches the bound is admitted, and those that came with it.
		if got := strings.Count(out, "STORED\r\n"); got < 100 || got > 102 {
			t.Errorf("%d of 120 puts are stored, want a second's worth", got)
		}
		if got := b.say("peek work\n"); !strings.HasPrefix(got, "-over quota: 100 operations a second; try again in ") {
			t.Errorf("another connection: %q", got)
		}
		h := qs.as(burrowProtocol{}, "alice")
		if got := h.say("GET /v1.0/default/work HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 429 ") {
			t.Errorf("Burrow: %q", got)
		}
		h.hangUp()
		for range 1000 { // nobody makes it longer by trying
			a.say("get work\r\n")
		}
		if got := a.say("version\r\n"); got != "VERSION "+Version+"\r\n" {
			t.Errorf("what needs no right: %q", got)
		}
		if got := qs.as(memcacheProtocol{}, "bob").say(put); got != "STORED\r\n" {
			t.Errorf("a user without quota: %q", got)
		}
		<-time.After(500 * time.Millisecond)
		if got := strings.Count(a.say(strings.Repeat("get work\r\n", 100)), "VALUE"); got < 48 || got > 54 {
			t.Errorf("%d gets after half a second, want 50", got)
		}
		<-time.After(time.Minute)
		c := qs.as(thriftProtocol{}, "alice")
		items := make([][]byte, 1000)
		for i := range items {
			items[i] = []byte("x")
		}
		c.say(string(thrift.Client{}.AppendPut(nil, 1, []byte("many"), 0, items...)))
		if got := c.say(string(thrift.Client{}.AppendGet(nil, 2, []byte("many"), thrift.GetOptions{MaxItems: 1}))); !strings.Contains(got, "try again in 90") {
			t.Errorf("after a call that puts 1000 items: %q", got)
		}
		c.hangUp()
		a.hangUp()
		b.hangUp()
	})
}

// TestQuotaBytes tests that the bytes of requests and replies are bounded, and that a large item makes its user wait.
func TestQuotaBytes(t *testing.T) {
	withQuota(t, access.Quota{Bytes: 10_000}, func(t *testing.T, qs *quotaServer) {
		bob := qs.as(memcacheProtocol{}, "bob")
		bob.say(fmt.Sprintf("set large 0 0 100000\r\n%0100000d\r\n", 7))
		a := qs.as(memcacheProtocol{}, "alice")
		put := fmt.Sprintf("set work 0 0 1000\r\n%01000d\r\n", 7)
		if got := strings.Count(a.say(strings.Repeat(put, 30)), "STORED\r\n"); got < 9 || got > 12 {
			t.Errorf("%d puts of 1000 bytes are stored, want a second's worth", got)
		}
		<-time.After(2 * time.Second)
		if got := a.say("get large\r\n"); len(got) < 100_000 {
			t.Fatalf("a large item: %.100q", got)
		}
		if got := a.say("get work\r\n"); !strings.HasPrefix(got, "SERVER_ERROR over quota: 10000 bytes a second; try again in ") {
			t.Errorf("after it: %.100q", got)
		}
		<-time.After(9*time.Second + 100*time.Millisecond) // those that were refused had replies
		if got := a.say("get work\r\n"); !strings.HasPrefix(got, "VALUE") {
			t.Errorf("after nine seconds: %.100q", got)
		}
		a.hangUp()
	})
}

// TestQuotaReload tests that a reload that gives or takes a quota finds what open connections use.
func TestQuotaReload(t *testing.T) {
	withQuota(t, access.Quota{OpenReads: 1}, func(t *testing.T, qs *quotaServer) {
		a, b := qs.as(memcacheProtocol{}, "alice"), qs.as(memcacheProtocol{}, "bob")
		a.say(strings.Repeat("set work 0 0 1\r\nx\r\n", 9))
		reload := func(users *access.Users) {
			qs.checker.SetUsers(users)
			qs.do(func() {
				qs.loop.begin()
				for _, c := range []*testClient{a, b} {
					c.session.reidentify(users)
				}
				qs.loop.tick()
			})
		}
		if got := b.say("get work/open\r\n"); !strings.HasPrefix(got, "VALUE") {
			t.Fatal(got)
		}
		alice, bob := grants(t, "alice", "get *"), grants(t, "bob", "get *")
		bob.Quota = access.Quota{OpenReads: 1, Waits: 1}
		reload(usersOf(t, alice, bob))
		if got := b.say("get other/open\r\n"); got != "SERVER_ERROR over quota: 1 open_reads at once\r\n" {
			t.Errorf("a quota that a reload has given: %q", got)
		}
		if got := a.say("get work/open\r\n") + a.say("get work/open\r\n"); strings.Count(got, "VALUE") != 2 {
			t.Errorf("a quota that a reload has taken: %q", got)
		}
		reload(quotaUsers(t, access.Quota{OpenReads: 3}))
		if got := a.say("get work/open\r\n") + a.say("get work/open\r\n"); strings.Count(got, "VALUE") != 1 {
			t.Errorf("two open reads of before do not count: %q", got)
		}
		a.hangUp()
		b.hangUp()
		if u := qs.server.usages.byName["bob"]; u.connections.Load()|u.reads.Load()|u.waits.Load() != 0 {
			t.Error("what bob used stays behind")
		}
	})
}

// BenchmarkQuota measures what the quotas cost: nobody in particular, a user without a quota, and one with.
func BenchmarkQuota(b *testing.B) {
	for _, quota := range []access.Quota{{}, {Operations: 1 << 30, Bytes: 1 << 40}} {
		b.Run(fmt.Sprintf("quota=%t", !quota.IsZero()), func(b *testing.B) {
			alice := grants(b, "alice", "put *")
			alice.Quota = quota
			usersOf(b, alice)
			l := &loop{server: new(Server)}
			s := &session{loop: l}
			if err := s.become(alice); err != nil {
				b.Fatal(err)
			}
			n, name := need{access.Put, onQueue}, []byte("work")
			b.ReportAllocs()
			for b.Loop() {
				if s.admit(n, name, 64) != nil {
					b.Fatal("refused")
				}
				l.clock++
			}
		})
	}
}
