package admin

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/netloop"
)

// sniffAnswer is what /sniff answers.
type sniffAnswer struct {
	Seconds                 float64
	Requests, Beyond, Kinds int64
	Asked                   map[string]struct {
		Request, Queue, Client, Protocol string
		Requests                         int64
		Put_items, Put_bytes             int64
		Put_size_max                     int64
		Got_items, Got_bytes             int64
	}
}

// rows are the kinds of requests in words, those asked most first.
func (a sniffAnswer) rows() (rows []string) {
	for i := range len(a.Asked) {
		k := a.Asked[fmt.Sprint(i+1)]
		rows = append(rows, strings.TrimSpace(fmt.Sprintf("%s %s %d: put %d %d, got %d %d; %s %s",
			k.Request, k.Queue, k.Requests, k.Put_items, k.Put_bytes, k.Got_items, k.Got_bytes, k.Client, k.Protocol)))
	}
	return rows
}

// sniffed has clients ask so many requests while /sniff listens, and returns what it answers. It listens longer if
// that was not long enough.
func (tt *tester) sniffed(query string, requests int64, ask func()) (a sniffAnswer) {
	tt.t.Helper()
	for seconds := 0.1; ; seconds *= 2 {
		var heard answer
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for heard.code = http.StatusConflict; heard.code == http.StatusConflict; { // the look below listens, too
				heard = tt.get(fmt.Sprintf("/sniff.json?seconds=%g&%s", seconds, query))
			}
		}()
		for begun := false; !begun; { // until it listens; on a busy machine it may end before a look finds it
			begun = tt.get("/sniff?seconds=0.000001").code == http.StatusConflict
			select {
			case <-ended:
				begun = true
			default:
			}
		}
		ask()
		<-ended
		a = sniffAnswer{}
		if err := json.Unmarshal([]byte(heard.body), &a); err != nil {
			tt.t.Fatalf("%v: %s", err, heard.body)
		}
		if a.Requests >= requests || seconds > testDeadline.Seconds()/2 {
			return a
		}
	}
}

// TestSniff listens to clients: what they ask is counted by queue and client, with the sizes of items.
func TestSniff(t *testing.T) {
	t.Parallel()
	tt := start(t, Options{}, netloop.Options{MaxOpenReads: 10}, defaults())
	addr := tt.server.MemcacheAddr().String()
	ask := func() {
		c := dial(t, addr)
		c.send("set work 0 0 1\r\nx\r\nset work 0 0 5\r\nxxxxx\r\nset mail\xe9 0 0 2\r\nab\r\nget work\r\nget work\r\nget work\r\nget none\r\n" +
			"set large 0 0 300000\r\n" + strings.Repeat("x", 300000) + "\r\nget work/peek\r\nversion\r\n")
		c.wants("VERSION " + netloop.Version)
	}
	ask() // nobody listens yet
	const client = "; 127.0.0.1 memcache"
	a := tt.sniffed("", 10, ask)
	want := []string{
		"get work 4: put 0 0, got 2 6" + client,
		"set work 2: put 2 6, got 0 0" + client,
		"version  1: put 0 0, got 0 0" + client,
		"set large 1: put 1 300000, got 0 0" + client,
		"set mailé 1: put 1 2, got 0 0" + client,
		"get none 1: put 0 0, got 0 0" + client,
	}
	got := a.rows()
	for _, rows := range [][]string{got, want} {
		slices.Sort(rows)
	}
	if !slices.Equal(got, want) || a.Requests != 10 || a.Kinds != 6 || a.Beyond != 0 || a.Seconds < 0.1 {
		t.Errorf("sniffed %+v\n%s\nwant\n%s", a, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	a = tt.sniffed("by=client&queue=w*&queue=l*&limit=1", 7, ask)
	if got := a.rows(); a.Kinds != 2 || len(got) != 1 || got[0] != "get  4: put 0 0, got 2 6"+client {
		t.Errorf("by client: %q, %d kinds", got, a.Kinds)
	}
}

// text is a string as Thrift has it: its length in four bytes, and itself.
func text(s string) string { return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s }

// call makes a call of Thrift, in a frame, and waits for its reply.
func (c *client) call(method, args string) {
	c.t.Helper()
	c.send(text("\x80\x01\x00\x01" + text(method) + "\x00\x00\x00\x01" + args))
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		c.t.Fatal(err)
	}
	reply := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.in, reply); err != nil || !strings.HasPrefix(string(reply), "\x80\x01\x00\x02") {
		c.t.Fatalf("%s is answered by %q, %v", method, reply, err)
	}
}

// TestSniffProtocols listens to clients of the other protocols. Of Burrow, whose items leave in lists, what is got is
// not counted.
func TestSniffProtocols(t *testing.T) {
	t.Parallel()
	const free = "127.0.0.1:0"
	tt := start(t, Options{}, netloop.Options{MaxOpenReads: 10, Text: free, Thrift: free, Burrow: free}, defaults())
	for _, p := range []struct {
		name     string
		requests int64
		ask      func()
		want     []string
	}{
		{"text", 4, func() {
			c := dial(t, tt.server.TextAddr().String())
			c.send("put lines:\nab\nc\n\nget lines\nget lines\nget lines\n")
			c.wants("*")
		}, []string{"put lines 1: put 2 3, got 0 0", "get lines 3: put 0 0, got 2 3"}},
		{"thrift", 2, func() {
			c := dial(t, tt.server.ThriftAddr().String())
			c.call("put", "\x0b\x00\x01"+text("calls")+"\x0f\x00\x02\x0b\x00\x00\x00\x02"+text("abcd")+text("e")+"\x08\x00\x03\x00\x00\x00\x00\x00")
			c.call("get", "\x0b\x00\x01"+text("calls")+"\x08\x00\x02\x00\x00\x00\x05\x08\x00\x03\x00\x00\x00\x00\x08\x00\x04\x00\x00\x00\x00\x00")
		}, []string{"put calls 1: put 2 5, got 0 0", "get calls 1: put 0 0, got 2 5"}},
		{"burrow", 3, func() {
			url := "http://" + tt.server.BurrowAddr().String() + "/v1.0/acme/resize/"
			for _, request := range []struct{ method, id string }{{"PUT", "a"}, {"GET", "a"}, {"GET", "a"}} {
				req, err := http.NewRequest(request.method, url+request.id, strings.NewReader("cat.png"))
				if err != nil {
					t.Fatal(err)
				}
				if got := tt.send(req); got.code >= 300 {
					t.Errorf("%s = %+v", request.method, got)
				}
			}
		}, []string{"create_message acme/resize 1: put 1 7, got 0 0", "get_message acme/resize 2: put 0 0, got 0 0"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			got := tt.sniffed("", p.requests, p.ask).rows()
			for i, row := range got {
				got[i] = strings.TrimSuffix(row, "; 127.0.0.1 "+p.name)
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(p.want))
			if !slices.Equal(got, want) {
				t.Errorf("sniffed %q, want %q", got, want)
			}
		})
	}
}

// TestSniffMisuse asks for what cannot be, and goes before the time is over: then the next may listen.
func TestSniffMisuse(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	const wrong = "error processing command: "
	for query, want := range map[string]string{
		"seconds=0":   `seconds: want a number above 0, up to 300, have "0"`,
		"seconds=NaN": `seconds: want a number above 0, up to 300, have "NaN"`,
		"seconds=301": `seconds: want a number above 0, up to 300, have "301"`,
		"limit=0":     `limit: want a number from 1 to 10000, have "0"`,
		"by=size":     `by: "size" is none of all, queue, client`,
		"queue=[":     `queue: "[" is no pattern`,
	} {
		tt.expect("/sniff.txt?"+query, 400, wrong+want+"\n")
	}
	impatient := *tt.client
	impatient.Timeout = 50 * time.Millisecond
	if _, err := impatient.Get(tt.base + "/sniff?seconds=300"); err == nil {
		t.Fatal("an answer came at once")
	}
	for tt.get("/sniff?seconds=0.001").code != 200 { // until its end was noticed
	}
}
