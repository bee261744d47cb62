package netloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// modernClient sends requests of version 1.1, and holds each reply to the description.
type modernClient struct {
	t      *testing.T
	base   string
	router routers.Router
}

func newModernClient(t *testing.T, s *Server) *modernClient {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(burrow.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	c := &modernClient{t: t, base: "http://" + s.BurrowAddr().String()}
	if c.router, err = legacy.NewRouter(doc); err != nil {
		t.Fatal(err)
	}
	openapi3filter.RegisterBodyDecoder("application/problem+json", openapi3filter.JSONBodyDecoder)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return c
}

// ask sends a request, METHOD TARGET, perhaps "< BODY", and returns status and body of the reply. The reply must be
// as the description says. The request may be wrong; see right.
func (c *modernClient) ask(request string) (status int, body string) {
	c.t.Helper()
	line, form, _ := strings.Cut(request, " < ")
	method, target, _ := strings.Cut(line, " ")
	r, err := http.NewRequest(method, c.base+target, strings.NewReader(form))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if response.Header.Get("Cache-Control") != "no-store" || response.Header.Get("ETag") != "" {
		c.t.Errorf("%.80s: the reply may be kept: %v", request, response.Header)
	}
	kind := response.Header.Get("Content-Type")
	if problem := response.StatusCode >= 400; len(b) > 0 && problem != (kind == "application/problem+json") {
		c.t.Errorf("%.80s: %d is %s", request, response.StatusCode, kind)
	}
	r.URL.Scheme, r.URL.Host, r.Host = "", "", ""
	route, params, err := c.router.FindRoute(r)
	if err != nil { // a path or method that there is not
		if response.StatusCode != 404 && response.StatusCode != 405 {
			c.t.Errorf("%.80s: %v, and the reply is %d", request, err, response.StatusCode)
		}
		return response.StatusCode, string(b)
	}
	err = openapi3filter.ValidateResponse(c.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(b)),
	})
	if err != nil && route.Path != "/openapi.json" {
		c.t.Errorf("%.80s: the reply %d %s is not as described: %v", request, response.StatusCode, b, err)
	}
	return response.StatusCode, string(b)
}

// step is a request and its reply: the status and what the body contains.
type modernStep struct {
	request string
	status  int
	body    string // the whole of it, or what is in it if it begins with "…"
}

func (c *modernClient) play(steps ...modernStep) {
	c.t.Helper()
	for _, step := range steps {
		status, body := c.ask(step.request)
		part, isPart := strings.CutPrefix(step.body, "…")
		if status != step.status || isPart && !strings.Contains(body, part) || !isPart && body != step.body {
			c.t.Errorf("%.100s = %d %s, want %d %s", step.request, status, body, step.status, step.body)
		}
	}
}

// receive leases messages and returns them.
func (c *modernClient) receive(queue, form string) (list []struct {
	ID, Body, Receipt string
	Deliveries        int
}) {
	c.t.Helper()
	status, body := c.ask("POST /v1.1/a/" + queue + "/receive < " + form)
	var reply struct {
		Messages []struct {
			ID, Body, Receipt string
			Deliveries        int
		}
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil || status != 200 {
		c.t.Fatalf("receive %s = %d %s", form, status, body)
	}
	return reply.Messages
}

func TestBurrowModern(t *testing.T) {
	set := engine.Settings{Default: unsynced(), Queues: map[string]engine.QueueOptions{}}
	o := set.Default
	o.MaxDeliveries, o.MaxItems = 2, 50
	set.Queues["a/work"] = o
	e, err := engine.Open(engine.Options{Dir: t.TempDir(), Settings: set, SegmentSize: testSegment})
	if err != nil {
		t.Fatal(err)
	}
	s := startServerOf(t, DefaultEventLoop, e, Options{Burrow: "127.0.0.1:0", Loops: 1})
	c := newModernClient(t, s)
	c.play(
		modernStep{"GET /v1.1", 200, `{"accounts":[]}`},
		modernStep{"GET /v1.1/a/work", 404, "…Queue not found"},
		modernStep{"GET /v1.1/a/work/messages", 200, `{"messages":[]}`},
		modernStep{"POST /v1.1/a/work/receive < {}", 400, "…send lease_ms"},
		modernStep{`POST /v1.1/a/work/receive < {"lease_ms":1000}`, 200, `{"messages":[]}`},
		modernStep{`POST /v1.1/a/work/receive < {"lease_ms":1000,"wait_ms":20}`, 200, `{"messages":[]}`},
		modernStep{`POST /v1.1/a/work/messages < {"messages":[{"body":"one","id":"k"},{"body_base64":"/wA="},{"body":"later","delay_ms":60000,"ttl_ms":90000}]}`, 201, `{"stored":3}`},
		modernStep{"GET /v1.1/a/work/messages?limit=1", 200, `{"messages":[{"id":"k","body":"one","deliveries":0}],"next":"k"}`},
		modernStep{"GET /v1.1/a/work/messages?limit=2&marker=k", 200, `…"body_base64":"/wA="`},
		modernStep{"GET /v1.1/a/work/messages?match_hidden=true", 200, `…"body":"later","ttl_ms":`},
		modernStep{"GET /v1.1/a/work/messages/k", 200, `{"id":"k","body":"one","deliveries":0}`},
		modernStep{"GET /v1.1/a/work/messages/none", 404, "…Message not found"},
		modernStep{"GET /v1.1/a/work", 200, `…{"queue":"work","messages":3,`},
		modernStep{"GET /v1.1?limit=1", 200, `{"accounts":["a"]}`},
		modernStep{"GET /v1.1/a", 200, `{"queues":["work"]}`},
		modernStep{"GET /v1.1/b", 200, `{"queues":[]}`},
		modernStep{"PUT /v1.1/a/work", 405, "…the path does not offer this method"},
		modernStep{"GET /v1.1/a/work/nothing", 404, "…no such path"},
		modernStep{"GET /v1.1/a/work/messages?limit=ten", 400, "…limit: not a whole number"},
		modernStep{`POST /v1.1/a/work/messages < {"messages":[{"body":1}]}`, 400, "…wrong type"},
		modernStep{`DELETE /v1.1/a/work/receipts/17`, 404, "…The receipt holds no message"},
		modernStep{`POST /v1.1/a/work/receipts/17 < {"lease_ms":5}`, 404, "…The receipt holds no message"},
		modernStep{"GET /openapi.json", 200, "…Messages over HTTP"},
	)
	leased := c.receive("work", `{"limit":10,"lease_ms":60000}`)
	if len(leased) != 2 || leased[0].Body != "one" || leased[0].Deliveries != 1 || leased[0].Receipt == "" {
		t.Fatalf("received %+v", leased)
	}
	first := "/v1.1/a/work/receipts/" + leased[0].Receipt
	c.play(
		modernStep{"POST " + first + ` < {"lease_ms":90000}`, 200, `…{"due":`},
		modernStep{"POST " + first + ` < {"release":true}`, 204, ""},
		modernStep{"DELETE " + first, 404, "…The receipt holds no message"},
		modernStep{fmt.Sprintf(`POST /v1.1/a/work/receipts < {"acknowledge":["17",%q]}`, leased[1].Receipt), 200, `{"acknowledged":1}`},
	)
	again := c.receive("work", `{"lease_ms":60000}`)
	if len(again) != 1 || again[0].ID != "k" || again[0].Deliveries != 1 {
		t.Fatalf("a message that was given back: %+v", again)
	}
	c.play(
		modernStep{"POST /v1.1/a/work/receipts/" + again[0].Receipt + ` < {"reject":true}`, 204, ""},
		modernStep{"GET /v1.1/a/work_dead/messages", 200, `…"id":"k","body":"one"`},
		modernStep{`POST /v1.1/a/work_dead/redrive`, 200, `{"moved":1}`},
		modernStep{`POST /v1.1/a/work_dead/redrive < {"limit":5}`, 200, `{"moved":0}`},
		modernStep{`POST /v1.1/a/work/redrive < {"to":"other"}`, 200, `{"moved":1}`},
		modernStep{`POST /v1.1/a/other/redrive`, 409, "…No queue has given the next message up"},
		modernStep{`POST /v1.1/a/other/redrive < {"to":"other"}`, 409, "…would go where it is"},
		modernStep{"DELETE /v1.1/a/other/messages/k", 204, ""},
		modernStep{"DELETE /v1.1/a/other/messages/k", 404, "…Queue not found"},
	)
	// Part of a batch: the queue has room for 49 beside the delayed message.
	many := strings.TrimSuffix(strings.Repeat(`{"body":"x"},`, 60), ",")
	c.play(
		modernStep{`POST /v1.1/a/work/messages < {"messages":[` + many + `]}`, 207, `…{"stored":49,"status":507`},
		modernStep{`POST /v1.1/a/work/messages < {"messages":[` + many + `]}`, 507, "…The queue is full"},
		modernStep{"DELETE /v1.1/a/work", 204, ""},
		modernStep{"GET /v1.1/a/work", 404, "…Queue not found"},
	)
	// What is large passes through jobs.
	large := strings.Repeat("0123456789abcdef", 1<<16)
	c.play(modernStep{`POST /v1.1/a/large/messages < {"messages":[{"body":"` + large + `"},{"id":"m","body":"` + large + `"}]}`, 201, `{"stored":2}`})
	if got := c.receive("large", `{"limit":100,"lease_ms":60000}`); len(got) < 1 || got[0].Body != large {
		t.Errorf("%d large messages", len(got))
	}
	c.play(modernStep{"GET /v1.1/a/large/messages?match_hidden=true", 200, `…` + large[:100]})
}

// TestBurrowModernWait tests that a receive waits for a message, and that one who goes away meanwhile loses none.
func TestBurrowModernWait(t *testing.T) {
	s := startServer(t, DefaultEventLoop, Options{Burrow: "127.0.0.1:0", Loops: 1}, unsynced())
	c := newModernClient(t, s)
	expectWaiters := func(n string) {
		for end := time.Now().Add(testDeadline); ; {
			if _, body := c.ask("GET /v1.1/a/q"); strings.Contains(body, `"waiters":`+n) {
				return
			} else if time.Now().After(end) {
				t.Fatalf("%s, want %s waiters", body, n)
			}
		}
	}
	gone, err := net.Dial("tcp", s.BurrowAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	const form = `{"wait_ms":60000,"lease_ms":60000}`
	fmt.Fprintf(gone, "POST /v1.1/a/q/receive HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(form), form)
	expectWaiters("1")
	gone.Close()
	expectWaiters("0")

	got := make(chan string)
	go func() {
		_, body := c.ask("POST /v1.1/a/q/receive < " + form)
		got <- body
	}()
	expectWaiters("1")
	c.play(modernStep{`POST /v1.1/a/q/messages < {"messages":[{"body":"hello"}]}`, 201, `{"stored":1}`})
	body := <-got
	for _, part := range []string{`"body":"hello"`, `"deliveries":1`, `"receipt":"`} {
		if !strings.Contains(body, part) {
			t.Errorf("a receive that waited: %s lacks %s", body, part)
		}
	}
}

// TestBurrowModernGone tests that a message that comes in the turn in which its receiver goes away, before or behind
// that, is the next one's.
func TestBurrowModernGone(t *testing.T) {
	for _, end := range []string{"hangs up", "breaks off"} {
		for _, first := range []string{"put", "gone"} {
			t.Run(end+"/"+first, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ts := newTestServer(t, Options{}, defaults())
					defer ts.stop()
					post := func(path, form string) []byte {
						return fmt.Appendf(nil, "POST /v1.1/a/q/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(form), form)
					}
					const form = `{"wait_ms":60000,"lease_ms":60000}`
					waits, other := ts.dial(burrowProtocol{}), ts.dial(burrowProtocol{})
					waits.feed(post("receive", form), 1<<20)
					ts.do(func() {
						put := func() {
							ts.loop.guard(&other.session, func(s *session) { s.receive(post("messages", `{"messages":[{"body":"hello"}]}`)) })
						}
						ts.loop.begin()
						if first == "put" {
							put()
						}
						ts.loop.endSession(&waits.session, end == "hangs up")
						ts.server.connections.Add(-1)
						if first == "gone" {
							put()
						}
						ts.loop.tick()
					})
					if out, _ := waits.received(); len(out) > 0 {
						t.Errorf("a client that has gone gets %q", out)
					}
					out, _ := other.received()
					if !strings.HasSuffix(string(out), `{"stored":1}`) {
						t.Errorf("the put gets %q", out)
					}
					other.consume(len(out))
					other.feed(post("receive", form), 1<<20)
					if out, _ := other.received(); !strings.Contains(string(out), `"body":"hello","hidden_ms":60000,"deliveries":1,"receipt":"`) {
						t.Errorf("the next receiver gets %q", out)
					}
					other.hangUp()
				})
			})
		}
	}
}

// TestBatchCountsOnce tests that a batch which a job puts counts once beside what is stored of it, whether the session holds
// further input or not.
func TestBatchCountsOnce(t *testing.T) {
	const size = 1 << 20
	for _, tt := range []struct {
		more string // input behind the batch
		room int64
		want string
	}{
		{"", size * 5 / 2, "201"},
		{"", size * 3 / 2, "503"},
		{"GET /v1.0", size * 5 / 2, "201"},
		{"GET /v1.0", size * 3 / 2, "503"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ts := newLedgerServer(t, Options{}, ledgerLimit)
			defer ts.stop()
			c := ts.dial(burrowProtocol{})
			c.burrowReply("PUT /v1.0/default/work/m < x")
			c.say(tt.more)
			e := ts.opts.Engine
			taken := e.MemoryLeft() - tt.room
			e.Account(taken)
			ts.do(func() {
				ts.loop.begin()
				c.session.putReserved([]engine.PutRequest{{Data: make([]byte, size)}}, size)
				ts.loop.tick()
			})
			if out, _ := c.received(); !strings.HasPrefix(string(out), "HTTP/1.1 "+tt.want) {
				t.Errorf("with room for %d bytes, and %q behind it, a batch of %d is answered %q, want %s", tt.room, tt.more, size, out, tt.want)
			}
			e.Account(-taken)
			c.hangUp()
		})
	}
}
