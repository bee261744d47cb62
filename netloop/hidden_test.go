package netloop

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// What must be seen nowhere: the name of a queue, how many items it has, and how many bytes.
const (
	hiddenName  = "topsecret"
	hiddenItems = 7
	hiddenSize  = 7919 // bytes of each
)

// hiddenSettings have a queue that is a destination of an alias. It takes the expired items and the dead letters of
// another queue, and gives its own dead letters to that one. It admits one client alone, so that puts to it fail with
// its name.
func hiddenSettings() engine.Settings {
	set := defaults()
	hidden, open := set.Default, set.Default
	hidden.DeadLetterQueue, hidden.MaxDeliveries = "opendead", 1
	open.ExpireTo, open.DeadLetterQueue = hiddenName, hiddenName
	guarded := set.Default
	guarded.EnqueueClientID, guarded.DequeueClientID = "nobody", "nobody"
	set.Queues = map[string]engine.QueueOptions{hiddenName: hidden, "open": open, hiddenName + "guarded": guarded}
	set.Aliases = map[string][]string{"openalias": {"open", hiddenName + "guarded"}, hiddenName + "alias": {"open"}}
	return set
}

// burrowReply sends METHOD TARGET, perhaps "< BODY", and returns what comes back soon.
func (c *testClient) burrowReply(request string) string {
	line, body, _ := strings.Cut(request, " < ")
	return c.said(fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", line, len(body), body))
}

// said sends a request and returns what comes back soon: its jobs end.
func (c *testClient) said(request string) string {
	got := c.say(request)
	<-time.After(10 * time.Millisecond)
	return got + c.say("")
}

// TestHiddenEverywhere has a user who may do everything, but see one queue, ask for everything that there is, in every
// protocol. No reply has the queue's name, the number of its items or their size.
func TestHiddenEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		verbs := []string{"operate", "manage *", "put *", "get open*", "peek open*", "stats open*"}
		carol := grants(t, "carol", "manage *", "get open*", "peek open*", "stats open*") // may not put back what she gets
		checker := access.NewChecker(usersOf(t, grants(t, "alice", verbs...), carol), access.Options{})
		failing := func() error { return fmt.Errorf("k:7: queues.%s.max_items: want a number", hiddenName) }
		ts := newTestServer(t, Options{Access: checker, Reload: failing}, hiddenSettings())
		defer ts.stop()
		qs := &quotaServer{ts, checker}
		root := qs.dial(memcacheProtocol{})
		die := "set " + hiddenName + " 0 0 1\r\nx\r\nget " + hiddenName + "/open\r\nget " + hiddenName + "/reject\r\n"
		root.say(die + "set open 0 0 2\r\nok\r\n")
		put := func() {
			for range hiddenItems {
				qs.dial(burrowProtocol{}).burrowReply("PUT /v1.0/" + hiddenName + "/q/m < x") // an account of that name
				root.say(fmt.Sprintf("set %s 0 0 %d\r\n%0*d\r\nset %s+child 0 0 1\r\nx\r\n", hiddenName, hiddenSize, hiddenSize, 1, hiddenName))
			}
		}
		put()
		qs.dial(memcacheProtocol{}).say("set " + hiddenName + "guarded 0 0 1\r\nx\r\n") // it is made, and refuses
		for _, waits := range []string{"get " + hiddenName + "empty/t=1000\r\n", "monitor " + hiddenName + "empty 1\r\n"} {
			qs.dial(memcacheProtocol{}).say(waits)
		}
		if got := root.say("get opendead/from=0/meta\r\n"); !strings.Contains(got, hiddenName) {
			t.Fatalf("a dead letter does not say where it came from: %q", got)
		}
		if got := root.say("stats\r\n"); !strings.Contains(got, hiddenName) {
			t.Fatalf("nobody sees the queue: %.200q", got)
		}
		numbers := regexp.MustCompile(`[0-9]+`)
		check := func(protocol, request, reply string) {
			t.Helper()
			if strings.Contains(strings.ToLower(reply), hiddenName) && !strings.Contains(request, hiddenName) {
				t.Errorf("%s: the reply to %q has the name: %.500q", protocol, request, reply)
			}
			for _, number := range numbers.FindAllString(reply, -1) { // whole ones: receipts are random
				if n, err := strconv.Atoi(number); err == nil && n >= hiddenSize && n <= 3*hiddenItems*hiddenSize && n%hiddenSize <= 2 {
					t.Errorf("%s: the reply to %q has the size: %.500q", protocol, request, reply)
				}
			}
		}
		for _, queue := range []string{"open", "openalias", "opendead", "opennone", "open+child"} {
			for _, rows := range memcacheRows {
				for _, row := range rows {
					request := strings.ReplaceAll(row.request, "work", queue)
					if len(request) < 1000 && !row.fatal {
						check("memcache", request, qs.as(memcacheProtocol{}, "alice").say(request))
					}
				}
			}
			for _, rows := range textRows {
				for _, row := range rows {
					request := strings.ReplaceAll(row.request, "work", queue)
					if !strings.HasPrefix(request, "shutdown") {
						check("text", request, qs.as(textProtocol{}, "alice").say(request))
					}
				}
			}
		}
		put() // the commands flushed it
		large := strings.Repeat("x", largePut+1)
		for _, request := range []string{
			"get opendead/meta\r\n", "get opendead/open/meta\r\n", "gets opendead/lease=1000/meta\r\n", "get opendead/id=1/meta\r\n",
			"get opendead/from=0/meta/hidden\r\n", "dump_stats open opendead openalias\r\n", "dump_config open opendead openalias\r\n",
			"get open/or=" + "opendead/meta\r\n", "flush_all\r\n", "flush_all_expired\r\n", "get opendead/t=5\r\n", "nonsense\r\n", "set \r\n",
			fmt.Sprintf("set openalias 0 0 %d\r\n%s\r\n", len(large), large),
		} {
			root.say("flush " + hiddenName + "\r\n" + die)
			put()
			check("memcache", request, qs.as(memcacheProtocol{}, "alice").said(request))
		}
		check("text", "put openalias, large", qs.as(textProtocol{}, "alice").say("put openalias:\n"+large+"\n\n"))
		for method, rows := range thriftRows() {
			for _, row := range rows {
				for _, queue := range []string{"open", "dead"} { // as long as work
					frame := strings.ReplaceAll(string(row.call), "work", queue)
					check("thrift", method.String(), qs.as(thriftProtocol{}, "alice").say(frame))
				}
			}
		}
		root.say(die)
		for _, which := range []thrift.Which{{}, {ID: 1}, {ID: 2}} {
			frame := thrift.Client{}.AppendBrowse(nil, 1, []byte("opendead"), which, 0, 100, true)
			check("thrift", "browse opendead", qs.as(thriftProtocol{}, "alice").say(string(frame)))
		}
		for _, items := range [][][]byte{{[]byte("x")}, {[]byte("x"), []byte(large)}} {
			frame := thrift.Client{}.AppendPut(nil, 1, []byte("openalias"), 0, items...)
			check("thrift", "put openalias", qs.as(thriftProtocol{}, "alice").say(string(frame)))
		}
		for _, method := range []string{"GET", "DELETE", "PUT", "POST"} {
			for _, path := range []string{"/", "/v1.0", "/v1.0?detail=all", "/v1.0/default", "/v1.0/default?limit=100", "/v1.0/default/open",
				"/v1.0/default/opendead?detail=all", "/v1.0/default/openalias/1", "/v1.0/default/open?hide=1"} {
				request := method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
				check("burrow", request, qs.as(burrowProtocol{}, "alice").say(request))
			}
		}
		for _, queue := range []string{"open", "opendead"} {
			for op := burrow.OpVersions; op.String() != "unknown"; op++ {
				for _, row := range append(burrowRows[op], burrowRow{request: "POST /v1.1/acme/work/redrive"},
					burrowRow{request: "DELETE /v1.0?detail=all"}, burrowRow{request: "DELETE /v1.0/acme?detail=id"}) {
					request := strings.NewReplacer("acme", "default", "work", queue).Replace(row.request)
					for _, user := range []string{"alice", "carol"} {
						root.say("flush opendead\r\nflush " + hiddenName + "\r\n" + die)
						put()
						check("burrow as "+user, request, qs.as(burrowProtocol{}, user).burrowReply(request))
					}
				}
			}
		}
		qs.do(func() {
			for s := qs.loop.sessions.head; s != nil; s = qs.loop.sessions.head {
				qs.loop.endSession(s, true)
			}
		})
	})
}

// TestHiddenOracle has a user ask for a queue that it may not see, and for one that there is not, in every way. The
// replies are the same.
func TestHiddenOracle(t *testing.T) {
	const hidden, none = "hush", "nope" // as long as work, which has its length in front in a call
	synctest.Test(t, func(t *testing.T) {
		checker := access.NewChecker(usersOf(t,
			grants(t, "alice", "put open*", "get open*", "peek open*", "manage open*", "stats open*")), access.Options{})
		set := defaults()
		set.Queues = map[string]engine.QueueOptions{hidden: set.Default}
		set.Aliases = map[string][]string{hidden + "alias": {"open"}, "openalias": {"open", hidden}}
		ts := newTestServer(t, Options{Access: checker}, set)
		defer ts.stop()
		qs := &quotaServer{ts, checker}
		root := qs.dial(memcacheProtocol{})
		for _, queue := range []string{hidden, "open", "open1", "open3"} {
			root.say(strings.Repeat("set "+queue+"/key=K 0 0 1\r\nx\r\n", 5))
		}
		root.say("set open2 0 0 1\r\nx\r\nset " + hidden + "+child 0 0 1\r\nx\r\nget " + hidden + "/open\r\n")
		tried, grows := 0, regexp.MustCompile(`((?:age|time|total_items|logsize|flushes|"total_items":)[ =])[0-9]+`)
		compare := func(proto protocol, request string, ask func(*testClient, string) string) {
			t.Helper()
			if strings.Contains(request, hidden) || strings.Contains(request, none) || len(request) > 1000 {
				return
			}
			var replies []string
			for _, name := range []string{hidden, none} {
				root.say("flush open\r\nset open 0 0 1\r\nx\r\n")
				c := qs.as(proto, "alice")
				reply := ask(c, strings.ReplaceAll(request, "work", name))
				c.hangUp()
				replies = append(replies, grows.ReplaceAllString(strings.ReplaceAll(reply, name, "NAME"), "$1"))
			}
			if tried++; replies[0] != replies[1] {
				t.Errorf("%s: %.200q is answered by\n%.400q, for want of the queue\n%.400q", proto.name(), request, replies[0], replies[1])
			}
		}
		forms := []string{"work", "workalias", "work+child"}
		for _, rows := range memcacheRows {
			for _, row := range rows {
				for _, form := range forms {
					if !row.fatal {
						compare(memcacheProtocol{}, strings.ReplaceAll(row.request, "work", form), (*testClient).said)
					}
				}
			}
		}
		for _, request := range []string{"get open/or=work", "get work/or=open", "stats work", "dump_stats open work", "dump_config open work",
			"get open work", "monitor work 1 1", "get work/t=10", "touch work/id=1 1", "get work/key=K", "set work/delay=5 0 0 1\r\nx"} {
			compare(memcacheProtocol{}, request+"\r\n", (*testClient).said)
		}
		for _, rows := range textRows {
			for _, row := range rows {
				for _, form := range forms {
					compare(textProtocol{}, strings.ReplaceAll(row.request, "work", form), (*testClient).said)
				}
			}
		}
		for _, rows := range thriftRows() {
			for _, row := range rows {
				compare(thriftProtocol{}, string(row.call), (*testClient).said)
			}
		}
		for op := burrow.OpVersions; op.String() != "unknown"; op++ {
			for _, row := range burrowRows[op] {
				compare(burrowProtocol{}, strings.ReplaceAll(row.request, "acme", "default"), (*testClient).burrowReply)
			}
		}
		for _, request := range []string{
			"GET /v1.0/default?marker=work&detail=all", "GET /v1.0/default?marker=work&limit=1", "GET /v1.0?marker=work", "GET /v1.0/work",
			"GET /v1.1/default?marker=work&limit=1", "GET /v1.1/work", "DELETE /v1.0/work", "GET /v1.0/work/q",
			`POST /v1.1/default/open/redrive < {"to":"work"}`, `POST /v1.1/default/open/redrive < {"to":"workalias"}`,
			`POST /v1.1/default/work/redrive < {"to":"open"}`, "OPTIONS /v1.0/default/work", "PATCH /v1.0/default/work",
		} {
			compare(burrowProtocol{}, request, (*testClient).burrowReply)
		}
		if tried < 150 {
			t.Errorf("%d requests were tried", tried)
		}
		root.say("flush open\r\nset open 0 0 1\r\nx\r\n")
		// A page of a list is full although a queue in it is left out.
		for _, version := range []string{"/v1.0", "/v1.1"} {
			all := qs.as(burrowProtocol{}, "alice").burrowReply("GET " + version + "/default")
			_, list, _ := strings.Cut(all, "\r\n\r\n")
			if strings.Contains(all, hidden) || strings.Count(list, "open") != 4 {
				t.Errorf("all queues: %q", all)
			}
			page := qs.as(burrowProtocol{}, "alice").burrowReply("GET " + version + "/default?limit=3")
			if _, list, _ = strings.Cut(page, "\r\n\r\n"); !strings.Contains(list, `["open","open1","open3"]`) {
				t.Errorf("a page of three: %q", page)
			}
			if page = qs.as(burrowProtocol{}, "alice").burrowReply("GET " + version + "/default?limit=4"); strings.Contains(page, "next") {
				t.Errorf("a page of all: %q", page)
			}
		}
		qs.hangUpAll()
	})
}
