package netloop

import (
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// connectionStats asks for STATS CONNECTIONS and returns its entries.
func connectionStats(t *testing.T, p *peer) map[string]string {
	t.Helper()
	p.send("stats connections\r\n")
	got := make(map[string]string)
	for {
		line, err := p.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		words := strings.SplitN(strings.TrimRight(line, "\r\n"), " ", 3)
		if words[0] == "END" {
			return got
		}
		if len(words) != 3 || words[0] != "STAT" {
			t.Fatalf("line %q", line)
		}
		got[words[1]] = words[2]
	}
}

// TestStatsNames tests that STATS has a queue's name as clients send it, an ESC in it included.
func TestStatsNames(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := dial(t, startServer(t, eventLoop, Options{Loops: 1}, unsynced()))
		p.send("set a\x1b[31m\xe9 0 0 1\r\nx\r\nstats\r\n")
		found := false
		for line := ""; line != "END\r\n"; {
			var err error
			if line, err = p.r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			found = found || line == "STAT queue_a\x1b[31m\xe9_items 1\r\n"
		}
		if !found {
			t.Error("STATS lacks the items of a queue with an ESC in its name")
		}
	})
}

// TestStatsConnections tests what STATS CONNECTIONS says of a client that holds items, of one that waits, and of the
// one that asks. It lists no more than DefaultConnections.
func TestStatsConnections(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		s := startServer(t, eventLoop, Options{Loops: 2, MaxOpenReads: 10}, unsynced())
		holder, waiter, asker := dial(t, s), dial(t, s), dial(t, s)
		holder.send("set q 0 0 1\r\nx\r\nset q 0 0 1\r\ny\r\nget q/open\r\nget q/open\r\n")
		holder.expect("STORED\r\nSTORED\r\nVALUE q 0 1\r\nx\r\nEND\r\nVALUE q 0 1\r\ny\r\nEND\r\n")
		waiter.send("version\r\n")
		waiter.expect("VERSION " + Version + "\r\n")
		waiter.send("get none/t=60000\r\n")
		numbers := make(map[string]string) // of the connections, by peer
		var got map[string]string
		for numbers[waiter.LocalAddr().String()] == "" || got[numbers[waiter.LocalAddr().String()]+":waiting"] == "" {
			got = connectionStats(t, asker)
			for name, value := range got {
				if number, ok := strings.CutSuffix(name, ":peer"); ok {
					numbers[value] = number
				}
			}
		}
		if got["connections"] != "3" || len(numbers) != 3 {
			t.Errorf("%s connections, listed %v", got["connections"], numbers)
		}
		n := numbers[holder.LocalAddr().String()]
		for name, want := range map[string]string{
			"protocol": "memcache", "open_reads": "2", "open_reads:q": "2", "requests": "4", "unread_bytes": "0",
			"received_bytes": strconv.Itoa(len("set q 0 0 1\r\nx\r\n")*2 + len("get q/open\r\n")*2),
		} {
			if got[n+":"+name] != want {
				t.Errorf("%s of the holder is %q, want %q", name, got[n+":"+name], want)
			}
		}
		if !regexp.MustCompile(`^\d+$`).MatchString(got[n+":oldest_open_read:q"]) {
			t.Errorf("the holder's oldest open read is of %q ms", got[n+":oldest_open_read:q"])
		}
		if w := got[numbers[waiter.LocalAddr().String()]+":waiting"]; w != "none" {
			t.Errorf("the waiter waits for %q", w)
		}
		for _, number := range numbers {
			for _, name := range []string{"age", "idle"} {
				if !regexp.MustCompile(`^\d+$`).MatchString(got[number+":"+name]) {
					t.Errorf("%s of %s is %q", name, number, got[number+":"+name])
				}
			}
		}
	})
}

// TestStatsConnectionsBounded has more connections than are listed.
func TestStatsConnectionsBounded(t *testing.T) {
	s := startServer(t, DefaultEventLoop, Options{}, unsynced())
	const conns = DefaultConnections + 5
	var last *peer
	for range conns {
		last = dial(t, s)
		last.send("version\r\n")
		last.expect("VERSION " + Version + "\r\n")
	}
	got := connectionStats(t, last)
	listed := 0
	for name := range got {
		if strings.HasSuffix(name, ":peer") {
			listed++
		}
	}
	if got["connections"] != fmt.Sprint(conns) || listed != DefaultConnections {
		t.Errorf("%s connections, %d listed", got["connections"], listed)
	}
}

// TestStatsConnectionsDenied tests that only a user who operates the server and sees all statistics learns of other
// clients.
func TestStatsConnectionsDenied(t *testing.T) {
	rs := startRights(t, Options{}, grants(t, "one", "stats work", "operate"), grants(t, "all", "stats *", "get *"),
		grants(t, "both", "stats *", "operate"))
	for user, want := range map[string]string{
		"one": "CLIENT_ERROR not allowed: stats on all queues", "all": "CLIENT_ERROR not allowed: operate",
		"both": "STAT connections 1",
	} {
		c := rs.login(user)
		if got := c.line("stats connections\r\n"); got != want {
			t.Errorf("%s got %q, want %q", user, got, want)
		}
		c.Close()
		for rs.Connections() > 0 {
			runtime.Gosched()
		}
	}
}
