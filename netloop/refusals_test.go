package netloop

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// refusalsTests are what one client of a server sends whose queues take one item of four bytes, and one key.
var refusalsTests = []struct {
	name  string
	proto protocol
	send  string
	want  map[string]int64 // refusals by protocol and reason
	puts  int64            // refused by queue q
}{
	{"full", memcacheProtocol{}, "set q 0 0 1\r\na\r\nset q 0 0 1\r\nb\r\nset q 0 0 1\r\nc\r\n", map[string]int64{"memcache full": 2}, 2},
	{"full, noreply", memcacheProtocol{}, "set q 0 0 1\r\na\r\nset q 0 0 1 noreply\r\nb\r\n", map[string]int64{"memcache full": 1}, 1},
	{"large", memcacheProtocol{}, "set q 0 0 5\r\nhello\r\n", map[string]int64{"memcache too_large": 1}, 1},
	{"larger than any", memcacheProtocol{}, "set q 0 0 65\r\n" + strings.Repeat("x", 65) + "\r\n", map[string]int64{"memcache too_large": 1}, 0},
	{"name", memcacheProtocol{}, "set a/b 0 0 1\r\na\r\n", map[string]int64{"memcache name": 1}, 0},
	{"name of the engine", memcacheProtocol{}, "set a.b 0 0 1\r\na\r\n", map[string]int64{"memcache name": 1}, 0},
	{"malformed", memcacheProtocol{}, "hello\r\n", map[string]int64{"memcache malformed": 1}, 0},
	{"reads", memcacheProtocol{}, "set q 0 0 1\r\na\r\nget q/open\r\nget q\r\n", map[string]int64{"memcache reads": 1}, 0},
	{"lease", memcacheProtocol{}, "gets q/lease\r\n", map[string]int64{"memcache argument": 1}, 0},
	{"lease that has ended", memcacheProtocol{}, "touch q/lease=77 10\r\n", map[string]int64{}, 0},
	{"key that exists", memcacheProtocol{}, "set q/key=k 0 0 1\r\na\r\nset q/key=k/new 0 0 1\r\nb\r\n", map[string]int64{}, 0},
	{"keys", memcacheProtocol{}, "set q/key=k 0 0 1\r\na\r\nset q/key=l 0 0 1\r\nb\r\n", map[string]int64{"memcache keys": 1}, 1},
	{"text full", textProtocol{}, "put q:\na\nb\n\n", map[string]int64{"text full": 1}, 1},
	{"text large", textProtocol{}, "put q:\nhello\na\n\n", map[string]int64{"text too_large": 1}, 1},
	{"text malformed", textProtocol{}, "hello\n", map[string]int64{"text malformed": 1}, 0},
	{"thrift full", thriftProtocol{}, string((&thrift.Client{}).AppendPut(nil, 1, []byte("q"), 0, []byte("a"), []byte("b"))), map[string]int64{"thrift full": 1}, 1},
	{"thrift name", thriftProtocol{}, string((&thrift.Client{}).AppendPut(nil, 1, []byte("a.b"), 0, []byte("a"))), map[string]int64{"thrift name": 1}, 0},
	{"burrow malformed", burrowProtocol{}, "GET /v9 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", map[string]int64{"burrow malformed": 1}, 0},
	{"burrow batch in part", burrowProtocol{}, "POST /v1.1/default/q/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 42\r\n\r\n" +
		`{"messages":[{"body":"a"},{"body":"b"}]}  `, map[string]int64{"burrow full": 1}, 1},
	{"burrow large", burrowProtocol{}, "PUT /v1.0/default/q/m HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nhello", map[string]int64{"burrow too_large": 1}, 1},
}

// refusalsServer is a server whose refusals a test provokes, and its log.
func refusalsServer(t *testing.T) (*testServer, *bytes.Buffer) {
	set := defaults()
	set.Default.MaxItems, set.Default.MaxItemSize, set.Default.MaxKeys = 1, 4, 1
	log := new(bytes.Buffer) // written by the loop alone, and read while nothing moves
	return newTestServer(t, Options{MaxItemSize: 64, Logger: slog.New(slog.NewTextHandler(log, nil))}, set), log
}

// refusedBy returns the refusals that are not 0, by protocol and reason.
func refusedBy(s *Server) map[string]int64 {
	got := make(map[string]int64)
	r := s.Refusals()
	r.Each(func(protocol, reason string, n int64) {
		if n > 0 {
			got[protocol+" "+reason] = n
		}
	})
	return got
}

// TestRefusalsCounted tests that each refusal is counted once, under its reason, and that STATS and the log say so.
func TestRefusalsCounted(t *testing.T) {
	for _, tt := range refusalsTests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, log := refusalsServer(t)
				c := ts.dial(tt.proto)
				c.feed([]byte(tt.send), 1<<20)
				if got := refusedBy(ts.server); !maps.Equal(got, tt.want) {
					out, _ := c.received()
					t.Errorf("refusals %v, want %v; the client got %q", got, tt.want, out)
				}
				if q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("q")); q.RefusedPuts != tt.puts {
					t.Errorf("the queue refused %d puts, want %d", q.RefusedPuts, tt.puts)
				}
				stats := ts.dial(memcacheProtocol{}).say("stats\r\n")
				lines := strings.Count(log.String(), `msg="request refused"`)
				for key, n := range tt.want {
					_, reason, _ := strings.Cut(key, " ")
					if line := fmt.Sprintf("STAT refused_%s %d\r\n", reason, n); !strings.Contains(stats, line) {
						t.Errorf("STATS lacks %q", line)
					}
					if !strings.Contains(log.String(), "reason="+reason+" ") {
						t.Errorf("the log lacks the reason %s:\n%s", reason, log)
					}
				}
				if lines != len(tt.want) {
					t.Errorf("%d lines of the log, want one for each reason:\n%s", lines, log)
				}
				ts.stop()
			})
		})
	}
}

// TestRefusalsOfServer tests the refusals that do not depend on what the client asks for. They come from the status,
// and from a disk that fails during a put.
func TestRefusalsOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts, _ := refusalsServer(t)
		ts.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 0, syscall.EIO))
		ts.closeError = func(error) {}
		c := ts.dial(memcacheProtocol{})
		if got := c.say("set q 0 0 1\r\na\r\n"); got != "SERVER_ERROR journal failed\r\n" {
			t.Errorf("with a disk that fails: %q", got)
		}
		if err := ts.server.SetStatus(ReadOnly); err != nil {
			t.Fatal(err)
		}
		if got := ts.dial(textProtocol{}).say("put q:\na\n\n"); !strings.HasPrefix(got, "-") {
			t.Errorf("a read-only server: %q", got)
		}
		want := map[string]int64{"memcache journal": 1, "text status": 1}
		if got := refusedBy(ts.server); !maps.Equal(got, want) {
			t.Errorf("refusals %v, want %v", got, want)
		}
		ts.stop()
	})
}

// TestRefusalReasons tests that no error of the engine's, and none of ours, that refuses a request has no reason.
func TestRefusalReasons(t *testing.T) {
	for _, r := range refusalsByError {
		err := fmt.Errorf("about something: %w", r.err)
		if why, ok := reasonOfRefusal(err); !ok || why != r.why {
			t.Errorf("%v has the reason %s, %t; want %s", r.err, refusalNames[why], ok, refusalNames[r.why])
		}
	}
	for why, name := range refusalNames {
		if name == "" {
			t.Errorf("reason %d has no name", why)
		}
	}
}
