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

// hiddenSettings have a queue that is a destination of an alias, takes expired items and dead letters of another, and
// gives its own dead letters to that one. It admits one client alone, so that puts to it fail with its name.
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
// protocol: no reply has the queue's name, the number of its items or their size.
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
				for _, row := range append(burrowRows[op], burrowRow{request: "POST /v1.1/acme/work/redrive"}) {
					request := strings.NewReplacer("acme", "default", "work", queue).Replace(row.request)
					for _, user := range []string{"alice", "carol"} {
						root.say("flush opendead\r\n" + die)
						check("burrow as "+user, request, qs.as(burrowProtocol{}, user).burrowReply(request))
					}
				}
			}
		}
		qs.do(func() {
			for s := qs.loop.sessions.head; s != nil; s = qs.loop.sessions.head {
				qs.loop.gone(s, true)
			}
		})
	})
}
