package main

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/codec/thrift"
)

// knownUser is a user who wants what is not hers: other queues, other accounts, the server itself.
type knownUser struct {
	name    string
	receipt uint64 // of an item that somebody else has leased
	item    string // the id of one
}

// memcache returns what she sends over the memcache protocol, each behind her login.
func (u *knownUser) memcache() (list []string) {
	for _, queue := range []string{"vault", "VAULT", "vault+copy", "drop+vault", "everyone", "vault%2Fx", "acme/q", "other/q", "default/vault", "/vault"} {
		for _, request := range []string{
			"get %s", "get %s/open", "get %s/peek", "get %s/t=1", "gets %s/lease=1000", "get %s/id=1",
			"get %s/from=0/limit=100", "get %s/key=k",
			"get drop/or=%s", "get %s/or=drop", "gets drop/or=%s/weight=9/lease=1000", "get drop %s",
			"monitor %s 1 1", "confirm %s 1", "get %s/close/open",
			"set %s 0 0 1\r\nx", "set %s/key=k 0 0 1\r\nx", "set drop 0 0 1\r\nx\r\nset %s 0 0 1\r\nx",
			"set %s 0 0 1 noreply\r\nx",
			"delete %s", "delete %s/id=1", "delete %s/key=k", "flush %s", "flush_expired %s", "stats %s",
			"dump_stats %s", "dump_config %s", "touch %s/id=1 1",
		} {
			list = append(list, fmt.Sprintf(request+"\r\n", queue))
		}
	}
	for _, request := range []string{
		"get drop/close=%d", "get drop/abort=%d", "get drop/release=%d", "get drop/reject=%d",
		"get drop/abort=%d/delay=0", "touch drop/lease=%d 1",
		"delete drop/lease=%d", "confirm drop/lease=%d 1", "get vault/close=%d", "get vault/reject=%d",
		"touch vault/lease=%d 1",
	} {
		list = append(list, fmt.Sprintf(request+"\r\n", u.receipt))
	}
	for _, request := range []string{"get drop/id=%s", "delete drop/id=%s", "touch drop/id=%s 1", "get drop/from=%s/limit=10"} {
		list = append(list, fmt.Sprintf(request+"\r\n", u.item))
	}
	for _, request := range []string{
		"flush_all", "flush_all_expired", "reload", "shutdown", "status Down", "status Quiescent", "status ReadOnly",
		"stats", "stats connections", "dump_stats",
		"dump_config", "version", "status", "get drop\r\nget vault\r\nget drop", "get " + strings.Repeat("drop ",
			50) + "vault", "monitor drop 1 1\r\nget vault",
		"set x 0 0 12\r\nroot s3cret!", "set x 0 0 9\r\nroot root", "verbosity 5", "cas vault 0 0 1 1\r\nx",
		"append vault 0 0 1\r\nx", "incr vault 1",
	} {
		list = append(list, request+"\r\n")
	}
	return list
}

// text returns what she sends over the text protocol.
func (u *knownUser) text() (list []string) {
	for _, queue := range []string{"vault", "VAULT", "vault+copy", "everyone", "acme/q", "other/q"} {
		for _, request := range []string{
			"put %s:\nx\n\n", "put %s key=k:\nx\n\n", "get %s\n", "get %s lease=1000\n", "get drop or=%s\n",
			"get %s or=drop\n", "peek %s\n", "peek %s id=1\n",
			"monitor %s 1\n", "confirm %s 1\n", "flush %s\n", "delete %s\n", "list %s\n", "remove %s id=1\n",
			"remove %s key=k\n", "abort %s\n", "reject %s\n",
			"put drop:\nx\n\nput %s:\nx\n\n", "touch %s id=1 1\n",
		} {
			list = append(list, fmt.Sprintf(request, queue))
		}
	}
	for _, request := range []string{
		"confirm drop receipt=%d\n", "abort drop receipt=%d\n", "release drop receipt=%d\n",
		"reject drop receipt=%d\n", "touch drop receipt=%d 1\n",
		"confirm vault receipt=%d\n",
	} {
		list = append(list, fmt.Sprintf(request, u.receipt))
	}
	return append(list, "shutdown\n", "status Quiescent\n", "status Down\n", "auth root s3cret!\n",
		"remove drop id="+u.item+"\n", "peek drop id="+u.item+"\n")
}

// thrift returns the calls that she makes.
func (u *knownUser) thrift() (list []string) {
	c, drop := thrift.Client{}, []byte("drop")
	add := func(call []byte) { list = append(list, string(call)) }
	for _, name := range []string{"vault", "vault+copy", "everyone", "acme/q", "other/q"} {
		queue := []byte(name)
		add(c.AppendPut(nil, 1, queue, 0, []byte("x")))
		add(c.AppendPutWith(nil, 1, queue, thrift.PutOptions{Keys: [][]byte{[]byte("k")}}, []byte("x")))
		add(c.AppendGet(nil, 1, queue, thrift.GetOptions{MaxItems: 100}))
		add(c.AppendGet(nil, 1, queue, thrift.GetOptions{MaxItems: 1, AutoAbortMillis: 60000}))
		add(c.AppendGetAny(nil, 1, [][]byte{drop, queue}, nil, 0, 0))
		add(c.AppendGetAny(nil, 1, [][]byte{queue, drop}, []int32{1, 9}, 0, 60000))
		add(c.AppendBrowse(nil, 1, queue, thrift.Which{}, 0, 100, true))
		add(c.AppendRemove(nil, 1, queue, thrift.Which{ID: 1}))
		add(c.AppendTouchItem(nil, 1, queue, thrift.Which{ID: 1}, 1))
		for _, method := range []thrift.Method{thrift.MethodPeek, thrift.MethodFlushQueue, thrift.MethodDeleteQueue} {
			add(c.AppendCall(nil, method, 1, queue))
		}
		add(c.AppendConfirm(nil, 1, queue, int64(u.receipt)))
	}
	add(c.AppendConfirm(nil, 1, drop, int64(u.receipt)))
	add(c.AppendAbort(nil, 1, drop, int64(u.receipt)))
	add(c.AppendReturn(nil, thrift.MethodReject, 1, drop, 0, int64(u.receipt)))
	add(c.AppendReturn(nil, thrift.MethodRelease, 1, drop, 0, int64(u.receipt)))
	add(c.AppendTouch(nil, 1, drop, int64(u.receipt), 1))
	add(c.AppendCall(nil, thrift.MethodFlushAllQueues, 1, nil))
	add(c.AppendSetStatus(nil, 1, thrift.StatusQuiescent))
	add(c.AppendAuthenticate(nil, 1, []byte("root"), []byte("s3cret!")))
	return list
}

// burrow returns the requests that she sends over Burrow's protocol: METHOD TARGET, perhaps "< BODY".
func (u *knownUser) burrow() (list []string) {
	for _, queue := range []string{
		"default/vault", "other/q", "acme/q", "default/VAULT", "acme/../default/vault", "acme/..%2Fdefault/vault",
		"acme%2Fq/vault", "acme/q%2F..%2Fvault",
		"default/drop%2B..%2Fvault", "%64efault/vault", "default//vault", "acme/%2E%2E/vault",
	} {
		for _, request := range []string{
			"GET /v1.0/%s", "GET /v1.0/%s?detail=all&match_hidden=true", "GET /v1.0/%s/gold",
			"PUT /v1.0/%s/mallory < x", "POST /v1.0/%s?hide=60",
			"POST /v1.0/%s/gold?ttl=1", "DELETE /v1.0/%s", "DELETE /v1.0/%s/gold", "GET /v1.1/%s",
			"GET /v1.1/%s/messages", "GET /v1.1/%s/messages/gold",
			`POST /v1.1/%s/messages < {"messages":[{"body":"x"}]}`, `POST /v1.1/%s/receive < {"lease_ms":1000}`,
			"DELETE /v1.1/%s/messages/gold", "DELETE /v1.1/%s",
			`POST /v1.1/%s/redrive < {"to":"drop"}`,
		} {
			list = append(list, fmt.Sprintf(request, queue))
		}
	}
	for _, queue := range []string{"default/drop", "acme/drop", "default/vault", "other/q"} {
		for _, request := range []string{
			"DELETE /v1.1/%s/receipts/%d", `POST /v1.1/%s/receipts/%d < {"lease_ms":1}`,
			`POST /v1.1/%s/receipts < {"acknowledge":["%d"]}`,
			`POST /v1.1/%s/receipts < {"reject":["%d"]}`, `POST /v1.1/%s/receipts < {"release":["%d"]}`,
		} {
			list = append(list, fmt.Sprintf(request, queue, u.receipt))
		}
		list = append(list, fmt.Sprintf(`POST /v1.1/%s/redrive < {"to":"vault"}`, queue),
			fmt.Sprintf(`POST /v1.1/%s/redrive < {"to":"../other/q"}`, queue))
	}
	return append(list, "GET /v1.0", "DELETE /v1.0", "GET /v1.0/default", "DELETE /v1.0/default", "GET /v1.0/other",
		"DELETE /v1.0/other", "GET /v1.1",
		"GET /v1.1/other", "GET /v1.1/default", "DELETE /v1.0/acme%2F..%2Fother")
}

// admin returns what she sends to the admin port.
func (u *knownUser) admin() (list []string) {
	for _, command := range []string{
		"stats.json", "stats.txt", "stats", "server_info", "shutdown", "quiesce", "reload", "threads", "gc",
		"logging?level=debug", "histograms", "metrics",
		"backup", "status?to=Quiescent", "status?to=Down", "connections", "sniff?seconds=0.001", "debug/pprof/heap",
		"debug/pprof/goroutine?debug=2", "pprof/heap",
		"x/y/shutdown", "./shutdown", "shutdown.json", "shutdown.txt", "%73hutdown", "stats/../shutdown",
		"metrics?queues=vault", "stats.json?period=60",
		"histograms?period=1", "connections?queue=vault",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"} {
			list = append(list, method+" /"+command)
		}
	}
	return list
}

// TestEndToEndKnownUser has two users try everything that is not theirs, over every protocol of a running server.
// Mallory may put to one queue and take from it, and Eve may do anything in one account. They know the names of
// queues, ids of items and receipts of leases of others. Nothing that is not theirs changes, and no reply has it.
func TestEndToEndKnownUser(t *testing.T) {
	h, err := access.HashPassword([]byte("s3cret!"))
	if err != nil {
		t.Fatal(err)
	}
	weak, err := access.HashPassword([]byte("weak"))
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
[queues.drop]
max_deliveries = 3
[aliases.everyone]
destination_queues = ["drop", "vault"]
[users.root]
password = "%[1]s"
allow = ["put *", "get *", "peek *", "manage *", "stats *", "operate"]
[users.mallory]
password = "%[2]s"
allow = ["put drop", "get drop"]
[users.eve]
password = "%[2]s"
account = "acme"
allow = ["put *", "get *", "peek *", "manage *", "stats *"]
[[listener]]
protocol = "burrow"
address = "127.0.0.1:0"
[[listener]]
protocol = "admin"
address = "127.0.0.1:0"
`, h, weak)
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, config))
	burrowAddr := p.Logged("listening")["address"].(string)
	adminAddr := p.Saw("admin port is open")["address"].(string)
	over := func(addr, user, password, request string) string {
		line, body, _ := strings.Cut(request, " < ")
		return exchange(t, addr,
			fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic %s\r\nContent-Length: %d\r\n\r\n%s",
				line, base64.StdEncoding.EncodeToString([]byte(user+":"+password)), len(body), body))
	}

	root := p.Dial()
	login(root, "root", "s3cret!", "STORED\n")
	root.Ask("set vault/key=k 0 0 8\ngoldbars\n", "STORED\n")
	root.Ask("set vault 0 0 8\ngoldbars\n", "STORED\n")
	root.Ask("set vault+copy 0 0 8\ngoldbars\n", "STORED\n")
	root.Ask("set vault 0 0 8\ngoldbars\n", "STORED\n")
	root.Send("gets vault/lease=600000\n")
	leased := strings.Fields(root.Read(3))
	receipt, err := strconv.ParseUint(leased[4], 10, 64)
	if err != nil {
		t.Fatalf("a lease: %q, %v", leased, err)
	}
	for _, queue := range []string{"other/q", "default/vault"} {
		for _, message := range []string{"gold", "silver"} {
			if got := over(burrowAddr, "root", "s3cret!", "PUT /v1.0/"+queue+"/"+message+" < goldbars"); !strings.HasPrefix(got, "HTTP/1.1 201") {
				t.Fatalf("put a message: %q", got)
			}
		}
	}
	figures := regexp.MustCompile(`^STAT (queue_(?:vault|vault\+copy|other/q)_\S+) `)
	varies := regexp.MustCompile(`_age|_memory|_mem_|_time|_usec|_msec|_waiters`)
	names := regexp.MustCompile(`^STAT queue_(\S+)_total_items `)
	snapshot := func() (lines []string) {
		root.Send("stats\n")
		for {
			line := root.Read(1)
			if line == "END\n" {
				slices.Sort(lines)
				return lines
			}
			if m := figures.FindStringSubmatch(line); m != nil && !varies.MatchString(m[1]) {
				lines = append(lines, line)
			}
			if m := names.FindStringSubmatch(line); m != nil && m[1] != "drop" && !strings.HasPrefix(m[1], "acme/") {
				lines = append(lines, "queue "+m[1])
			}
		}
	}
	before := snapshot()
	if len(before) < 30 {
		t.Fatalf("root sees too little: %q", before)
	}
	tried, refused := 0, 0
	check := func(protocol, user, request, reply string) {
		t.Helper()
		if tried++; strings.Contains(reply, "not allowed") {
			refused++
		}
		if strings.Contains(reply, "goldbars") || strings.Contains(reply, "silver") {
			t.Errorf("%s, %s: %.200q gets %.300q", protocol, user, request, reply)
		}
		if strings.Contains(strings.ToLower(reply), "vault") && !strings.Contains(strings.ToLower(request), "vault") {
			t.Errorf("%s, %s: the reply to %.200q names a queue: %.300q", protocol, user, request, reply)
		}
		if after := snapshot(); !slices.Equal(after, before) {
			t.Fatalf("%s, %s: %.200q has changed something: %q\nwas %q\nnow %q", protocol, user, request, reply,
				before, after)
		}
		root.Ask("status\n", "UP\n")
	}
	for _, name := range []string{"mallory", "eve"} {
		u := &knownUser{name: name, receipt: receipt, item: "1"}
		data := name + " weak"
		for _, request := range u.memcache() {
			reply := exchange(t, p.Addr, fmt.Sprintf("set x 0 0 %d\r\n%s\r\n%s", len(data), data, request))
			check("memcache", name, request, reply)
			if !strings.HasPrefix(reply, "STORED\r\n") {
				t.Fatalf("%s cannot log in: %q", name, reply)
			}
		}
		for _, request := range u.text() {
			check("text", name, request, exchange(t, p.Text, "auth "+data+"\n"+request))
		}
		for _, call := range u.thrift() {
			check("Thrift", name, call, exchange(t, p.Thrift, string(thrift.Client{}.AppendAuthenticate(nil, 1,
				[]byte(name), []byte("weak")))+call))
		}
		for _, request := range u.burrow() {
			check("Burrow", name, request, over(burrowAddr, name, "weak", request))
		}
		for _, request := range u.admin() {
			reply := over(adminAddr, name, "weak", request)
			check("admin", name, request, reply)
			if name == "mallory" && strings.HasPrefix(reply, "HTTP/1.1 200") && !strings.Contains(request, "server_info") &&
				!strings.Contains(request,
					"/status") { // anybody may read the status; check looks whether it has changed
				t.Errorf("admin, mallory: %s gets %.200q", request, reply)
			}
		}
	}
	t.Logf("%d requests were tried, %d of which got \"not allowed\"", tried, refused)
	if refused < tried/3 {
		t.Errorf("of %d requests only %d were refused for want of a right", tried, refused)
	}
	root.Ask("get vault/close="+leased[4]+"\n", "END\n") // root's lease is still good
	p.Signal(syscall.SIGTERM)
	p.Logged("stopped: everything is synced")
	for _, entry := range p.Entries("") {
		if msg := entry["msg"]; msg == "configuration reloaded" || msg == "log level changed" || msg == "status asked for" ||
			msg == "stopping" && entry["reason"] != "SIGTERM" {
			t.Errorf("they have reached the server itself: %v", entry)
		}
	}
}
