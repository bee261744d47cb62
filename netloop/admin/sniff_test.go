package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	for seconds := 0.5; ; seconds *= 2 {
		var heard answer
		var listening sync.WaitGroup
		listening.Go(func() {
			for heard.code = http.StatusConflict; heard.code == http.StatusConflict; { // the look below listens, too
				heard = tt.get(fmt.Sprintf("/sniff.json?seconds=%g&%s", seconds, query))
			}
		})
		for tt.get("/sniff?seconds=0.000001").code != http.StatusConflict { // until it listens
		}
		ask()
		listening.Wait()
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
	if !slices.Equal(got, want) || a.Requests != 10 || a.Kinds != 6 || a.Beyond != 0 || a.Seconds < 0.5 {
		t.Errorf("sniffed %+v\n%s\nwant\n%s", a, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	a = tt.sniffed("by=client&queue=w*&queue=l*&limit=1", 7, ask)
	if got := a.rows(); a.Kinds != 2 || len(got) != 1 || got[0] != "get  4: put 0 0, got 2 6"+client {
		t.Errorf("by client: %q, %d kinds", got, a.Kinds)
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
