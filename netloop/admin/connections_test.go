package admin

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/netloop"
)

// client is a connection of the memcache protocol.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(request string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(request)); err != nil {
		c.t.Fatal(err)
	}
}

// wants reads lines until one is want.
func (c *client) wants(want string) {
	c.t.Helper()
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatalf("wait for %q: %v", want, err)
		}
		if strings.TrimRight(line, "\r\n") == want {
			return
		}
	}
}

// connectionsAnswer is what /connections answers.
type connectionsAnswer struct {
	Matched     int
	Connections map[string]struct {
		Peer, Protocol, Waiting string
		Requests, Open_reads    int64
		Received_bytes          int64
		Sent_bytes              int64
		Open_reads_by_queue     map[string]int64

		Oldest_open_read          int64
		Oldest_open_read_by_queue map[string]int64
	}
	Leases map[string]struct {
		Connection, Leases, Oldest int64
		Peer, Protocol, Client_id  string
	}
}

func (tt *tester) connections(query string) (a connectionsAnswer) {
	tt.t.Helper()
	if err := json.Unmarshal([]byte(tt.get("/connections.json?"+query).body), &a); err != nil {
		tt.t.Fatal(err)
	}
	return a
}

// number returns the number of the one connection that a query finds.
func (tt *tester) number(query string) string {
	tt.t.Helper()
	a := tt.connections(query)
	if a.Matched != 1 || len(a.Connections) != 1 {
		tt.t.Fatalf("/connections?%s = %+v, want one connection", query, a)
	}
	for n := range a.Connections {
		return n
	}
	return ""
}

// TestConnections asks who is connected, who holds items, and ends both by hand.
func TestConnections(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{MaxOpenReads: 10}, defaults())
	for range 3 {
		tt.put("work", "item")
	}
	addr := tt.server.MemcacheAddr().String()
	holder, waiter, other := dial(t, addr), dial(t, addr), dial(t, addr)
	holder.send("get work/open\r\nget work/open\r\n")
	holder.wants("END")
	holder.wants("END")
	waiter.send("get mail/t=60000\r\n")
	other.send("version\r\n")
	other.wants("VERSION " + netloop.Version)
	for len(tt.connections("queue=mail").Connections) == 0 { // until the wait has begun
	}

	a := tt.connections("order=open")
	if a.Matched != 3 {
		t.Fatalf("connections = %+v, want 3", a)
	}
	held := a.Connections[tt.number("queue=work")]
	if held.Peer != holder.conn.LocalAddr().String() || held.Protocol != "memcache" || held.Requests != 2 ||
		held.Open_reads != 2 || held.Open_reads_by_queue["work"] != 2 || held.Received_bytes != 30 ||
		held.Sent_bytes != 54 || held.Waiting != "" {
		t.Errorf("the connection that holds items = %+v", held)
	}
	if w := a.Connections[tt.number("queue=mail")]; w.Waiting != "mail" || w.Open_reads != 0 {
		t.Errorf("the connection that waits = %+v", w)
	}
	if a := tt.connections("limit=1&order=sent"); a.Matched != 3 || len(a.Connections) != 1 {
		t.Errorf("the first of all = %+v", a)
	}

	tt.expectPost("/connections.txt?return_reads="+tt.number("queue=work"), 200, "ok\n")
	other.send("get work/open\r\n")
	other.wants("END")
	if got := tt.connections("queue=work").Connections[tt.number("queue=work")]; got.Open_reads != 1 {
		t.Errorf("after the reads were given back, %+v holds items", got)
	}
	tt.expectPost("/connections.txt?end="+tt.number("queue=work"), 200, "ok\n")
	if _, err := other.in.ReadByte(); err == nil {
		t.Error("a connection that was ended sends something")
	}
	for tt.connections("").Matched != 2 { // until its end was noticed
	}
	holder.send("get work\r\nget work\r\nget work\r\n") // nothing was lost
	for range 3 {
		holder.wants("item")
	}
}

// TestOldestHolder has two connections that hold items of a queue. With order=oldest, the list begins with the one
// that has held an item for longer, and says for how long. It holds fewer, so it is not the first by default.
func TestOldestHolder(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{MaxOpenReads: 10}, defaults())
	for range 4 {
		tt.put("work", "item")
	}
	tt.put("mail", "item")
	addr := tt.server.MemcacheAddr().String()
	first, many, none := dial(t, addr), dial(t, addr), dial(t, addr)
	none.send("version\r\n")
	none.wants("VERSION " + netloop.Version)
	many.send("get mail/open\r\n") // the oldest of all, and none of the queue that is asked for
	many.wants("END")
	for tt.connections("").Connections[tt.number("queue=mail")].Oldest_open_read < 5 { // ages are of whole ms
	}
	first.send("get work/open\r\n")
	first.wants("END")
	for tt.connections("").Connections[tt.number("queue=work")].Oldest_open_read < 5 {
	}
	many.send("get work/open\r\nget work/open\r\n")
	many.wants("END")
	many.wants("END")
	numbers := func(query string) (peers []string) {
		t.Helper()
		for _, c := range tt.connections(query).Connections {
			peers = append(peers, c.Peer)
		}
		return peers
	}
	for _, q := range []struct {
		query string
		want  *client
	}{
		{"queue=work&order=open&limit=1", many}, {"queue=work&order=oldest&limit=1", first},
		{"order=oldest&limit=1", many},
	} {
		if got := numbers(q.query); !slices.Equal(got, []string{q.want.conn.LocalAddr().String()}) {
			t.Errorf("/connections?%s lists %v, want %v", q.query, got, q.want.conn.LocalAddr())
		}
	}
	for _, c := range tt.connections("queue=mail").Connections {
		work, mail := c.Oldest_open_read_by_queue["work"], c.Oldest_open_read_by_queue["mail"]
		if mail < 5 || mail <= work || c.Oldest_open_read != mail {
			t.Errorf("a connection holds items for %+v", c)
		}
	}
	many.send("get mail/abort\r\n")
	many.wants("END")
	if a := tt.connections("queue=mail"); a.Matched != 0 {
		t.Errorf("after its abort a connection is among %+v", a)
	}
}

// TestLeaseHolders: items that a Thrift client has got are held by that client, even when it has gone.
func TestLeaseHolders(t *testing.T) {
	free := "127.0.0.1:0"
	tt := start(t, Options{}, netloop.Options{MaxOpenReads: 10, Thrift: free}, defaults())
	for range 3 {
		tt.put("work", "item")
	}
	c := dial(t, tt.server.ThriftAddr().String())
	peer := c.conn.LocalAddr().String()
	c.call("get", "\x0b\x00\x01"+text("work")+"\x08\x00\x02\x00\x00\x00\x02"+"\x08\x00\x03\x00\x00\x00\x00"+
		"\x08\x00\x04\x00\x00\xea\x60"+"\x00")
	check := func(when string) {
		t.Helper()
		a := tt.connections("queue=work")
		if l := a.Leases["1"]; len(a.Leases) != 1 || l.Peer != peer || l.Protocol != "thrift" || l.Leases != 2 || l.Connection == 0 {
			t.Errorf("%s: leases = %+v, want 2 of %s", when, a.Leases, peer)
		}
	}
	check("connected")
	c.conn.Close()
	for tt.connections("").Matched > 0 {
	}
	check("gone")
	if a := tt.connections("queue=none"); a.Leases == nil || len(a.Leases) != 0 {
		t.Errorf("leases of a queue that does not exist = %+v", a.Leases)
	}
}

// TestConnectionsRefused asks for what there is not.
func TestConnectionsRefused(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	const wrong = "error processing command: "
	tt.expect("/connections.txt?order=size", 400,
		wrong+`order: "size" is none of open, oldest, age, idle, requests, received, sent, unread`+"\n")
	tt.expect("/connections.txt?limit=0", 400, wrong+`limit: want a number from 1 to 10000, have "0"`+"\n")
	tt.expectPost("/connections.txt", 400, wrong+"want end=NUMBER or return_reads=NUMBER\n")
	tt.expectPost("/connections.txt?end=x", 400, wrong+`end: want the number of a connection, have "x"`+"\n")
	tt.expectPost("/connections.txt?end=99", 400, wrong+"end: no connection has the number 99; it may have ended\n")
	if a := tt.connections(""); a.Matched != 0 || len(a.Connections) != 0 {
		t.Errorf("connections = %+v, want none", a)
	}
}

// TestManyConnections lists more connections than are described at once.
func TestManyConnections(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	const n = 300
	for i := range n {
		c := dial(t, tt.server.MemcacheAddr().String())
		c.send(strings.Repeat("version\r\n", i%7+1))
		for range i%7 + 1 {
			c.wants("VERSION " + netloop.Version)
		}
	}
	a := tt.connections("limit=50&order=requests")
	if a.Matched != n || len(a.Connections) != 50 {
		t.Fatalf("%d of %d connections are listed, want 50 of %d", len(a.Connections), a.Matched, n)
	}
	var requests []int64
	for _, c := range a.Connections {
		requests = append(requests, c.Requests)
	}
	if least := slices.Min(requests); least < 6 {
		t.Errorf("a connection with %d requests is among the 50 with most", least)
	}
}
