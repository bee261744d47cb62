package netloop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// These tests are a user who goes on with what it began after a reload has taken its right.

// regrant makes alice, with those rights and the quota of before, the only user, and has connections look her up.
func (qs *quotaServer) regrant(allow ...string) {
	alice := grants(qs.t, "alice", allow...)
	alice.Quota = qs.checker.Users().Named("alice").Quota
	users := usersOf(qs.t, alice)
	qs.checker.SetUsers(users)
	qs.do(func() {
		qs.loop.begin()
		for s := qs.loop.sessions.head; s != nil; {
			next := s.newerIdle
			s.reidentify(users)
			s = next
		}
		qs.loop.tick()
	})
}

// TestRevokedTextPut tests that the lines of a put which has begun are not stored any more, and that the end of the
// request says why.
func TestRevokedTextPut(t *testing.T) {
	for _, tt := range []struct{ name, next string }{
		{"a line of its own", "after\n"},
		{"the rest of a line", "er\n"},
	} {
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			a := qs.as(textProtocol{}, "alice")
			begin := "put work:\nbefore\n"
			if !strings.HasPrefix(tt.next, "after") {
				begin += "aft"
			}
			if got := a.say(begin); got != "" {
				t.Fatalf("%s: %q", tt.name, got)
			}
			qs.regrant("get *")
			if got := a.say(tt.next + "more\n\n"); got != "-not allowed: put on work\n" {
				t.Errorf("%s: a put whose right is gone ends with %q", tt.name, got)
			}
			if got := qs.items("work"); got != 1 {
				t.Errorf("%s: %d items are stored, want that which came before the reload", tt.name, got)
			}
			if got := a.say("get work\n"); got != ":before\n" {
				t.Errorf("%s: the next request: %q", tt.name, got)
			}
			a.hangUp()
		})
	}
}

// TestRevokedTextConfirm tests that a request which is allowed, or refused, does not confirm on the way what the user may
// not remove any more.
func TestRevokedTextConfirm(t *testing.T) {
	for _, tt := range []struct{ name, grants, request, want string }{
		{"a peek", "peek *", "peek work\n", ":two\n"},
		{"a get of several queues", "get other", "get other or=work\n", "-not allowed: get on work\n"},
	} {
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			a := qs.as(textProtocol{}, "alice")
			a.say("put work:\none\ntwo\n\n")
			if got := a.say("get work\n"); got != ":one\n" {
				t.Fatal(got)
			}
			qs.regrant(tt.grants)
			if got := a.say(tt.request); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
			a.hangUp()
			if got := qs.items("work"); got != 2 {
				t.Errorf("%s: %d items are left, want both", tt.name, got)
			}
		})
	}
}

// TestRevokedList tests that a list which a client reads piece by piece ends when a reload takes the right to it.
func TestRevokedList(t *testing.T) {
	item := strings.Repeat("x", 32<<10)
	for i, tt := range []struct {
		name    string
		proto   protocol
		request string
	}{
		{"Burrow", burrowProtocol{}, "GET /v1.0/default/work HTTP/1.1\r\nHost: localhost\r\n\r\n"},
		{"Burrow, HTTP/1.0", burrowProtocol{}, "GET /v1.0/default/work HTTP/1.0\r\nHost: localhost\r\n\r\n"},
		{"memcache", memcacheProtocol{}, "get work/from=0/limit=10000\r\n"},
		{"text", textProtocol{}, "list work limit=10000\n"},
	} {
		if isSample() && i%2 != 0 {
			continue // HTTP/1.0 and text
		}
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			bob := qs.as(memcacheProtocol{}, "bob")
			for range 400 {
				bob.say("set work 0 0 32768\r\n" + item + "\r\n")
			}
			a := qs.as(tt.proto, "alice")
			reader := &fitfulReader{testClient: a}
			qs.do(func() { a.session.sink = reader })
			a.feed([]byte(tt.request), 1<<10)
			synctest.Wait()
			sent := len(reader.pending)
			if sent < 1<<20 || sent > 4<<20 {
				t.Fatalf("%s: %d bytes of the list wait for the client", tt.name, sent)
			}
			qs.regrant("put *")
			qs.do(func() { reader.reads = true })
			qs.loop.post(&a.session, writable)
			synctest.Wait()
			got, _ := reader.received()
			if most := sent + pieceSize; len(got) > most {
				t.Errorf("%s: %d bytes were sent, want no more than the %d of before and a piece", tt.name, len(got), sent)
			}
			if strings.HasSuffix(string(got), "]\r\n0\r\n\r\n") || strings.HasSuffix(string(got), "END\r\n") {
				t.Errorf("%s: the list seems to be whole", tt.name)
			}
			qs.hangUpAll()
		})
	}
}

// TestRevokedAsItCame tests a request that waits, and an item that comes in the same turn as a reload which takes the
// right to it. The request does not get the item. The item stays in its queue.
func TestRevokedAsItCame(t *testing.T) {
	for _, tt := range []struct {
		name    string
		proto   protocol
		request string
		want    string
	}{
		{"a list", burrowProtocol{}, "GET /v1.0/default/work?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 403 "},
		{"a removal", burrowProtocol{}, "DELETE /v1.0/default/work?wait=60&limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 403 "},
		{"a receive", burrowProtocol{}, form("receive", `{"wait_ms":60000,"lease_ms":60000}`), "HTTP/1.1 403 "},
		{"a get", memcacheProtocol{}, "get work/t=60000\r\n", "CLIENT_ERROR not allowed: get on work\r\n"},
		{"an open", memcacheProtocol{}, "get work/open/t=60000\r\n", "CLIENT_ERROR not allowed: get on work\r\n"},
		{"a peek", memcacheProtocol{}, "get work/peek/t=60000\r\n", "CLIENT_ERROR not allowed: peek on work\r\n"},
		{"a get from several", memcacheProtocol{}, "get none/or=work/t=60000\r\n", "CLIENT_ERROR not allowed: get on work\r\n"},
		{"a monitor", memcacheProtocol{}, "monitor work 60 5\r\n", "END\r\n"},
		{"a get", textProtocol{}, "get work 60000\n", "-not allowed: get on work\n"},
		{"a get", thriftProtocol{}, string(thrift.Client{}.AppendGet(nil, 1, []byte("work"), thrift.GetOptions{MaxItems: 1, WaitMillis: 60000})), ""},
	} {
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			a, bob := qs.as(tt.proto, "alice"), qs.as(memcacheProtocol{}, "bob")
			if got := a.say(tt.request); got != "" {
				t.Fatal(got)
			}
			alice := grants(t, "alice", "put *", "get none")
			alice.Quota = qs.checker.Users().Named("alice").Quota
			users := usersOf(t, alice, grants(t, "bob", "put *"))
			qs.do(func() {
				qs.loop.begin()
				bob.session.receive([]byte("set work 0 0 6\r\nsecret\r\n"))
				qs.checker.SetUsers(users)
				a.session.reidentify(users)
				qs.loop.tick()
			})
			synctest.Wait()
			if out, _ := a.received(); !strings.HasPrefix(string(out), tt.want) || strings.Contains(string(out), "secret") {
				t.Errorf("%s of %s: the reply is %q, want a refusal", tt.name, tt.proto.name(), out)
			}
			qs.hangUpAll()
			if got := qs.items("work"); got != 1 {
				t.Errorf("%s of %s: %d items are in the queue", tt.name, tt.proto.name(), got)
			}
		})
	}
}

// TestRevokedJob tests a job that moves, changes or removes messages one by one. It goes no further when a reload
// takes the right to that, or the user.
func TestRevokedJob(t *testing.T) {
	const messages = 10
	work, dead := []byte("work"), []byte("work_dead")
	get := need{access.Get, onQueue}
	jobs := []struct {
		name string
		run  func(qs *quotaServer, s *session, client *standing) error
	}{
		{"a redrive", func(qs *quotaServer, s *session, client *standing) error {
			d := &redrive{
				server: qs.server, engine: qs.opts.Engine, standing: client, from: dead, to: work, account: []byte(engine.DefaultAccount),
			}
			return d.run(messages)
		}},
		{"a removal of messages", func(qs *quotaServer, s *session, client *standing) error {
			a := &burrowAnswer{session: s, more: true, walk: qs.opts.Engine.Removing(dead, "", engine.Match{})}
			return qs.server.matchRest(a, burrow.DetailNone, wholeMatch, client)
		}},
		{"a removal of queues", func(qs *quotaServer, s *session, client *standing) error {
			_, err := qs.server.removeAll(qs.opts.Engine.Removing(dead, "", engine.Match{}), client)
			return err
		}},
	}
	for _, job := range jobs {
		for _, allow := range [][]string{{"put *"}, {"get work"}, nil, {"put *", "get work*"}} {
			withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
				for range messages {
					bury(t, qs.opts.Engine, "work")
				}
				a := qs.as(burrowProtocol{}, "alice")
				a.say("GET /v1.0/default/none HTTP/1.1\r\nHost: localhost\r\n\r\n")
				a.session.burrow.req.Detail = burrow.DetailNone
				before, client := qs.checker.Users(), a.session.standing(get, dead)
				if allow == nil {
					qs.checker.SetUsers(usersOf(t))
				} else {
					qs.regrant(allow...)
				}
				err := job.run(qs, &a.session, client)
				left, want, refusal := qs.items("work_dead"), int64(messages), "not allowed: get on work_dead"
				if len(allow) == 2 {
					want, refusal = 0, "<nil>"
				}
				if left != want || fmt.Sprint(err) != refusal {
					t.Errorf("%s of a user with %q: %v, and %d messages are left, want %s and %d", job.name, allow, err, left, refusal, want)
				}
				qs.checker.SetUsers(before)
				qs.hangUpAll()
			})
		}
	}
}

// withGate runs test with a server of which most messages are on the disk alone. They can be read once gate is closed, as a
// channel is. The messages are m0 to m39 of the queue work.
func withGate(t *testing.T, test func(t *testing.T, qs *quotaServer, gate chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		checker := access.NewChecker(quotaUsers(t, access.Quota{Waits: 3}), access.Options{Parallel: 4})
		set := defaults()
		set.Default.MaxMemorySize = 2000
		gate := make(chan struct{})
		ts := &testServer{t: t, fs: segmenttest.New(), opts: Options{Access: checker}, set: set}
		ts.wrap = func(fs *segmenttest.FS) segment.FS { return &gatedFS{fs, gate} }
		ts.start()
		qs := &quotaServer{ts, checker}
		defer qs.stop()
		bob := qs.as(burrowProtocol{}, "bob")
		for i := range 40 {
			bob.burrowReply(fmt.Sprintf("PUT /v1.0/default/work/m%d < %0500d", i, i))
		}
		test(t, qs, gate)
	})
}

// TestRevokedBehindTheDisk tests requests that remove or change one message, and wait for it to come from the disk. If a
// reload takes the right meanwhile, the message stays as it is.
func TestRevokedBehindTheDisk(t *testing.T) {
	const refused = "CLIENT_ERROR not allowed: get on work\r\n"
	for _, tt := range []struct {
		proto         protocol
		request, want string
	}{
		{burrowProtocol{}, "DELETE /v1.0/default/work/m20?detail=id HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 403 "},
		{burrowProtocol{}, "POST /v1.0/default/work/m20?hide=60 HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 403 "},
		{burrowProtocol{}, "POST /v1.0/default/work/m20?ttl=1&detail=all HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 403 "},
		{burrowProtocol{}, "POST /v1.0/default/work/m20?detail=all HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 403 "},
		{memcacheProtocol{}, "touch work/id=21 1\r\n", refused},
		{textProtocol{}, "touch work id=21 1000\n", "-not allowed: get on work\n"},
	} {
		withGate(t, func(t *testing.T, qs *quotaServer, gate chan struct{}) {
			a := qs.as(tt.proto, "alice")
			if got := a.say(tt.request); got != "" {
				t.Fatalf("the message is not on the disk alone: %q", got)
			}
			qs.regrant("put *")
			close(gate)
			synctest.Wait()
			if out, _ := a.received(); !strings.HasPrefix(string(out), tt.want) {
				t.Errorf("%q is answered %q, want a refusal", tt.request, out)
			}
			var (
				got gotItem
				d   engine.Delivery
			)
			look := engine.LookRequest{Which: engine.Which{ID: 21}, Wait: true, Delivery: &d}
			_, err := qs.opts.Engine.Look(engine.Now(), []byte("work"), &look, &got)
			if err != nil || d.Due != 0 || got.item.Expiry < engine.Now().After(time.Minute) {
				t.Errorf("%q: the message expires at %d, is due at %d: %v", tt.request, got.item.Expiry, d.Due, err)
			}
			qs.hangUpAll()
		})
	}
}

// TestRevokedBehindAChange tests an update that has changed its message, which is on the disk alone before the answer has it.
// If a reload then takes the right, the answer still says that the message is changed.
func TestRevokedBehindAChange(t *testing.T) {
	withGate(t, func(t *testing.T, qs *quotaServer, gate chan struct{}) {
		a := qs.as(burrowProtocol{}, "alice")
		if got := a.say("POST /v1.0/default/work/none?ttl=60&detail=id HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 404 ") {
			t.Fatal(got)
		}
		qs.do(func() {
			qs.loop.begin()
			a.session.burrow.req.ID = []byte("m20") // as if it were this one that was changed
			if a.session.burrowChanged(engine.Ticket{}, nil); a.session.wait.kind != waitJob {
				t.Error("the message is not on the disk alone")
			}
			qs.loop.tick()
		})
		qs.regrant("put *")
		close(gate)
		synctest.Wait()
		if out, _ := a.received(); !strings.HasPrefix(string(out), "HTTP/1.1 200 ") || !strings.HasSuffix(string(out), "m20") {
			t.Errorf("an update that is done is answered %q", out)
		}
		qs.hangUpAll()
	})
}

// TestRevokedClear tests that a flush of all queues goes no further when a reload takes the right to it, and that its client
// hears why. What was done before the reload is no refusal.
func TestRevokedClear(t *testing.T) {
	for _, tt := range []struct{ request, want string }{
		{"flush_all\r\n", "CLIENT_ERROR not allowed: manage on all queues\r\n"},
		{"delete work\r\n", "DELETED\r\n"},
	} {
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			fillQueues(qs.testServer, 0)
			for range 2 * clearAtOnce { // open reads, which a deletion ends
				e, p := qs.opts.Engine, engine.PutRequest{Data: []byte("x")}
				if _, err := e.Put(engine.Now(), []byte("work"), p); err != nil {
					t.Fatal(err)
				}
				if _, err := e.Fetch(engine.Now(), []byte("work"), engine.FetchRequest{Access: engine.OpenRead}, anyItem{}); err != nil {
					t.Fatal(err)
				}
			}
			a := qs.as(memcacheProtocol{}, "alice")
			qs.regrant("manage *")
			alice := grants(t, "alice", "get *")
			alice.Quota = qs.checker.Users().Named("alice").Quota
			users := usersOf(t, alice)
			qs.do(func() {
				qs.loop.begin()
				qs.server.clearing.Lock()
				a.session.receive([]byte(tt.request))
				if a.session.state != waiting {
					t.Errorf("%q is no job", tt.request)
				}
				qs.checker.SetUsers(users)
				a.session.reidentify(users)
				qs.server.clearing.Unlock()
				qs.loop.tick()
			})
			synctest.Wait()
			if got, _ := a.received(); string(got) != tt.want {
				t.Errorf("%q is answered %q, want %q", tt.request, got, tt.want)
			}
			if isDenied := strings.Contains(tt.want, "not allowed"); isDenied != (qs.loop.counters.Denied == 1) {
				t.Errorf("%q counts as %d refusals", tt.request, qs.loop.counters.Denied)
			}
			left := qs.opts.Engine.Queues(engine.Now())
			if left = slices.DeleteFunc(left, func(q engine.QueueStats) bool { return q.Items == 0 }); len(left) == 0 {
				t.Errorf("%q has gone on to the end", tt.request)
			}
			a.hangUp()
		})
	}
}

// TestRevokedConfirm tests that a job which confirms many leases goes no further when a reload takes the right to that.
func TestRevokedConfirm(t *testing.T) {
	withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
		a, e := qs.as(thriftProtocol{}, "alice"), qs.opts.Engine
		client := a.session.standing(need{access.Get, onQueue}, []byte("work"))
		lease := func() (receipts []uint64) {
			for range 2 * confirmPiece {
				if _, err := e.Put(engine.Now(), client.name, engine.PutRequest{Data: []byte("x")}); err != nil {
					t.Fatal(err)
				}
				f := engine.FetchRequest{Access: engine.Lease, Lease: time.Hour, Delivery: new(engine.Delivery)}
				if _, err := e.Fetch(engine.Now(), client.name, f, anyItem{}); err != nil {
					t.Fatal(err)
				}
				receipts = append(receipts, f.Delivery.Receipt)
			}
			return receipts
		}
		if _, n, err := client.confirmLeases(e, lease()); n != 2*confirmPiece || err != nil {
			t.Errorf("%d leases are confirmed, %v, want %d", n, err, 2*confirmPiece)
		}
		receipts := lease()
		qs.regrant("put *")
		if _, n, err := client.confirmLeases(e, receipts); n != 0 || fmt.Sprint(err) != "not allowed: get on work" {
			t.Errorf("without the right %d leases are confirmed, and the error is %v", n, err)
		}
		a.hangUp()
	})
}

// TestRevokedPut tests that a job which puts many items puts no more when a reload takes the right to that.
func TestRevokedPut(t *testing.T) {
	withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
		a := qs.as(memcacheProtocol{}, "alice")
		put := a.session.newPutJob()
		err := put.do([]byte("work"), func(yield func(engine.PutRequest) bool) {
			p := engine.PutRequest{Data: []byte("x")}
			if yield(p) {
				qs.regrant("get *")
				yield(p)
			}
		})
		if got := fmt.Sprint(err); got != "not allowed: put on work" || put.stored != 1 {
			t.Errorf("a put whose right is gone ends with %q and %d items, want a refusal of the second", got, put.stored)
		}
		qs.do(func() {
			qs.loop.begin()
			if put.end(err); qs.loop.counters.Denied != 1 {
				t.Errorf("it counts as %d refusals", qs.loop.counters.Denied)
			}
			qs.loop.tick()
		})
		a.hangUp()
	})
}

// TestRevokedForm tests requests of Burrow's that a job reads, or answers, before the loop goes on with them. A reload takes
// the right meanwhile: nothing is stored, and nothing shown.
func TestRevokedForm(t *testing.T) {
	for _, request := range []string{
		`POST /v1.1/default/work/messages < {"messages":[{"body":"x"}` + strings.Repeat(" ", largeForm) + `]}`,
		"GET /v1.0/default < ", "GET /v1.1/default < ", "GET /v1.0 < ", "GET /v1.1 < ",
	} {
		withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
			qs.as(burrowProtocol{}, "bob").burrowReply("PUT /v1.0/default/seen/m < x")
			qs.regrant("put *", "stats *")
			a, alice := qs.as(burrowProtocol{}, "alice"), grants(t, "alice", "put other")
			alice.Quota = qs.checker.Users().Named("alice").Quota
			users := usersOf(t, alice)
			qs.do(func() {
				qs.loop.begin()
				a.session.receive(burrowRequest(request, false))
				if a.session.wait.kind != waitJob {
					t.Errorf("%.40q is no job", request)
				}
				qs.checker.SetUsers(users)
				a.session.reidentify(users)
				qs.loop.tick()
			})
			synctest.Wait()
			if got, _ := a.received(); !strings.HasPrefix(string(got), "HTTP/1.1 403 ") || qs.items("work") != 0 {
				t.Errorf("%.40q is answered %.80q, and %d are stored", request, got, qs.items("work"))
			}
			a.hangUp()
		})
	}
}
