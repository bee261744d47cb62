package netloop

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLargestGivesWay tests that clients which send large requests and never end them cost no client that sends small
// ones. The server cuts off the one that holds most, and counts the error. One that asks for as much as they hold is
// cut off itself, unless they have come to a stop.
//
// Its control is an othersGiveWay that is always false.
func TestLargestGivesWay(t *testing.T) {
	const limit, size, most = 8 << 20, 10 << 10, 3 << 20
	frame := "\x04\x00\x00\x00\x80\x01\x00\x01\x00\x00\x00\x03put\x00\x00\x00\x01"
	for _, tt := range []struct {
		name   string
		proto  protocol
		begins string
		says   string // to the one that gives way
	}{
		{"memcache", memcacheProtocol{}, "set p 0 0 33554432\r\n", "SERVER_ERROR out of memory for requests\r\n"},
		{"text", textProtocol{}, "put p:\n", "-out of memory for requests\n"},
		{"thrift", thriftProtocol{}, frame, ""},
		{"burrow", burrowProtocol{}, "PUT /v1.0/a/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194304\r\n\r\n", "HTTP/1.1 503 "},
	} {
		for _, short := range []string{"buffers", "memory"} {
			t.Run(tt.name+", "+short, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					opts, memory := Options{}, int64(256<<20)
					if short == "buffers" {
						opts.BufferLimit = limit
					} else {
						memory = ledgerLimit
					}
					ts := newLedgerServer(t, opts, memory)
					defer ts.stop()
					var rude []*testClient
					begin := func() *testClient {
						c := ts.dial(tt.proto)
						rude = append(rude, c)
						c.feed([]byte(tt.begins+strings.Repeat("x", most)), readSize)
						return c
					}
					ended := func() (n int) {
						for _, c := range rude {
							if got, end := c.received(); end {
								n++
								if !strings.HasPrefix(string(got), tt.says) {
									t.Errorf("the client that gives way gets %q, want %q", got, tt.says)
								}
							}
						}
						return n
					}
					for ended() == 0 {
						begin()
					}
					before := ended()
					unstored := int64(0)
					refused := func() map[string]int64 {
						want := map[string]int64{tt.proto.name() + " memory": int64(ended())}
						if unstored > 0 {
							want["memcache memory"] += unstored
						}
						return want
					}
					if got := refusedBy(ts.server); !maps.Equal(got, refused()) {
						t.Errorf("refusals %v, want %v", got, refused())
					}
					var polite []*testClient
					request := fmt.Sprintf("set w 0 0 %d\r\n%s\r\n", size, strings.Repeat("y", size))
					for range 300 { // 3 MB
						c := ts.dial(memcacheProtocol{})
						c.feed([]byte(request[:size]), size)
						polite = append(polite, c)
					}
					for i, c := range polite {
						switch got := c.ask(request[size:]); {
						case got == "STORED\r\n":
						case short == "memory" && got == "SERVER_ERROR out of memory\r\n": // for the item
							unstored++
						default:
							t.Fatalf("client %d with an item of %d bytes gets %q", i, size, got)
						}
						c.hangUp()
					}
					if got := ended(); got == before {
						t.Errorf("%d clients were cut off, want one more", got)
					}
					if got := refusedBy(ts.server); !maps.Equal(got, refused()) {
						t.Errorf("refusals %v, want %v", got, refused())
					}
					for before = ended(); ended() == before; {
						begin() // until they hold all again
					}
					<-time.After(staleTime + time.Second) // of the bubble
					synctest.Wait()
					c := begin()
					if _, end := c.received(); end {
						t.Error("a client with a large item was cut off, and not one whose item does not come")
					}
					for _, c := range rude {
						if _, end := c.received(); !end {
							c.hangUp()
						}
					}
					if got := ts.server.buffered.Load() + ts.server.givenUp.Load() + ts.server.promised.Load(); got != 0 {
						t.Errorf("%d bytes of input are counted at the end", got)
					}
					if top := ts.loop.bySize.top.Load(); top != 0 {
						t.Errorf("class %d has sessions at the end", top)
					}
				})
			})
		}
	}
}

// TestLargestOfAnotherLoopGivesWay tests the same of a client of another loop.
//
// Its control is an askToGiveWay that does nothing.
func TestLargestOfAnotherLoopGivesWay(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		const limit, size = 4 << 20, 10 << 10
		s := startServer(t, eventLoop, Options{BufferLimit: limit}, unsynced())
		rude, polite := dial(t, s), dial(t, s) // of different loops
		polite.send("version\r\n")
		polite.expect("VERSION " + Version + "\r\n")
		rude.send("set p 0 0 33554432\r\n%s", strings.Repeat("x", limit-5*spacePage))
		waitFor(t, func() bool { return s.buffered.Load() >= limit-5*spacePage })
		for range 10 {
			before := s.Counters().BytesRead
			polite.send("set w 0 0 %d\r\n%s", size, strings.Repeat("y", size-1))
			waitFor(t, func() bool { return s.Counters().BytesRead >= before+size })
			polite.send("y\r\n")
			polite.expect("STORED\r\n")
		}
		waitFor(t, func() bool { return s.Connections() == 1 })
		if got, want := refusedBy(s), (map[string]int64{"memcache memory": 1}); !maps.Equal(got, want) {
			t.Errorf("refusals %v, want %v", got, want)
		}
		if got := s.promised.Load(); got != 0 {
			t.Errorf("%d bytes are promised at the end", got)
		}
	})
}

// TestStaleGivesWayBesideOtherLoops tests that a stale session gives way to a request that is as large as those of another
// loop. It may be a session of this loop or of the other.
func TestStaleGivesWayBesideOtherLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, 64<<20)
		defer ts.stop()
		other := newLoop(ts.server)
		other.wake = func() {}
		ts.server.loops = append(ts.server.loops, &driver{loop: other})
		const come, size = 50 << 10, 400 << 10
		own, asks := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
		own.feed([]byte(partial(2*come)), readSize)
		v, class := &session{loop: other}, sizeClass(size)
		arrive := func() {
			other.clock = ts.loop.clock
			other.bySize.move(v, 0)
			other.bySize.move(v, class)
		}
		for _, step := range []struct {
			what        string
			before      func()
			gives, ends bool
			asked       int32
		}{
			{"nobody is stale", arrive, false, false, 0},
			{"one of this loop is", arrive, true, true, 0},
			{"one of the other loop is", func() {}, true, true, -int32(class)},
		} {
			ts.do(func() {
				ts.loop.begin()
				step.before()
				asks.session.need = size
				if got := asks.session.othersGiveWay(come); got != step.gives || other.bySize.asked.Load() != step.asked {
					t.Errorf("%s: othersGiveWay = %t, and class %d of the other loop is asked, want %t and %d",
						step.what, got, other.bySize.asked.Load(), step.gives, step.asked)
				}
				asks.session.need = 0
				ts.loop.tick()
			})
			if _, ended := own.received(); ended != step.ends {
				t.Errorf("%s: the session of this loop has ended: %t, want %t", step.what, ended, step.ends)
			}
			<-time.After(staleTime + time.Second) // of the bubble
		}
		asks.hangUp()
	})
}

// TestGivesWayAskedLate has another loop ask for a session to give way when this loop has looked for that, and is about to
// wait. The loop is awake, so nobody wakes it: it looks once more.
func TestGivesWayAskedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, 64<<20)
		defer ts.stop()
		large, small := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
		large.feed([]byte(partial(100<<10)), readSize)
		small.session.sink = &askingSink{small}
		small.feed([]byte("version\r\n"), 1<<10)
		if _, ended := large.received(); !ended || ts.loop.bySize.asked.Load() != 0 {
			t.Errorf("the session has given way: %t, and class %d is still asked to", ended, ts.loop.bySize.asked.Load())
		}
		small.hangUp()
	})
}

// TestStaleIsGone has another loop ask for a stale session to give way, which ends before this loop looks. One of its size
// that is not stale keeps its place: the request of the other loop is no smaller.
func TestStaleIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newLedgerServer(t, Options{}, 64<<20)
		defer ts.stop()
		stale, fresh := ts.dial(memcacheProtocol{}), ts.dial(memcacheProtocol{})
		stale.feed([]byte(partial(100<<10)), readSize)
		<-time.After(staleTime + time.Second) // of the bubble
		fresh.feed([]byte(partial(100<<10)), readSize)
		ts.do(func() {
			l := ts.loop
			l.begin()
			if class := fresh.session.bySize.class; !l.askToGiveWay(class, class, l.clock) {
				t.Error("the stale session does not give way")
			}
			l.endSession(&stale.session, true)
			l.tick()
		})
		if _, ended := fresh.received(); ended || ts.loop.bySize.asked.Load() != 0 || ts.server.promised.Load() != 0 {
			t.Errorf("the other session has ended: %t; %d bytes are promised", ended, ts.server.promised.Load())
		}
		fresh.hangUp()
	})
}

// askingSink is a client to which the loop sends while another loop asks for a session to give way.
type askingSink struct{ *testClient }

func (s *askingSink) send(p []byte) {
	s.testClient.send(p)
	s.ts.loop.askToGiveWay(0, 0, s.ts.loop.clock)
}
