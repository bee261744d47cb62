package netloop

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// TestRedriveRights redrives dead letters of every kind, as users with rights of every kind. A refusal names no origin
// that the user may not see, and does not tell it from one that there is not.
func TestRedriveRights(t *testing.T) {
	const (
		none   = `409 No queue has given the next message up: name a queue by "to".`
		bad    = "409 The next message is of another account, or would go where it is."
		denied = "403 not allowed: put on acme/secret"
		moved  = "200 1"
	)
	var log bytes.Buffer
	rs := startRights(t, Options{Burrow: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&log, nil))},
		grants(t, "gets", "get acme/dead"), grants(t, "sees", "get acme/dead", "stats *"),
		grants(t, "puts", "get acme/dead", "put *"), grants(t, "all", "get *", "put *", "stats *"))
	denials := int64(0)
	for _, tt := range []struct{ origin, gets, sees, puts, all string }{
		{"", none, none, none, none},
		{"acme/secret", none, denied, moved, moved},
		{"other/secret", none, bad, none, bad},
		{"acme/guarded", none, "403 not allowed: put on acme/guarded", none,
			"403 The operation add is disallowed on queue acme/guarded. ClientId not specified when queue acme/guarded only allows a white-listed clientId"},
	} {
		for user, want := range map[string]string{"gets": tt.gets, "sees": tt.sees, "puts": tt.puts, "all": tt.all} {
			rs.engine.Flush(engine.Now(), []byte("acme/dead"), "")
			if tt.origin == "" {
				rs.engine.Put(engine.Now(), []byte("acme/dead"), engine.PutRequest{Data: []byte("x")})
			} else {
				bury(t, rs.engine, tt.origin)
			}
			got := rs.dial(rs.BurrowAddr()).detail("POST /v1.1/acme/dead/redrive", user)
			if got = strings.Replace(got, `200 {"moved":1}`, moved, 1); got != want {
				t.Errorf("redrive of what %q gave up, as %s: %s, want %s", tt.origin, user, got, want)
			}
			if strings.Contains(want, "not allowed") {
				denials++
			}
			q, _ := rs.engine.QueueStats(engine.Now(), []byte("acme/dead"))
			if left := q.Items + q.OpenReads; (left == 0) != (want == moved) {
				t.Errorf("redrive of what %q gave up, as %s: %d messages are left", tt.origin, user, left)
			}
		}
	}
	if got := rs.dial(rs.BurrowAddr()).detail(`POST /v1.1/acme/none/redrive < {"to":"secret"}`, "sees"); got != "403 not allowed: get on acme/none" {
		t.Error(got)
	}
	if got := rs.dial(rs.BurrowAddr()).detail(`POST /v1.1/acme/dead/redrive < {"to":"secret"}`, "gets"); got != denied {
		t.Error(got)
	}
	denials += 2
	if got := rs.Counters().Denied; got != denials {
		t.Errorf("%d refusals are counted, want %d", got, denials)
	}
	rs.Shutdown(t.Context()) // nobody writes to the log now
	if !strings.Contains(log.String(), "user=sees") || !strings.Contains(log.String(), "right=put") {
		t.Errorf("the log does not say who was refused what: %s", &log)
	}
}

// detail is ask for a reply of version 1.1: its status, and the detail of a problem.
func (c *rightsClient) detail(request, user string) string {
	c.t.Helper()
	return problemOf(c.ask(request, basic(user, "right")))
}

// TestRedriveQuota tests that moved messages count against the quota of the user, and a queue that a redrive makes
// against that of the account.
func TestRedriveQuota(t *testing.T) {
	withQuota(t, access.Quota{Operations: 5}, func(t *testing.T, qs *quotaServer) {
		c := qs.as(burrowProtocol{}, "alice")
		for range 8 {
			bury(t, qs.opts.Engine, "acme/work")
		}
		if got := c.burrowReply(`POST /v1.1/acme/work_dead/redrive < {"limit":1}`); !strings.Contains(got, `{"moved":1}`) {
			t.Fatal(got)
		}
		if got := c.burrowReply(`POST /v1.1/acme/work_dead/redrive`); !strings.Contains(got, `{"moved":7}`) {
			t.Fatal(got)
		}
		if got := c.burrowReply("GET /v1.0/acme/work"); !strings.Contains(got, "HTTP/1.1 429 ") {
			t.Errorf("8 moved messages and 2 redrives are 5 operations at most: %s", got)
		}
		c.hangUp()
	})
	s := startServer(t, DefaultEventLoop, Options{
		Burrow: "127.0.0.1:0", Loops: 1, Accounts: map[string]AccountQuota{"acme": {Queues: 2}},
	}, unsynced())
	c := newModernClient(t, s)
	for range 3 {
		bury(t, s.opts.Engine, "acme/work")
	}
	c.play(
		modernStep{`POST /v1.1/acme/work_dead/redrive < {"to":"work","limit":1}`, 200, `{"moved":1}`},
		modernStep{`POST /v1.1/acme/work_dead/redrive < {"to":"more","limit":1}`, 507, "…The account may have 2 queues, and has as many."},
		modernStep{`POST /v1.1/acme/work_dead/redrive`, 200, `{"moved":2}`},
	)
	if n := s.Counters().OverQuota.Account; n != 1 {
		t.Errorf("%d refusals are counted, want 1", n)
	}
}

// TestRedriveReplacesNothing redrives a dead letter to a queue where a newer message has its id. Both are there then.
func TestRedriveReplacesNothing(t *testing.T) {
	e, err := engine.Open(engine.Options{
		Dir: t.TempDir(), Settings: engine.Settings{Default: unsynced()}, SegmentSize: testSegment,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newModernClient(t, startServerOf(t, DefaultEventLoop, e, Options{Burrow: "127.0.0.1:0", Loops: 1}))
	c.play(modernStep{`POST /v1.1/a/work/messages < {"messages":[{"body":"old","id":"k"}]}`, 201, `{"stored":1}`})
	leased := c.receive("work", `{"lease_ms":60000}`)
	c.play(
		modernStep{"POST /v1.1/a/work/receipts/" + leased[0].Receipt + ` < {"reject":true}`, 204, ""},
		modernStep{`POST /v1.1/a/work/messages < {"messages":[{"body":"new","id":"k"}]}`, 201, `{"stored":1}`},
		modernStep{"POST /v1.1/a/work_dead/redrive", 200, `{"moved":1}`},
		modernStep{"GET /v1.1/a/work_dead", 200, `…"messages":0`},
		modernStep{"GET /v1.1/a/work/messages/k", 200, `{"id":"k","body":"new","deliveries":0}`},
	)
	both := c.receive("work", `{"limit":10,"lease_ms":60000}`)
	if len(both) != 2 || both[1].Body != "old" {
		t.Errorf("received %+v, want the newer message and the dead letter", both)
	}
}

// TestRedriveFromDisk redrives messages of a queue whose memory holds a few of them: the others come from the disk.
func TestRedriveFromDisk(t *testing.T) {
	set := engine.Settings{Default: unsynced()}
	set.Default.MaxMemorySize = 2000
	e, err := engine.Open(engine.Options{Dir: t.TempDir(), Settings: set})
	if err != nil {
		t.Fatal(err)
	}
	s := startServerOf(t, DefaultEventLoop, e, Options{Burrow: "127.0.0.1:0", Loops: 1})
	c := newModernClient(t, s)
	const messages = 500
	body := strings.Repeat("x", 1000)
	for range messages / 100 {
		form := `{"messages":[` + strings.TrimSuffix(strings.Repeat(`{"body":"`+body+`"},`, 100), ",") + "]}"
		c.play(modernStep{"POST /v1.1/a/dead/messages < " + form, 201, `{"stored":100}`})
	}
	c.play(modernStep{`POST /v1.1/a/dead/redrive < {"to":"work","limit":10}`, 200, `{"moved":10}`},
		modernStep{`POST /v1.1/a/dead/redrive < {"to":"work","limit":1000}`, 200, `{"moved":490}`})
	if q, _ := e.QueueStats(engine.Now(), []byte("a/work")); q.Items != messages {
		t.Errorf("%d messages have moved, want %d", q.Items, messages)
	}
}
