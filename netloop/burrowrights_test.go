package netloop

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// burrowRow is a request, and the verb that it needs; "" for none.
type burrowRow struct {
	request string
	verb    string
	refusal string // of a user without the verb; "" for that of the verb
	also    string // another verb that it needs, which both users have
}

// burrowRows has a row for each operation, and more for those that wait, or are about an account.
var burrowRows = map[burrow.Op][]burrowRow{
	burrow.OpVersions:       {{request: "GET /"}},
	burrow.OpListAccounts:   {{request: "GET /v1.0", verb: "stats *", refusal: "not allowed: stats on all queues"}},
	burrow.OpDeleteAccounts: {{request: "DELETE /v1.0", verb: "manage *", refusal: "not allowed: manage on all queues"}},
	burrow.OpListQueues: {{request: "GET /v1.0/default", verb: "stats work", refusal: "not allowed: stats on all queues"},
		{request: "GET /v1.0/acme", verb: "stats acme/work", refusal: "not allowed: stats on all queues"}},
	burrow.OpDeleteQueues: {{request: "DELETE /v1.0/acme", verb: "manage acme/*"}},
	burrow.OpGetMessages: {{request: "GET /v1.0/acme/work", verb: "peek acme/work"},
		{request: "GET /v1.0/default/work?limit=1", verb: "peek work"}},
	burrow.OpUpdateMessages: {{request: "POST /v1.0/acme/work?hide=1&limit=1", verb: "get acme/work"},
		{request: "POST /v1.0/acme/work?detail=all", verb: "get acme/work"}},
	burrow.OpDeleteMessages: {{request: "DELETE /v1.0/acme/work?limit=1&wait=1", verb: "get acme/work"}},
	burrow.OpGetMessage:     {{request: "GET /v1.0/acme/work/m", verb: "peek acme/work"}},
	burrow.OpPutMessage: {{request: "PUT /v1.0/acme/work/m", verb: "put acme/work"},
		{request: "PUT /v1.0/a.b/c+d/m", verb: "put a%2Eb/c%2Bd"}},
	burrow.OpUpdateMessage: {{request: "POST /v1.0/acme/work/m?hide=0", verb: "get acme/work"}},
	burrow.OpDeleteMessage: {{request: "DELETE /v1.0/acme/work/none", verb: "get acme/work"}},

	burrow.OpOpenAPI:     {{request: "GET /openapi.json"}},
	burrow.OpAccounts:    {{request: "GET /v1.1", verb: "stats *"}},
	burrow.OpQueues:      {{request: "GET /v1.1/acme", verb: "stats acme/work", refusal: "not allowed: stats on all queues"}},
	burrow.OpStats:       {{request: "GET /v1.1/acme/work", verb: "stats acme/work", refusal: "not allowed: stats on acme/work"}},
	burrow.OpDeleteQueue: {{request: "DELETE /v1.1/acme/work", verb: "manage acme/work"}},
	burrow.OpBrowse:      {{request: "GET /v1.1/acme/work/messages", verb: "peek acme/work"}},
	burrow.OpPutBatch:    {{request: `POST /v1.1/acme/work/messages < {"messages":[{"body":"x"}]}`, verb: "put acme/work"}},
	burrow.OpLook:        {{request: "GET /v1.1/acme/work/messages/m", verb: "peek acme/work"}},
	burrow.OpRemove:      {{request: "DELETE /v1.1/acme/work/messages/none", verb: "get acme/work"}},
	burrow.OpReceive: {{request: `POST /v1.1/acme/work/receive < {"lease_ms":1}`, verb: "get acme/work"},
		{request: `POST /v1.1/acme/none/receive < {"lease_ms":1,"wait_ms":1}`, verb: "get acme/none"}},
	burrow.OpSettle:      {{request: `POST /v1.1/acme/work/receipts < {"acknowledge":["7"]}`, verb: "get acme/work"}},
	burrow.OpExtend:      {{request: `POST /v1.1/acme/work/receipts/7 < {"lease_ms":1}`, verb: "get acme/work"}},
	burrow.OpAcknowledge: {{request: "DELETE /v1.1/acme/work/receipts/7", verb: "get acme/work"}},
	burrow.OpRedrive: {
		{request: `POST /v1.1/acme/work_dead/redrive < {"to":"work"}`, verb: "get acme/work_dead", also: "put acme/work"},
		{request: `POST /v1.1/acme/work_dead/redrive < {"to":"work"}`, verb: "put acme/work", also: "get acme/work_dead"},
		{request: `POST /v1.1/acme/work_dead/redrive`, verb: "get acme/work_dead", also: "put acme/work"},
		{request: `POST /v1.1/acme/work_dead/redrive`, verb: "put acme/work", also: "get acme/work_dead"},
	},
}

func TestEveryBurrowRequestHasARow(t *testing.T) {
	for op := burrow.OpVersions; op.String() != "unknown"; op++ {
		if len(burrowRows[op]) == 0 || burrowNeeds[op].scope == 0 {
			t.Errorf("%v has no row in the tables of rights", op)
		}
	}
}

// ask sends a request with an Authorization, and returns status and body of the reply, or EOF.
func (c *rightsClient) ask(request, authorization string, more ...string) string {
	c.t.Helper()
	response := c.send(request, authorization, more...)
	if response == nil {
		return "EOF"
	}
	body, _ := io.ReadAll(response.Body)
	return strings.TrimSpace(fmt.Sprintf("%d %s", response.StatusCode, body))
}

// send sends a request, which is METHOD TARGET, perhaps "< BODY", and returns the reply, or nil.
func (c *rightsClient) send(request, authorization string, more ...string) *http.Response {
	c.t.Helper()
	line, body, _ := strings.Cut(request, " < ")
	if authorization != "" {
		more = append(more, "Authorization: "+authorization)
	}
	head := append([]string{line + " HTTP/1.1", "Host: localhost", fmt.Sprintf("Content-Length: %d", len(body))}, more...)
	io.WriteString(c, strings.Join(head, "\r\n")+"\r\n\r\n"+body)
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil
	}
	return response
}

// problemOf is a reply of ask with the detail of the problem that it has, or as it is.
func problemOf(reply string) string {
	var problem struct{ Status, Detail any }
	if status, body, _ := strings.Cut(reply, " "); json.Unmarshal([]byte(body), &problem) == nil && problem.Detail != nil {
		return fmt.Sprint(status, " ", problem.Detail)
	}
	return reply
}

func basic(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// bury puts an item to a queue and rejects it. So it goes to the dead-letter queue.
func bury(t *testing.T, e *engine.Engine, queue string) {
	t.Helper()
	now, name := engine.Now(), []byte(queue)
	_, err := e.Put(now, name, engine.PutRequest{Data: []byte("x"), ClientID: "nobody"})
	got, err2 := e.Fetch(now, name, engine.FetchRequest{Access: engine.Hold}, new(redrive))
	_, n, err3 := e.Return(now, []engine.ReadRef{got.Read}, engine.Return{How: engine.Reject})
	if err := errors.Join(err, err2, err3); err != nil || n != 1 {
		t.Fatalf("reject an item of %s: %d items, %v", queue, n, err)
	}
}

func TestRightsBurrow(t *testing.T) {
	rs := startRights(t, Options{Burrow: "127.0.0.1:0"}, grants(t, "root", "put *"))
	for _, path := range []string{"acme/work/m", "acme/other/m", "a.b/c+d/m"} {
		if got := rs.dial(rs.BurrowAddr()).ask("PUT /v1.0/"+path+"?ttl=0 < x", basic("root", "right")); got != "201" {
			t.Fatal(got)
		}
	}
	for op, rows := range burrowRows {
		for _, row := range rows {
			refill := grants(t, "root", "put *")
			rs.checker.SetUsers(usersOf(t, append(rightsFor(t, row.verb, row.also), refill)...))
			for _, w := range who {
				if op == burrow.OpRedrive {
					rs.engine.Flush(engine.Now(), []byte("acme/work"), "")
					bury(t, rs.engine, "acme/work")
				}
				for _, account := range []string{"acme", "default"} { // an earlier row may have removed it
					rs.dial(rs.BurrowAddr()).ask("PUT /v1.0/"+account+"/work/m?ttl=0 < x", basic("root", "right"))
				}
				said := ""
				if w.name != "" {
					said = basic(w.name, w.password)
				}
				got := rs.dial(rs.BurrowAddr()).ask(row.request, said)
				if op == burrow.OpRedrive && w.may && got == `200 {"moved":0}` {
					t.Errorf("%v %s as %q moves nothing", op, row.request, w.name)
				}
				refusal := row.refusal
				if refusal == "" {
					refusal = refusalOf(row.verb)
				}
				if op >= burrow.OpOpenAPI {
					got = problemOf(got)
				}
				switch {
				case w.name == "":
					if got != "401 Say who you are: send Authorization, Basic or Bearer." {
						t.Errorf("%s as nobody: %s", row.request, got)
					}
				case !w.know:
					if got != "401 The name and the password, or the token, are wrong." {
						t.Errorf("%s as %q %q: %s", row.request, w.name, w.password, got)
					}
				case row.verb == "" || w.may:
					if strings.HasPrefix(got, "40") && got != "404 Message not found" && !strings.HasPrefix(got, "404 The receipt") || got == "EOF" {
						t.Errorf("%v %s as %q: %s, and it is allowed", op, row.request, w.name, got)
					}
				case got != "403 "+refusal:
					t.Errorf("%v %s as %q: %s, want 403 %s", op, row.request, w.name, got, refusal)
				}
			}
		}
	}
}

// TestBurrowIdentity tests how the clients of one connection say who they are: each request for itself.
func TestBurrowIdentity(t *testing.T) {
	token := access.NewToken()
	alice, bob := grants(t, "alice", "put *", "peek *"), grants(t, "bob", "peek *")
	bob.Tokens = []access.TokenHash{access.HashToken(token)}
	rs := startRights(t, Options{Burrow: "127.0.0.1:0"}, alice, bob)
	c := rs.dial(rs.BurrowAddr())
	for _, step := range []struct{ request, said, want string }{
		{"PUT /v1.0/a/q/m < " + strings.Repeat("x", 300_000), basic("alice", "right"), "201"},
		{"PUT /v1.0/a/q/n < x", "basic  " + basic("alice", "right")[6:], "201"},
		{"GET /v1.0/a/q/m?detail=id", "Bearer " + token, "200 m"},
		{"PUT /v1.0/a/q/o < x", "Bearer " + token, "403 not allowed: put on a/q"},
		{"GET /v1.0/a/q/m?detail=id", "", "401 Say who you are: send Authorization, Basic or Bearer."},
		{"PUT /v1.0/a/q/p < PUT /v1.0/a/q/smuggled", basic("alice", "wrong"), "401 The name and the password, or the token, are wrong."},
		{"GET /v1.0/a/q/m?detail=id", basic("alice", "right"), "200 m"},
		{"GET /v1.0/a/q/m?detail=id", "Bearer x", "401 The name and the password, or the token, are wrong."},
		{"GET /v1.0/a/q/m?detail=id", "Digest x", "401 Say who you are: send Authorization, Basic or Bearer."},
		{"GET /v1.0/a/q/m?detail=id", "Basic !", "401 The name and the password, or the token, are wrong."},
		{"GET /v1.0/a/q?detail=id", basic("bob", "right"), `200 ["m","n"]`},
	} {
		if got := c.ask(step.request, step.said); got != step.want {
			t.Errorf("%.50s with %q: %s, want %s", step.request, step.said, got, step.want)
		}
	}
	if r := rs.dial(rs.BurrowAddr()).send("GET /", ""); len(r.Header.Values("WWW-Authenticate")) != 2 {
		t.Errorf("401 with %v", r.Header)
	}
	if got := c.ask("GET /", basic("bob", "right")); got != `200 ["v1.0"]` {
		t.Error(got)
	}
	rs.checker.SetUsers(usersOf(t, grants(t, "alice", "put *", "peek *"), grants(t, "bob", "get *")))
	rs.Reidentify()
	for range 1000 { // the loop hears of it soon
		got := c.ask("GET /v1.0/a/q?detail=id", basic("bob", "right"))
		if got == "403 not allowed: peek on a/q" {
			break
		}
		if got != `200 ["m","n"]` {
			t.Fatalf("after a reload: %s", got)
		}
	}
	if got := c.ask("GET /v1.0/a/q", basic("bob", "right")); got != "403 not allowed: peek on a/q" {
		t.Fatalf("after a reload: %s", got)
	}
	for i := range maxStrikes + 1 {
		want := "401 Say who you are: send Authorization, Basic or Bearer."
		if i == maxStrikes {
			want = "EOF"
		}
		if got := c.ask("GET /", ""); got != want {
			t.Errorf("refusal %d: %s, want %s", i+1, got, want)
		}
	}
}

// TestBurrowCertificateStays tests a connection of a client with a certificate, such as a proxy that passes on what
// its own clients send. The connection goes on after a request with a wrong password, and so does a wait.
func TestBurrowCertificateStays(t *testing.T) {
	withQuota(t, access.Quota{Waits: 1}, func(t *testing.T, qs *quotaServer) {
		a := qs.as(burrowProtocol{}, "alice")
		certified := *grants(t, "alice", "get *", "put *", "peek *")
		certified.Certificates, certified.Quota = []string{"CN=alice"}, qs.checker.Users().Named("alice").Quota
		qs.checker.SetUsers(usersOf(t, &certified))
		qs.do(func() {
			a.session.id.port, a.session.id.names = &listener{auth: AuthAny}, certified.Certificates
			a.session.reidentify(qs.checker.Users())
		})
		for i, step := range []struct{ said, want string }{
			{"", "HTTP/1.1 200"}, {"Authorization: Bearer x\r\n", "HTTP/1.1 401"}, {"", "HTTP/1.1 200"}, {"", "HTTP/1.1 200"},
		} {
			if got := a.say("GET / HTTP/1.1\r\nHost: localhost\r\n" + step.said + "\r\n"); !strings.HasPrefix(got, step.want) {
				t.Errorf("request %d with %q: %.60q, want %s", i+1, step.said, got, step.want)
			}
			<-time.After(identifyTime * 2 / 3)
		}
		a.say("GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n")
		if got := a.say("GET /v1.0/a/q?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != "" {
			t.Errorf("a wait behind a wrong password: %.60q", got)
		}
		<-time.After(2 * identifyTime)
		qs.do(func() {
			if n := len(qs.loop.deadlines); n != 1 || a.session.state != waiting {
				t.Errorf("the session is %v after %v, with %d deadlines", a.session.state, 2*identifyTime, n)
			}
		})
		a.hangUp()
	})
}

// TestBurrowBound tests listeners and users that are bound to an account.
func TestBurrowBound(t *testing.T) {
	bound := grants(t, "bound", "put *", "peek work*", "stats *")
	bound.Account = "acme"
	rs := startRights(t, Options{Burrow: "127.0.0.1:0", Listeners: []Listener{{
		Protocol: ProtocolBurrow, Port: ports.Spec{Address: "127.0.0.1:0"}, Account: "acme",
	}}}, bound, grants(t, "root", "put *", "peek *", "stats *"))
	open := rs.listeners[len(rs.listeners)-1].Addr()
	for _, step := range []struct{ request, user, want string }{
		{"PUT /v1.0/acme/work/m < x", "bound", "201"},
		{"PUT /v1.0/acme/other/m < x", "root", "201"},
		{"PUT /v1.0/other/work/m < x", "root", "201"},
		{"PUT /v1.0/other/work/m < x", "bound", "403 not allowed: put on other/work"},
		{"PUT /v1.0/default/work/m < x", "bound", "403 not allowed: put on work"},
		{"GET /v1.0/acme/other", "bound", "403 not allowed: peek on acme/other"},
		{"GET /v1.0/acme/work?detail=id", "bound", `200 ["m"]`},
		{"GET /v1.0/acme", "bound", `200 ["work","other"]`},
		{"GET /v1.0/other", "bound", "404 Account not found"},
		{"GET /v1.0", "bound", "403 not allowed: stats on all queues"},
		{"GET /v1.0?limit=1&marker=default", "root", `200 ["acme"]`},
		{"GET /", "", `200 ["v1.0"]`},
		{"GET /v1.0/acme", "", `200 ["work","other"]`},
		{"GET /v1.0/other", "", `403 This port serves account "acme" alone.`},
		{"GET /v1.0/default/work", "", `403 This port serves account "acme" alone.`},
		{"DELETE /v1.0", "", `403 This port serves account "acme" alone.`},
	} {
		addr, said := rs.BurrowAddr(), basic(step.user, "right")
		if step.user == "" {
			addr, said = open, ""
		}
		if got := rs.dial(addr).ask(step.request, said); got != step.want {
			t.Errorf("%s as %q: %s, want %s", step.request, step.user, got, step.want)
		}
	}
	for _, l := range []Listener{
		{Protocol: ProtocolText, Port: ports.Spec{Address: "127.0.0.1:0"}, Account: "acme"},
		{Protocol: ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, Origins: []string{"*"}},
		{Protocol: ProtocolBurrow, Port: ports.Spec{Address: "127.0.0.1:0"}, Account: "a/b"},
	} {
		if err := l.Validate(); err == nil {
			t.Errorf("%+v is valid", l)
		}
	}
}

// TestBurrowOrigins tests which web pages a port serves, and what it tells a browser.
func TestBurrowOrigins(t *testing.T) {
	const page = "https://app.example"
	rs := startRights(t, Options{Listeners: []Listener{
		{Protocol: ProtocolBurrow, Port: ports.Spec{Address: "127.0.0.1:0"}, Origins: []string{page}, Auth: AuthPassword},
		{Protocol: ProtocolBurrow, Port: ports.Spec{Address: "127.0.0.1:0"}, Origins: []string{"*"}},
		{Protocol: ProtocolBurrow, Port: ports.Spec{Address: "127.0.0.1:0"}},
	}}, grants(t, "alice", "put *"))
	var at []string
	for _, ln := range rs.listeners[3:] {
		at = append(at, ln.Addr().String())
	}
	for _, step := range []struct {
		port            int
		request, origin string
		status          int
		allowed         string
	}{
		{0, "OPTIONS /v1.0/a/q", page, 204, page},
		{0, "OPTIONS /v1.0/a/q", "https://app.example.evil", 403, ""},
		{0, "PUT /v1.0/a/q/m < x", page, 201, page},
		{0, "PUT /v1.0/a/q/m < x", "http://app.example", 403, ""},
		{0, "GET /v1.0/a/q/m", page, 403, page}, // alice may not
		{1, "OPTIONS /v1.0/a/q", "null", 204, "*"},
		{1, "GET /v1.0/a/q/m", "http://evil.example", 200, "*"},
		{2, "OPTIONS /v1.0/a/q", page, 403, ""},
		{2, "GET /v1.0/a/q", page, 403, ""},
		{2, "OPTIONS /v1.0/a/q", "", 405, ""},
	} {
		c := rs.dial(rs.listeners[3+step.port].Addr())
		var more []string
		if step.origin != "" {
			more = append(more, "Origin: "+step.origin)
		}
		r := c.send(step.request, basic("alice", "right"), more...)
		if r == nil || r.StatusCode != step.status || r.Header.Get("Access-Control-Allow-Origin") != step.allowed {
			t.Errorf("%s of %q at %s: %+v, want %d for %q", step.request, step.origin, at[step.port], r, step.status, step.allowed)
		}
	}
	c := rs.dial(rs.listeners[3].Addr())
	r := c.send("OPTIONS /v1.0/a/q/m", "", "Origin: "+page, "Access-Control-Request-Method: PUT")
	if r.Header.Get("Access-Control-Allow-Methods") == "" || r.Header.Get("Access-Control-Allow-Headers") == "" {
		t.Errorf("preflight without a password: %v", r.Header)
	}
	// A name that leads here is refused, but for somebody who knows a password.
	for said, want := range map[string]int{"": 403, basic("alice", "right"): 201, basic("alice", "wrong"): 401} {
		c := rs.dial(rs.listeners[3].Addr())
		auth := ""
		if said != "" {
			auth = "Authorization: " + said + "\r\n"
		}
		fmt.Fprintf(c, "PUT /v1.0/a/q/%d HTTP/1.1\r\nHost: queue.example\r\nContent-Length: 1\r\n%s\r\nx", want, auth)
		if r, err := http.ReadResponse(bufio.NewReader(c.r), nil); err != nil || r.StatusCode != want {
			t.Errorf("%q: %v, %v, want %d", said, r, err, want)
		}
	}
}
