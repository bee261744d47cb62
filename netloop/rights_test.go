package netloop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/text"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// testHash is the hash of the password "right", of next to no cost.
const testHash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$P3OLBQw3O3GiY9hpX8wpK8qO6gQccIdDXnlkdzKceqU"

// rightsServer is a server that asks who its clients are.
type rightsServer struct {
	*Server
	t       *testing.T
	engine  *engine.Engine
	checker *access.Checker
}

// grants returns a user of that name with a password, right, and rights.
func grants(t testing.TB, name string, allow ...string) *access.User {
	t.Helper()
	u := &access.User{Name: name, Password: rightHash(t)}
	for _, grant := range allow {
		g, err := access.ParseGrant(grant)
		if err != nil {
			t.Fatal(err)
		}
		u.Allow = append(u.Allow, g)
	}
	return u
}

// rightHash is the hash of the password right.
func rightHash(t testing.TB) access.Hash {
	t.Helper()
	h, err := access.ParseHash(testHash)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func usersOf(t testing.TB, list ...*access.User) *access.Users {
	t.Helper()
	users, err := access.NewUsers(list)
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// startRights starts a server on real sockets with users, and some queues.
func startRights(t *testing.T, opts Options, list ...*access.User) *rightsServer {
	t.Helper()
	set := engine.Settings{
		Default: engine.DefaultQueueOptions(), Queues: map[string]engine.QueueOptions{},
		Aliases: map[string][]string{"all": {"work", "secret"}},
	}
	o := set.Default
	o.ExpireTo, o.DeadLetterQueue = "secret", "secret"
	set.Queues["work"] = o
	o.DeadLetterQueue = "acme/dead"
	set.Queues["acme/secret"], set.Queues["other/secret"] = o, o
	o.EnqueueClientID = "nobody"
	set.Queues["acme/guarded"] = o
	e, err := engine.Open(engine.Options{Dir: "data", FS: segmenttest.New(), SegmentSize: 1 << 16, Settings: set})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"work", "work+audit", "work+secret", "secret"} {
		if _, err := e.Put(engine.Now(), []byte(name), engine.PutRequest{Data: []byte("hidden")}); err != nil {
			t.Fatal(err)
		}
	}
	rs := &rightsServer{t: t, engine: e, checker: access.NewChecker(usersOf(t, list...), access.Options{Parallel: 4, FreeFailures: 1 << 30})}
	opts.Engine, opts.Access, opts.Auth, opts.Loops = e, rs.checker, AuthPassword, 1
	opts.Memcache, opts.Text, opts.Thrift = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	if rs.Server, err = New(opts); err == nil {
		err = rs.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rs.Shutdown(context.Background())
		e.Close()
	})
	return rs
}

// rightsClient is a connection to it.
type rightsClient struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func (rs *rightsServer) dial(addr net.Addr) *rightsClient {
	rs.t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		rs.t.Fatal(err)
	}
	rs.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &rightsClient{rs.t, c, bufio.NewReader(c)}
}

// line sends a request and returns the first line of the reply, or EOF.
func (c *rightsClient) line(request string) string {
	c.t.Helper()
	io.WriteString(c, request)
	got, err := c.r.ReadString('\n')
	if err != nil {
		return "EOF"
	}
	return strings.TrimRight(got, "\r\n")
}

// who are the peers of the table: each says who it is in its own way.
var who = []struct {
	name, password string
	know           bool // the server then knows who it is
	may            bool // it has the right that the row needs
}{
	{"", "", false, false},
	{"allowed", "wrong", false, false},
	{"Allowed", "right", false, false}, // names are as they are written
	{"denied", "right", true, false},
	{"allowed", "right", true, true},
}

// rightsRow is a command, and the verb that it needs; "" for none.
type rightsRow struct {
	request string
	verb    string
	fatal   bool   // the connection ends if the command runs
	also    string // another verb that it needs, which both users have
}

// memcacheRows has a row for each command, and more for those that need something else in some form.
var memcacheRows = map[memcache.Op][]rightsRow{
	memcache.OpSet: {{request: "set work 0 0 1\r\nx\r\n", verb: "put work"},
		{request: "set all 0 0 1\r\nx\r\n", verb: "put all"},
		{request: fmt.Sprintf("set work 0 0 %d\r\n%s\r\n", largePut+1, strings.Repeat("x", largePut+1)), verb: "put work"}},
	memcache.OpGet: {{request: "get work\r\n", verb: "get work"}, {request: "get work/open\r\n", verb: "get work"},
		{request: "get work/abort\r\n", verb: "get work"}, {request: "get work/close\r\n", verb: "get work"},
		{request: "get work/peek\r\n", verb: "peek work"}, {request: "get work/lease=1000\r\n", verb: "get work"},
		{request: "get work/id=1\r\n", verb: "peek work"}, {request: "get work/key=K\r\n", verb: "peek work"},
		{request: "get work/from=0\r\n", verb: "peek work"}},
	memcache.OpMonitor: {{request: "monitor work 0\r\n", verb: "get work"}},
	memcache.OpConfirm: {{request: "confirm work 1\r\n", verb: "get work"}},
	memcache.OpDelete: {{request: "delete work\r\n", verb: "manage work"},
		{request: "delete work/id=1\r\n", verb: "get work"}, {request: "delete work/key=K\r\n", verb: "get work"}},
	memcache.OpFlush:           {{request: "flush work\r\n", verb: "manage work"}},
	memcache.OpFlushAll:        {{request: "flush_all\r\n", verb: "manage *"}},
	memcache.OpFlushExpired:    {{request: "flush_expired work\r\n", verb: "manage work"}},
	memcache.OpFlushAllExpired: {{request: "flush_all_expired\r\n", verb: "manage *"}},
	memcache.OpStats: {{request: "stats\r\n", verb: "stats work"},
		{request: "stats connections\r\n", verb: "operate", also: "stats *"},
		{request: "stats connections\r\n", verb: "stats *", also: "operate"}},
	memcache.OpDumpStats:  {{request: "dump_stats\r\n", verb: "stats work"}, {request: "dump_stats work\r\n", verb: "stats work"}},
	memcache.OpDumpConfig: {{request: "dump_config\r\n", verb: "stats work"}, {request: "dump_config work\r\n", verb: "stats work"}},
	memcache.OpStatus:     {{request: "status\r\n"}, {request: "status Up\r\n", verb: "operate"}},
	memcache.OpVersion:    {{request: "version\r\n"}},
	memcache.OpReload:     {{request: "reload\r\n", verb: "operate"}},
	memcache.OpShutdown:   {{request: "shutdown\r\n", verb: "operate", fatal: true}},
	memcache.OpQuit:       {{request: "quit\r\n", fatal: true}},
	memcache.OpTouch:      {{request: "touch work/lease=7 10\r\n", verb: "get work"}, {request: "touch work/id=7 10\r\n", verb: "get work"}},
}

var textRows = map[text.Op][]rightsRow{
	text.OpPut:      {{request: "put work:\nx\n\n", verb: "put work"}, {request: "put work\n", verb: "put work"}},
	text.OpGet:      {{request: "get work\n", verb: "get work"}, {request: "get work lease\n", verb: "get work"}},
	text.OpPeek:     {{request: "peek work\n", verb: "peek work"}, {request: "peek work id=1\n", verb: "peek work"}},
	text.OpMonitor:  {{request: "monitor work 0\n", verb: "get work"}},
	text.OpConfirm:  {{request: "confirm work 1\n", verb: "get work"}, {request: "confirm work receipt=7\n", verb: "get work"}},
	text.OpFlush:    {{request: "flush work\n", verb: "manage work"}},
	text.OpDelete:   {{request: "delete work\n", verb: "manage work"}},
	text.OpStatus:   {{request: "status\n"}, {request: "status Up\n", verb: "operate"}},
	text.OpVersion:  {{request: "version\n"}},
	text.OpShutdown: {{request: "shutdown\n", verb: "operate"}},
	text.OpQuit:     {{request: "quit\n", fatal: true}},
	text.OpTouch:    {{request: "touch work receipt=7 10\n", verb: "get work"}},
	text.OpAbort:    {{request: "abort work\n", verb: "get work"}},
	text.OpRelease:  {{request: "release work\n", verb: "get work"}},
	text.OpReject:   {{request: "reject work\n", verb: "get work"}},
	text.OpAuth:     {{request: "auth a\n"}},
	text.OpList:     {{request: "list work\n", verb: "peek work"}},
	text.OpRemove:   {{request: "remove work id=1\n", verb: "get work"}},
}

// thriftRow is a call.
type thriftRow struct {
	call []byte
	verb string
}

func thriftRows() map[thrift.Method][]thriftRow {
	c, work := thrift.Client{}, []byte("work")
	large := bytes.Repeat([]byte("x"), 2*largeCall)
	return map[thrift.Method][]thriftRow{
		thrift.MethodPut: {{c.AppendPut(nil, 1, work, 0, []byte("x")), "put work"},
			{c.AppendPut(nil, 1, work, 0, large), "put work"},
			{withField(c.AppendPut(nil, 1, work, 0), large), "put work"}}, // a large one, of no items
		thrift.MethodGet:            {{c.AppendGet(nil, 1, work, thrift.GetOptions{MaxItems: 1}), "get work"}},
		thrift.MethodConfirm:        {{c.AppendConfirm(nil, 1, work, 1), "get work"}},
		thrift.MethodAbort:          {{c.AppendAbort(nil, 1, work, 1), "get work"}},
		thrift.MethodPeek:           {{c.AppendCall(nil, thrift.MethodPeek, 1, work), "peek work"}},
		thrift.MethodFlushQueue:     {{c.AppendCall(nil, thrift.MethodFlushQueue, 1, work), "manage work"}},
		thrift.MethodFlushAllQueues: {{c.AppendCall(nil, thrift.MethodFlushAllQueues, 1, nil), "manage *"}},
		thrift.MethodDeleteQueue:    {{c.AppendCall(nil, thrift.MethodDeleteQueue, 1, work), "manage work"}},
		thrift.MethodCurrentStatus:  {{c.AppendCall(nil, thrift.MethodCurrentStatus, 1, nil), ""}},
		thrift.MethodSetStatus:      {{c.AppendSetStatus(nil, 1, thrift.StatusUp), "operate"}},
		thrift.MethodGetVersion:     {{c.AppendCall(nil, thrift.MethodGetVersion, 1, nil), ""}},
		thrift.MethodRelease:        {{c.AppendRequest(nil, &thrift.Request{Call: thrift.Call{Method: thrift.MethodRelease}, Queue: work}), "get work"}},
		thrift.MethodReject:         {{c.AppendRequest(nil, &thrift.Request{Call: thrift.Call{Method: thrift.MethodReject}, Queue: work}), "get work"}},
		thrift.MethodTouch: {{c.AppendRequest(nil, &thrift.Request{Call: thrift.Call{Method: thrift.MethodTouch}, Queue: work, ID: 1, AutoAbortMillis: 1}), "get work"},
			{c.AppendTouchItem(nil, 1, work, thrift.Which{ID: 1}, 0), "get work"}},
		thrift.MethodBrowse: {{c.AppendBrowse(nil, 1, work, thrift.Which{}, 0, 0, false), "peek work"},
			{c.AppendBrowse(nil, 1, work, thrift.Which{ID: 1}, 0, 0, false), "peek work"}},
		thrift.MethodRemove: {{c.AppendRemove(nil, 1, work, thrift.Which{ID: 1}), "get work"}},
		thrift.MethodGetAny: {{c.AppendGetAny(nil, 1, [][]byte{work}, nil, 0, 0), "get work"},
			{c.AppendGetAny(nil, 1, [][]byte{work}, nil, 0, 60000), "get work"}},
		thrift.MethodAuthenticate: {{c.AppendAuthenticate(nil, 1, nil, nil), ""}},
		thrift.MethodUpgrade:      {{c.AppendCall(nil, thrift.MethodUpgrade, 1, nil), ""}},
	}
}

// withField returns a call with one more argument, which the server does not know.
func withField(call, value []byte) []byte {
	const typeString, id = 11, 99
	call = append(call[:len(call)-1], typeString, 0, id) // the byte that goes ends the arguments
	call = append(binary.BigEndian.AppendUint32(call, uint32(len(value))), value...)
	call = append(call, 0)
	binary.BigEndian.PutUint32(call, uint32(len(call)-4))
	return call
}

// TestEveryCommandHasARow tests that the tables above, and those of what commands need, have every command of every
// protocol. One that is added is not allowed to any user, and fails here.
func TestEveryCommandHasARow(t *testing.T) {
	for op := memcache.OpGet; op.String() != "unknown"; op++ {
		if len(memcacheRows[op]) == 0 || memcacheNeeds[op].scope == 0 {
			t.Errorf("memcache %v has no row in the tables of rights", op)
		}
	}
	for op := text.OpPut; op.String() != "unknown"; op++ {
		if len(textRows[op]) == 0 || textNeeds[op].scope == 0 {
			t.Errorf("text %v has no row in the tables of rights", op)
		}
	}
	rows := thriftRows()
	for method := thrift.MethodPut; method.String() != "unknown"; method++ {
		if len(rows[method]) == 0 || thriftNeeds[method].scope == 0 {
			t.Errorf("thrift %v has no row in the tables of rights", method)
		}
	}
}

// rightsFor returns the users of a row: one with what it needs and nothing else, and one with everything else.
// Both have the right also, if there is one.
func rightsFor(t *testing.T, verb, also string) []*access.User {
	var rest []string
	for _, v := range []string{"put", "get", "peek", "manage", "stats", "operate"} {
		name, pattern, _ := strings.Cut(verb, " ")
		switch {
		case v != name && v == "operate":
			rest = append(rest, v)
		case v != name:
			rest = append(rest, v+" *")
		case v == "stats" && pattern != "*": // any queue would do
		case pattern == "*":
			rest = append(rest, v+" work*", v+" a*", v+" secret")
		case pattern != "":
			rest = append(rest, v+" "+strings.ToUpper(pattern), v+" "+pattern+"?", v+" other*")
		}
	}
	allowed := grants(t, "allowed")
	if verb != "" {
		allowed = grants(t, "allowed", verb)
	}
	users := []*access.User{allowed, grants(t, "denied", rest...)}
	if also != "" {
		for _, u := range users {
			u.Allow = append(u.Allow, grants(t, "", also).Allow...)
		}
	}
	return users
}

// refusalOf is what somebody without a right gets for an answer.
func refusalOf(verb string) string {
	name, pattern, _ := strings.Cut(verb, " ")
	switch {
	case name == "operate":
		return "not allowed: operate"
	case name == "stats", pattern == "*":
		return "not allowed: " + name + " on all queues"
	}
	return "not allowed: " + name + " on " + pattern
}

// TestRightsMemcache asks for every command over a socket, as everybody in who.
func TestRightsMemcache(t *testing.T) {
	rs := startRights(t, Options{}, grants(t, "allowed"))
	for op, rows := range memcacheRows {
		for _, row := range rows {
			rs.checker.SetUsers(usersOf(t, rightsFor(t, row.verb, row.also)...))
			for _, w := range who {
				c := rs.dial(rs.MemcacheAddr())
				if w.name != "" {
					want := "STORED"
					if !w.know {
						want = "CLIENT_ERROR authentication failure"
					}
					data := w.name + " " + w.password
					if got := c.line(fmt.Sprintf("set x 0 0 %d\r\n%s\r\n", len(data), data)); got != want {
						t.Fatalf("%s with %s: %s, want %s", w.name, w.password, got, want)
					}
				}
				got := c.line(row.request)
				switch {
				case op == memcache.OpQuit:
					if got != "EOF" {
						t.Errorf("%.40q as %q: %s, want the end", row.request, w.name, got)
					}
				case !w.know && op == memcache.OpSet && len(row.request) < 100: // a SET says who one is
					if got != "CLIENT_ERROR authentication failure" {
						t.Errorf("%.40q as %q %q: %s", row.request, w.name, w.password, got)
					}
				case !w.know:
					if got != "CLIENT_ERROR unauthenticated" {
						t.Errorf("%.40q as %q %q: %s", row.request, w.name, w.password, got)
					}
				case row.verb == "" || w.may:
					if strings.Contains(got, "not allowed") || strings.Contains(got, "authenti") || row.fatal != (got == "EOF") {
						t.Errorf("%.40q as %q: %s, and it is allowed", row.request, w.name, got)
					}
				case got != "CLIENT_ERROR "+refusalOf(row.verb):
					t.Errorf("%.40q as %q: %s, and it is not allowed", row.request, w.name, got)
				}
				c.Close()
			}
		}
	}
}

func TestRightsText(t *testing.T) {
	rs := startRights(t, Options{}, grants(t, "allowed"))
	for op, rows := range textRows {
		for _, row := range rows {
			rs.checker.SetUsers(usersOf(t, rightsFor(t, row.verb, row.also)...))
			for _, w := range who {
				c := rs.dial(rs.TextAddr())
				if w.name != "" {
					want := "+0"
					if !w.know {
						want = "-authentication failure"
					}
					if got := c.line("auth " + w.name + " " + w.password + "\n"); got != want {
						t.Fatalf("%s with %s: %s, want %s", w.name, w.password, got, want)
					}
				}
				got := c.line(row.request)
				switch {
				case op == text.OpQuit, op == text.OpAuth:
					if want := map[text.Op]string{text.OpQuit: "EOF", text.OpAuth: "-User & password required."}[op]; got != want {
						t.Errorf("%q as %q: %s, want %s", row.request, w.name, got, want)
					}
				case !w.know:
					if got != "-unauthenticated" {
						t.Errorf("%q as %q: %s", row.request, w.name, got)
					}
				case row.verb == "" || w.may:
					if strings.Contains(got, "not allowed") || strings.Contains(got, "authenti") {
						t.Errorf("%q as %q: %s, and it is allowed", row.request, w.name, got)
					}
				case got != "-"+refusalOf(row.verb):
					t.Errorf("%q as %q: %s, and it is not allowed", row.request, w.name, got)
				}
				c.Close()
			}
		}
	}
}

// call makes a Thrift call and returns the exception in the reply; "" for none.
func (c *rightsClient) call(frame []byte) string {
	c.t.Helper()
	c.Write(frame)
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return "EOF"
	}
	reply := append(size[:], make([]byte, binary.BigEndian.Uint32(size[:]))...)
	if _, err := io.ReadFull(c.r, reply[4:]); err != nil {
		return "EOF"
	}
	var r thrift.Reply
	if _, err := (thrift.Client{Upgraded: isUpgraded(reply)}).DecodeReply(reply, &r); err != nil {
		return err.Error()
	}
	return string(r.Message)
}

func TestRightsThrift(t *testing.T) {
	rs := startRights(t, Options{}, grants(t, "allowed"))
	for method, rows := range thriftRows() {
		for _, row := range rows {
			rs.checker.SetUsers(usersOf(t, rightsFor(t, row.verb, "")...))
			for _, w := range who {
				c := rs.dial(rs.ThriftAddr())
				if w.name != "" {
					auth := thrift.Client{}.AppendAuthenticate(nil, 1, []byte(w.name), []byte(w.password))
					if got := c.call(auth); (got == "") != w.know || !w.know && !strings.Contains(got, "authentication failure") {
						t.Fatalf("%s with %s: %s", w.name, w.password, got)
					}
				}
				got := c.call(row.call)
				switch {
				case method == thrift.MethodUpgrade:
				case method == thrift.MethodAuthenticate:
					if !strings.Contains(got, "authentica") {
						t.Errorf("%v as %q: %q", method, w.name, got)
					}
				case !w.know && len(row.call) > largeCall:
					if got != "EOF" { // nobody may announce so much
						t.Errorf("%v of %d bytes as %q: %q, want the end", method, len(row.call), w.name, got)
					}
				case !w.know:
					if !strings.Contains(got, "unauthenticated") {
						t.Errorf("%v as %q: %q", method, w.name, got)
					}
				case row.verb == "" || w.may:
					if strings.Contains(got, "not allowed") || strings.Contains(got, "authenti") {
						t.Errorf("%v as %q: %q, and it is allowed", method, w.name, got)
					}
				case !strings.Contains(got, "'"+refusalOf(row.verb)+"'"):
					t.Errorf("%v as %q: %q, and it is not allowed", method, w.name, got)
				}
				c.Close()
			}
		}
	}
}

// login returns a connection of the memcache protocol that is a user's.
func (rs *rightsServer) login(name string) *rightsClient {
	rs.t.Helper()
	c := rs.dial(rs.MemcacheAddr())
	data := name + " right"
	if got := c.line(fmt.Sprintf("set x 0 0 %d\r\n%s\r\n", len(data), data)); got != "STORED" {
		rs.t.Fatalf("login as %s: %s", name, got)
	}
	return c
}

// all sends a request and returns the reply up to its line END.
func (c *rightsClient) all(request string) string {
	c.t.Helper()
	io.WriteString(c, request)
	var b strings.Builder
	for {
		line, err := c.r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "END\r\n" {
			return b.String()
		}
	}
}

// TestHiddenNames tests everything that a user can ask for. No reply names a queue that the user may not see, or adds
// its items to a sum.
func TestHiddenNames(t *testing.T) {
	rs := startRights(t, Options{}, grants(t, "alice", "stats work", "stats work+audit", "stats all", "get work"),
		grants(t, "root", "stats *"))
	for _, request := range []string{"stats\r\n", "dump_stats\r\n", "dump_config\r\n", "dump_config work all\r\n", "dump_stats work all\r\n"} {
		if got := rs.login("root").all(request); !strings.Contains(got, "secret") {
			t.Errorf("%q shows nothing of it to root: %s", request, got)
		}
		got := rs.login("alice").all(request)
		if !strings.Contains(got, "work") || strings.Contains(got, "secret") {
			t.Errorf("%q shows too much or too little: %s", request, got)
		}
		if request == "stats\r\n" && (!strings.Contains(got, "STAT curr_items 2\r\n") || strings.Contains(got, "total_items 4")) {
			t.Errorf("sums: %s", got)
		}
	}
	for _, request := range []string{"dump_stats secret\r\n", "dump_config secret\r\n"} {
		hidden := rs.login("alice").all(request)
		absent := rs.login("alice").all(strings.ReplaceAll(request, "secret", "absent"))
		if strings.ReplaceAll(hidden, "secret", "absent") != absent {
			t.Errorf("%q: %q, and of a queue that there is not %q", request, hidden, absent)
		}
	}
	c := rs.login("alice")
	if hidden, absent := c.line("get secret\r\n"), c.line("get absent\r\n"); strings.ReplaceAll(hidden, "secret", "absent") != absent {
		t.Errorf("get of a hidden queue: %q, and of one that there is not %q", hidden, absent)
	}
	if got := rs.Counters().Denied; got == 0 {
		t.Error("refusals are not counted")
	}
}

// TestReidentify tests what a reload of users does to connections. New rights hold at once, waits that are not allowed
// any more end, and users that are gone are cut off.
func TestReidentify(t *testing.T) {
	rs := startRights(t, Options{}, grants(t, "alice", "get *", "put *"), grants(t, "bob", "put *"))
	alice, waits, bob := rs.login("alice"), rs.login("alice"), rs.login("bob")
	if got := alice.line("get empty\r\n"); got != "END" {
		t.Errorf("get = %s", got)
	}
	io.WriteString(waits, "get empty/t=60000\r\n")
	for deadline := time.Now().Add(20 * time.Second); ; {
		if q, ok := rs.engine.QueueStats(engine.Now(), []byte("empty")); ok && q.Waiters == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
	several := rs.login("alice")
	io.WriteString(several, "get other/or=empty/t=60000\r\n")
	for deadline := time.Now().Add(20 * time.Second); ; {
		if q, ok := rs.engine.QueueStats(engine.Now(), []byte("empty")); ok && q.Waiters == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for two queues")
		}
	}
	rs.checker.SetUsers(usersOf(t, grants(t, "alice", "get other"), grants(t, "bob", "put *")))
	rs.Reidentify()
	if got := several.line(""); got != "END" {
		t.Errorf("a wait for two queues, one of which is not allowed any more, ends with %s", got)
	}
	rs.checker.SetUsers(usersOf(t, grants(t, "alice", "put w*")))
	rs.Reidentify()
	if got := waits.line(""); got != "END" {
		t.Errorf("a wait that is not allowed any more ends with %s", got)
	}
	if got := alice.line("get empty\r\n"); got != "CLIENT_ERROR not allowed: get on empty" {
		t.Errorf("a right that is gone: %s", got)
	}
	if got := alice.line("set work 0 0 1\r\nx\r\n"); got != "STORED" {
		t.Errorf("a right that is left: %s", got)
	}
	if got := bob.line("version\r\n"); got != "EOF" {
		t.Errorf("a user that is gone: %s, want the end", got)
	}
}

// TestUnknownPeers tests what a peer can cost that does not say who it is: so many requests, and so many bytes. The
// server keeps nothing that it sends, and runs none of it.
func TestUnknownPeers(t *testing.T) {
	rs := startRights(t, Options{}, grants(t, "alice", "put *"))
	if got := rs.dial(rs.MemcacheAddr()).line("version\r\n"); got != "CLIENT_ERROR unauthenticated" || len(refusedBy(rs.Server)) > 0 {
		t.Errorf("who asks whether to authenticate gets %q, and refusals are %v; want none", got, refusedBy(rs.Server))
	}
	c := rs.dial(rs.MemcacheAddr())
	io.WriteString(c, strings.Repeat("get work\r\n", 100))
	out, _ := io.ReadAll(c.r)
	if got := strings.Count(string(out), "CLIENT_ERROR unauthenticated\r\n"); got != maxStrikes {
		t.Errorf("%d requests were answered before the end, want %d", got, maxStrikes)
	}
	for _, tt := range []struct {
		addr net.Addr
		send string
	}{
		{rs.MemcacheAddr(), "set x 0 0 33554432\r\n" + strings.Repeat("x", 1<<20)},
		{rs.MemcacheAddr(), strings.Repeat("x", 1<<20)},
		{rs.MemcacheAddr(), "set x 0 0 2000\r\n" + strings.Repeat("x", 1999)},
		{rs.TextAddr(), "put work:\n" + strings.Repeat("x", 1<<20)},
		{rs.TextAddr(), strings.Repeat("x", 1<<20)},
		{rs.ThriftAddr(), "\x02\x00\x00\x00" + strings.Repeat("x", 1<<20)},
		{rs.ThriftAddr(), "\x00\x00\x0f\xff" + strings.Repeat("\x80", 4000)},
	} {
		c := rs.dial(tt.addr)
		io.WriteString(c, tt.send)
		c.Conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c.r)
		if got := rs.buffered.Load(); got != 0 { // TestUnknownBytes looks at it before the end
			t.Errorf("%.20q: %d bytes are kept behind the end", tt.send, got)
		}
	}
	if items := rs.engine.Stats().TotalItems; items != 4 {
		t.Errorf("%d items were put, want those of the start", items)
	}
	if rs.Counters().Unidentified == 0 {
		t.Error("peers that did not say who they are are not counted")
	}
}
