package netloop

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
)

// TestRefusalLines has clients on two loops refused again and again. Of each kind the server logs one line a second, and
// those that count have the refusals of both loops.
func TestRefusalLines(t *testing.T) {
	over := grants(t, "over", "get *")
	over.Quota = access.Quota{Operations: 1}
	users := usersOf(t, grants(t, "alice", "put work"), over)
	for _, tt := range []struct {
		line    string // what it has
		proto   protocol
		user    string // "" for a client that nobody knows, "-" for one that may do everything
		request string
		counts  string // the key of the count; "" if how many are refused depends on time
		ends    bool   // the refusal ends the connection
	}{
		{"the user has no right to it", memcacheProtocol{}, "alice", "get work\r\n", "refused", false},
		{"the user has no right to it", burrowProtocol{}, "alice", "GET /v1.0/a/q HTTP/1.1\r\nHost: localhost\r\n\r\n", "refused", false},
		{"authentication failed", textProtocol{}, "", "auth alice wrong\n", "failed", false},
		{"the user is over its quota", textProtocol{}, "over", "peek work\npeek work\npeek work\n", "", false},
		{"the account is over its quota", burrowProtocol{}, "-", strings.Repeat("GET /v1.0/few/q HTTP/1.1\r\nHost: localhost\r\n\r\n", 4), "", false},
		{"reason=argument", memcacheProtocol{}, "-", "gets q/lease\r\n", "refused", false},
		{"not a call of the Thrift service", thriftProtocol{}, "-", "GET / HTTP/1.1\r\n\r\n", "", true},
		{"sends too far ahead", memcacheProtocol{}, "-", "get q/t=100000\r\n" + strings.Repeat("version\r\n", 150_000), "", true},
	} {
		t.Run(tt.line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(bytes.Buffer) // written by the goroutine of both loops, and read while nothing moves
				checker := access.NewChecker(users, access.Options{FreeFailures: 1000})
				ts := newTestServer(t, Options{
					Access: checker, Accounts: map[string]AccountQuota{"few": {Operations: 1}}, MaxItemSize: 64,
					Logger: slog.New(slog.NewJSONHandler(log, nil)),
				}, defaults())
				defer ts.stop()
				other := newLoop(ts.server)
				other.wake = func() { ts.events <- other.tick }
				defer ts.do(func() { other.alarm.stop() })
				dial := func(l *loop) *testClient {
					c := &testClient{ts: ts}
					c.session.proto, c.session.sink, c.session.loop, c.session.local = tt.proto, c, l, true
					c.session.id.unknown, c.session.id.port = tt.user == "", &listener{}
					ts.do(func() {
						ts.server.connections.Add(1)
						l.begin()
						l.open(&c.session)
						if u := users.Named(tt.user); u != nil {
							if err := c.session.become(u); err != nil {
								t.Error(err)
							}
						}
						l.tick()
					})
					return c
				}
				clients := []*testClient{dial(ts.loop), dial(other)}
				sent := 0
				for second := 1; second <= 2; second++ {
					for range 3 {
						for i := range clients {
							if _, ended := clients[i].received(); ended {
								clients[i] = dial(clients[i].session.loop)
							}
							clients[i].feed([]byte(tt.request), 1<<20)
							synctest.Wait() // for jobs
							if _, ended := clients[i].received(); ended != tt.ends {
								t.Fatalf("the connection has ended: %t, want %t", ended, tt.ends)
							}
						}
						sent += len(clients)
					}
					lines := linesWith(log.String(), tt.line)
					if len(lines) != second {
						t.Fatalf("in second %d the log has %d lines, want %d:\n%s", second, len(lines), second, log)
					}
					if second == 1 {
						<-time.After(logInterval)
						continue
					}
					var entry map[string]any
					if err := json.Unmarshal([]byte(lines[1]), &entry); err != nil {
						t.Fatal(err)
					}
					if want := float64(sent/2 + 1); tt.counts != "" && entry[tt.counts] != want {
						t.Errorf("the second line counts %v, want %v: %s", entry[tt.counts], want, lines[1])
					}
				}
				for _, c := range clients {
					if _, ended := c.received(); !ended {
						ts.do(func() {
							c.session.loop.endSession(&c.session, true)
							ts.server.connections.Add(-1)
							c.session.loop.tick()
						})
					}
				}
			})
		})
	}
}

// linesWith returns the lines of a log that have a text: a message, or as key=value.
func linesWith(log, text string) (lines []string) {
	key, value, found := strings.Cut(text, "=")
	if found {
		text = `"` + key + `":"` + value + `"`
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}
