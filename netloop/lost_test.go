package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// TestLostItem has the item that a wait brings be overwritten before its client gets it. The client gets what the queue
// has instead, or waits for what is left of its time. It does not hear that the queue is empty.
func TestLostItem(t *testing.T) {
	const reply = "VALUE q 0 3\r\nnew\r\nEND\r\n"
	for _, tt := range []struct {
		name, ask, got string
		proto          protocol
	}{
		{"get", "get q/t=1000\r\n", reply, memcacheProtocol{}},
		{"open", "get q/t=1000/open\r\n", reply, memcacheProtocol{}},
		{"lease", "get q/lease=5000/t=1000\r\n", reply, memcacheProtocol{}},
		{"several", "get p/or=q/t=1000\r\n", reply, memcacheProtocol{}},
		{"monitor", "monitor q 1 1\r\n", reply + "END\r\n", memcacheProtocol{}},
		{"text", "get q 1000\n", ":new\n", textProtocol{}},
	} {
		for _, taken := range []bool{false, true} { // by somebody else
			t.Run(fmt.Sprintf("%s, taken %t", tt.name, taken), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ts := newTestServer(t, Options{}, defaults())
					defer ts.stop()
					c := ts.dial(tt.proto)
					c.feed([]byte(tt.ask), len(tt.ask))
					e, now := ts.opts.Engine, engine.Now()
					put := func(body string) {
						p := engine.PutRequest{Data: []byte(body), Extra: &engine.PutExtra{Key: []byte("K")}}
						if _, err := e.Put(now, []byte("q"), p); err != nil {
							t.Error(err)
						}
					}
					ts.do(func() {
						put("old")
						put("new")
						if !taken {
							return
						}
						if _, err := e.Fetch(now, []byte("q"), engine.FetchRequest{}, anyItem{}); err != nil {
							t.Error(err)
						}
					})
					if taken {
						if got, ended := c.received(); len(got) > 0 || ended {
							t.Fatalf("the client waits no more: %q", got)
						}
						time.Sleep(500 * time.Millisecond) // of the bubble
						ts.do(func() { put("new") })
					}
					if got, _ := c.received(); string(got) != tt.got {
						t.Errorf("the client gets %q, want %q", got, tt.got)
					}
					if n := ts.loop.counters; n.CmdGet != 1 && tt.name != "monitor" || n.GetMisses > 0 {
						t.Errorf("counted are %d fetches and %d misses", n.CmdGet, n.GetMisses)
					}
				})
			})
		}
	}
}

// TestHalfCloseEndsWait has a client send nothing more while it waits. It gets the reply that nothing came, at once, over
// every protocol. The client may be gone: what comes next stays in the queue, and so do what it had and what came in the
// same turn.
func TestHalfCloseEndsWait(t *testing.T) {
	client, call := thrift.Client{}, thrift.Call{Method: thrift.MethodGet, Seq: 1}
	get := func(most int32) string {
		return string(client.AppendGet(nil, 1, []byte("q"), thrift.GetOptions{MaxItems: most, WaitMillis: 1000}))
	}
	nothing := string(thrift.EndItems(thrift.BeginItems(nil, call), 0, 0))
	for _, tt := range []struct {
		name, first, ask, got string
		proto                 protocol
		left                  int64 // items, with the one that comes behind the end
	}{
		{"get", "", "get q/t=1000\r\n", "END\r\n", memcacheProtocol{}, 1},
		{"open", "set q 0 0 1\r\nx\r\nget q/open\r\n", "get q/t=1000/open\r\nversion\r\n", "END\r\n", memcacheProtocol{}, 2},
		{"several", "", "get p/or=q/t=1000\r\n", "END\r\n", memcacheProtocol{}, 1},
		{"peek", "", "get q/peek/t=1000\r\n", "END\r\n", memcacheProtocol{}, 1},
		{"monitor", "set q 0 0 1\r\nx\r\n", "monitor q 1 2\r\n", "VALUE q 0 1\r\nx\r\nEND\r\nEND\r\n", memcacheProtocol{}, 2},
		{"text", "", "get q 1000\n", "*\n", textProtocol{}, 1},
		{"thrift", "", get(1), nothing, thriftProtocol{}, 1},
		{"thrift, with an item", string(client.AppendPut(nil, 1, []byte("q"), 0, []byte("x"))), get(2), nothing, thriftProtocol{}, 2},
		{"Burrow", "", "GET /v1.0/default/q?wait=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 404 ", burrowProtocol{}, 1},
	} {
		for _, same := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, an item in the same turn %t", tt.name, same), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ts := newTestServer(t, Options{MaxOpenReads: 2}, defaults())
					defer ts.stop()
					c := ts.dial(tt.proto)
					c.feed([]byte(tt.first), 1<<10)
					out, _ := c.received()
					c.consume(len(out))
					c.feed([]byte(tt.ask), len(tt.ask))
					put := func(body string) {
						if _, err := ts.opts.Engine.Put(engine.Now(), []byte("q"), engine.PutRequest{Data: []byte(body)}); err != nil {
							t.Error(err)
						}
					}
					left := tt.left
					ts.do(func() {
						ts.loop.begin()
						if same {
							put("same")
							left++
						}
						if s := &c.session; s.state != waiting || !ts.loop.leave(s) {
							t.Error("nothing is to be sent to a client that waits")
						}
						ts.loop.tick()
					})
					got, ended := c.received()
					if !strings.HasPrefix(string(got), tt.got) || !ended || tt.proto != (burrowProtocol{}) && len(got) > len(tt.got) {
						t.Errorf("the client gets %q, ended %t, want %q and the end", got, ended, tt.got)
					}
					put("next")
					if q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("q")); q.Items != left || q.OpenReads != 0 || q.Waiters != 0 {
						t.Errorf("the queue has %d items, %d open reads and %d waiters; want %d, 0, 0", q.Items, q.OpenReads, q.Waiters, left)
					}
				})
			})
		}
	}
}

// TestHalfCloseBehindJob has a client send nothing more while a job of it runs. The wait that it has sent behind the job
// ends as well with the reply that nothing came.
func TestHalfCloseBehindJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{}, defaults())
		defer ts.stop()
		c := ts.dial(memcacheProtocol{})
		ts.do(func() {
			ts.loop.begin()
			c.session.receive(fmt.Appendf(nil, "set large 0 0 %d\r\n%s\r\nget q/t=1000\r\n", len(largeItem), largeItem))
			if !ts.loop.leave(&c.session) {
				t.Error("nothing is to be sent to a client whose job runs")
			}
			ts.loop.tick()
		})
		synctest.Wait()
		if got, ended := c.received(); string(got) != "STORED\r\nEND\r\n" || !ended {
			t.Errorf("the client gets %q, ended %t", got, ended)
		}
	})
}

// TestHalfCloseAmongRequests has a client send nothing more while requests of it wait for the next turn. This turn has no
// time for all of them, or for all items of one. The client gets every reply.
func TestHalfCloseAmongRequests(t *testing.T) {
	const many = maxWork + 1000
	client, call := thrift.Client{}, thrift.Call{Method: thrift.MethodGet, Seq: 1}
	items := thrift.BeginItems(nil, call)
	for range many {
		items = thrift.AppendItem(items, &thrift.Item{Data: []byte("x")})
	}
	get := client.AppendGet(nil, 1, []byte("q"), thrift.GetOptions{MaxItems: many})
	for _, tt := range []struct {
		name, ask, want string
		proto           protocol
	}{
		{"requests", strings.Repeat("version\r\n", many), strings.Repeat("VERSION "+Version+"\r\n", many), memcacheProtocol{}},
		{"monitor", "monitor q 1\r\n", strings.Repeat("VALUE q 0 1\r\nx\r\nEND\r\n", many) + "END\r\n", memcacheProtocol{}},
		{"get", string(get), string(thrift.EndItems(items, 0, many)), thriftProtocol{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{MaxOpenReads: 2 * many}, defaults())
				defer ts.stop()
				for range many {
					if _, err := ts.opts.Engine.Put(engine.Now(), []byte("q"), engine.PutRequest{Data: []byte("x")}); err != nil {
						t.Fatal(err)
					}
				}
				c := ts.dial(tt.proto)
				ts.do(func() {
					ts.loop.begin()
					c.session.receive([]byte(tt.ask))
					if c.session.state != stalled {
						t.Error("the turn has time for all")
					}
					if !ts.loop.leave(&c.session) {
						t.Error("nothing is to be sent")
					}
					ts.loop.tick()
				})
				synctest.Wait()
				if got, ended := c.received(); string(got) != tt.want || !ended {
					t.Errorf("the client gets %d bytes, %.60q; ended %t; want %d", len(got), got, ended, len(tt.want))
				}
			})
		})
	}
}

// TestHalfCloseBehindLargeItem has a client send nothing more while a large item leaves piece by piece. What it has asked
// for behind that comes as well. If that is nothing, the session ends, and the drainer sends what is left.
func TestHalfCloseBehindLargeItem(t *testing.T) {
	value := fmt.Sprintf("VALUE q 0 %d\r\n%s\r\nEND\r\n", len(largeItem), largeItem)
	for _, tt := range []struct {
		name, ask, want string
		proto           protocol
	}{
		{"gets", "get q\r\nget q\r\nget q\r\n", value + value + "END\r\n", memcacheProtocol{}},
		{"monitor", "monitor q 1\r\n", value + value + "END\r\n", memcacheProtocol{}},
		{"one get", "get q\r\n", "", memcacheProtocol{}},
		{"text", "get q\nget q\nget q\n", ":" + largeItem + "\n:" + largeItem + "\n*\n", textProtocol{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{MaxOpenReads: 9}, defaults())
				defer ts.stop()
				for range 2 {
					if _, err := ts.opts.Engine.Put(engine.Now(), []byte("q"), engine.PutRequest{Data: []byte(largeItem)}); err != nil {
						t.Fatal(err)
					}
				}
				c := ts.dial(tt.proto)
				ts.do(func() {
					ts.loop.begin()
					c.session.receive([]byte(tt.ask))
					if !c.session.body.pending() || !ts.loop.leave(&c.session) {
						t.Error("the first item is no body, or nothing is to be sent")
					}
					if ends := tt.want == ""; ends != (c.session.state == closing) {
						t.Errorf("the session ends: %t, want %t", !ends, ends)
					}
					ts.loop.tick()
				})
				synctest.Wait()
				if got, ended := c.received(); tt.want != "" && string(got) != tt.want || !ended {
					t.Errorf("the client gets %d bytes, %.60q; ended %t; want %d", len(got), got, ended, len(tt.want))
				}
			})
		})
	}
}

// TestGoneClientTakesNoMore has a client ask for more items than one turn has time for, and go. The server learns that when
// it sends the first ones: the others stay in the queue. That is no refusal which an operator should hear of.
func TestGoneClientTakesNoMore(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 1)
		const many = readSize / len("get q0\r\n")
		if _, err := lt.engine.PutAll(engine.Now(), []byte("q0"), make([]engine.PutRequest, many)); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Write(lt.peers[0], []byte(strings.Repeat("get q0\r\n", many))); n != readSize {
			t.Fatalf("sent %d bytes of %d, %v", n, readSize, err)
		}
		unix.Shutdown(lt.peers[0], unix.SHUT_RDWR)
		for turns := 0; lt.conns[lt.fds[0]] != nil && turns < 100; turns++ {
			lt.turn(0)
		}
		if left := lt.depths()[0]; lt.conns[lt.fds[0]] != nil || left < int64(many-maxWork-maxFetched) || lt.server.Refusals() != (Refusals{}) {
			t.Errorf("%d of %d items are left, %v are refused, and the connection is %v", left, many, lt.server.Refusals(), lt.conns[lt.fds[0]])
		}
	})
}

// TestGoneClientWaitsForNothing has an item come for a client that waits, after the server has failed to send it something.
// The item stays in the queue, as does what the client has collected.
func TestGoneClientWaitsForNothing(t *testing.T) {
	get := func(most int32) string {
		return string(new(thrift.Client).AppendGet(nil, 1, []byte("q"), thrift.GetOptions{MaxItems: most, WaitMillis: 1000}))
	}
	for _, tt := range []struct {
		name, ask string
		proto     protocol
		first     int // items that are there before
	}{
		{"get", "get q/t=1000\r\n", memcacheProtocol{}, 0},
		{"open", "get q/t=1000/open\r\n", memcacheProtocol{}, 0},
		{"lease", "get q/lease=5000/t=1000\r\n", memcacheProtocol{}, 0},
		{"several", "get p/or=q/t=1000\r\n", memcacheProtocol{}, 0},
		{"monitor", "monitor q 1\r\n", memcacheProtocol{}, 0},
		{"text", "get q 1000\n", textProtocol{}, 0},
		{"thrift", get(1), thriftProtocol{}, 0},
		{"thrift, with an item", get(2), thriftProtocol{}, 1},
		{"Burrow", "DELETE /v1.0/default/q?limit=1&wait=1&detail=all HTTP/1.1\r\nHost: localhost\r\n\r\n", burrowProtocol{}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newTestServer(t, Options{MaxOpenReads: 2}, defaults())
				defer ts.stop()
				put := func() {
					if _, err := ts.opts.Engine.Put(engine.Now(), []byte("q"), engine.PutRequest{Data: []byte("x")}); err != nil {
						t.Error(err)
					}
				}
				for range tt.first {
					put()
				}
				c := ts.dial(tt.proto)
				c.feed([]byte(tt.ask), len(tt.ask))
				ts.do(func() {
					if c.session.state != waiting {
						t.Error("the client does not wait")
					}
					c.session.unheard = true
					put()
				})
				synctest.Wait()
				q, _ := ts.opts.Engine.QueueStats(engine.Now(), []byte("q"))
				if q.Items != int64(tt.first+1) || q.OpenReads != 0 || q.Leased != 0 || q.Waiters != 0 {
					t.Errorf("the queue has %d items, %d open, %d leased and %d waiters; want %d, 0, 0, 0",
						q.Items, q.OpenReads, q.Leased, q.Waiters, tt.first+1)
				}
			})
		})
	}
}

// TestGoneClientGetsNothing has a Thrift client ask for an item, and then for more than one turn has time for, and go. The
// server learns that when it sends the first one. What it has collected of the others comes back.
func TestGoneClientGetsNothing(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		lt := newBulkTest(t, eventLoop, unsynced(), 1)
		lt.conns[lt.fds[0]].session.proto = thriftProtocol{}
		const many = 3 * maxWork
		if _, err := lt.engine.PutAll(engine.Now(), []byte("q0"), make([]engine.PutRequest, many)); err != nil {
			t.Fatal(err)
		}
		var client thrift.Client
		asks := client.AppendGet(nil, 1, []byte("q0"), thrift.GetOptions{MaxItems: 1})
		asks = client.AppendGet(asks, 2, []byte("q0"), thrift.GetOptions{MaxItems: many})
		if n, err := unix.Write(lt.peers[0], asks); n != len(asks) {
			t.Fatal(n, err)
		}
		unix.Shutdown(lt.peers[0], unix.SHUT_RDWR)
		for turns := 0; lt.conns[lt.fds[0]] != nil && turns < 100; turns++ {
			lt.turn(0)
		}
		lt.server.jobs.Wait()
		if left := lt.depths()[0]; left != many-1 {
			t.Errorf("%d of %d items are left", left, many)
		}
	})
}
