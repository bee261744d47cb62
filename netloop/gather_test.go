package netloop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// gatherSettings have a queue that is soon full, one that discards, and one with a child. One expires into another,
// one refuses this client for good, and there is an alias.
func gatherSettings() engine.Settings {
	set := defaults()
	full, discards, closed, dying := set.Default, set.Default, set.Default, set.Default
	full.MaxItems = 5
	discards.MaxItems, discards.DiscardOldWhenFull = 4, true
	closed.EnqueueClientID = "somebody else"
	dying.ExpireTo = "full"
	set.Queues = map[string]engine.QueueOptions{
		"full": full, "discards": discards, "closed": closed, "dying": dying,
	}
	set.Aliases = map[string][]string{"both": {"full", "q"}}
	return set
}

// pipelined draws requests that one client sends without waiting for replies.
func pipelined(r *rand.Rand) string {
	var b strings.Builder
	name := "q"
	for i := range 40 + r.IntN(100) {
		if r.IntN(4) == 0 {
			names := []string{"q", "q", "full", "discards", "dying", "p", "p+c", "both", "na\xefve"}
			name = names[r.IntN(len(names))]
		}
		switch n := r.IntN(60); {
		case n < 4:
			fmt.Fprintf(&b, "get %s\r\n", name)
		case n < 6:
			how := []string{"", "", "/t=0", "/peek", "/open", "/close/open", "/close", "/abort"}
			get := "get " + name + how[r.IntN(len(how))] + "\r\n"
			b.WriteString(strings.Repeat(get, 1+r.IntN(20)))
		case n == 6:
			fmt.Fprintf(&b, "get %s/t=1\r\n", "nothing")
		case n == 7:
			fmt.Fprintf(&b, "delete %s\r\n", name)
		case n == 8:
			fmt.Fprintf(&b, "set %s 0 0 70000\r\n%070000d\r\n", name, i)
		case n == 9 && i > 60:
			fmt.Fprintf(&b, "set closed 0 0 1\r\nx\r\n")
		case n == 10 && i > 60:
			fmt.Fprintf(&b, "set %s 0 0 1\r\nxyz\r\n", name)
		case n == 11 && i > 60:
			b.WriteString("nonsense\r\n")
		default:
			var expiry, noReply string
			if expiry = "0"; r.IntN(8) == 0 {
				expiry = "1"
			}
			if r.IntN(8) == 0 {
				noReply = " noreply"
			}
			body := fmt.Sprint("item ", i)
			fmt.Fprintf(&b, "set %s %d %s %d%s\r\n%s\r\n", name, r.IntN(2), expiry, len(body), noReply, body)
		}
	}
	return b.String()
}

// played is what a server answers to requests that arrive in pieces of at most size bytes, and what
// it then holds. The client is owed no more than pending bytes at a time; handOff has syncs done by
// the syncer.
func played(t *testing.T, requests string, size, pending int, handOff bool) (out string) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestServer(t, Options{MaxPending: pending}, gatherSettings())
		ts.server.inline.allowed = !handOff
		defer ts.stop()
		setup := ts.dial(memcacheProtocol{})
		setup.feed([]byte("get p\r\nget p+c\r\nget both\r\n"), 1000)
		c := ts.dial(memcacheProtocol{})
		c.feed([]byte(requests+"version\r\n"), size)
		<-time.After(100 * time.Millisecond) // what is left is run by itself, and before anything expires
		got, ended := c.received()
		if !ended && !bytes.HasSuffix(got, []byte("VERSION "+Version+"\r\n")) {
			t.Errorf("not all requests are answered: the last reply is %q", got[max(0, len(got)-60):])
		}
		out = fmt.Sprintf("%s\nended: %v\n", got, ended)
		now := engine.Now()
		for _, q := range ts.opts.Engine.Queues(now) {
			out += fmt.Sprintf("%s: %d items, %d bytes, %d puts, %d discarded, %d expired\n",
				q.Name, q.Items, q.Bytes, q.Puts, q.Discarded, q.Expired)
		}
		n := ts.server.Counters()
		out += fmt.Sprint("sets: ", n.CmdSet, ", gets: ", n.CmdGet, ", peeks: ", n.CmdPeek,
			", hits: ", n.GetHits, ", misses: ", n.GetMisses)
	})
	return out
}

// TestPipelines tests that puts and gets have the same effect one by one and at once. All of them are answered,
// however little output a client may have pending.
func TestPipelines(t *testing.T) {
	seeds := uint64(40)
	if isSample() {
		seeds = 10
	}
	for seed := range seeds {
		requests := pipelined(rand.New(rand.NewPCG(seed, 0)))
		want := played(t, requests, 20, DefaultMaxPending, false)
		little := max(100, len(requests)-readSize)       // the client reads nothing before it has sent all
		for i, size := range []int{1 << 20, 1000, 333} { // the first has all of them at once
			for _, pending := range []int{DefaultMaxPending, little} {
				if got := played(t, requests, size, pending, (int(seed)+i)%2 == 0); got != want {
					t.Fatalf("seed %d: in pieces of %d bytes, with %d owed, the outcome is\n%.3000s\n"+
						"in pieces of 20\n%.3000s", seed, size, pending, got, want)
				}
			}
		}
	}
}

// TestGetsStopAtUnreadReplies: gets that are run at once take no more items than one by one, when
// the client is owed much. It gets all of them, also if each reply waits for a sync, and nothing
// else happens on the loop. A ticket that the tick overlooks ends that.
func TestGetsStopAtUnreadReplies(t *testing.T) {
	for _, handOff := range []bool{false, true} {
		t.Run(fmt.Sprintf("hand-off %t", handOff), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pending, items = 1000, 200
				set := defaults()
				set.Default.Sync = engine.SyncAlways
				ts := newTestServer(t, Options{MaxPending: pending}, set)
				ts.server.inline.allowed = !handOff
				defer ts.stop()
				c := ts.dial(memcacheProtocol{})
				c.feed([]byte(strings.Repeat("set q 0 0 3 noreply\r\nabc\r\n", items)), 1<<20)
				one := "VALUE q 0 3\r\nabc\r\nEND\r\n"
				ts.do(func() {
					ts.loop.begin()
					c.session.receive([]byte(strings.Repeat("get q\r\n", items)))
					if got := len(c.session.out); got <= pending || got > pending+len(one) {
						t.Errorf("%d bytes of replies were made before any could leave, want just over %d",
							got, pending)
					}
					ts.loop.tick()
				})
				<-time.After(time.Second)
				if got, _ := c.received(); string(got) != strings.Repeat(one, items) {
					t.Errorf("%d gets are answered by %d bytes, want %d", items, len(got), items*len(one))
				}
			})
		})
	}
}

// TestGatheredPutsAreRetracted: when the sync that they wait for fails, each of them is said to
// have failed.
func TestGatheredPutsAreRetracted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := gatherSettings()
		ts := newTestServer(t, Options{}, set)
		defer ts.stopFailed()
		c := ts.dial(memcacheProtocol{})
		ts.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
		c.feed([]byte(strings.Repeat("set full 0 0 1\r\nx\r\n", 7)), 1000)
		got, _ := c.received()
		if n := bytes.Count(got, []byte("SERVER_ERROR journal failed\r\n")); n != 7 {
			t.Errorf("after a failed sync 7 puts are answered by %q", got)
		}
	})
}

// TestGatherToMany tests a queue with many children, and an alias of many queues. A turn does no more puts to them
// than it has time for.
//
// Its control is a gathering that holds maxGathered puts to however many queues.
func TestGatherToMany(t *testing.T) {
	for _, tt := range []struct {
		name     string
		children int
		extra    string
		work     int // of a put, for each queue
	}{{"p", 800, "", 1}, {"all", 800, "", 1}, {"p", 15, "/delay=9", extraWork}, {"all", 15, "/key=k", extraWork}} {
		t.Run(tt.name+tt.extra, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const puts = 100
				name, children := tt.name, tt.children
				set := defaults()
				set.Aliases = map[string][]string{"all": nil}
				var makes strings.Builder
				for i := range children {
					fmt.Fprintf(&makes, "get p+%d\r\n", i)
					set.Aliases["all"] = append(set.Aliases["all"], fmt.Sprintf("p+%d", i))
				}
				ts := newTestServer(t, Options{}, set)
				defer ts.stop()
				r := &fitfulReader{testClient: ts.dial(memcacheProtocol{}), reads: true}
				ts.do(func() { r.session.sink = r })
				r.feed([]byte(makes.String()), 1<<20)
				got, _ := r.received()
				r.consume(len(got))
				r.largest = 0
				r.feed(bytes.Repeat(fmt.Appendf(nil, "set %s%s 0 0 1\r\nx\r\n", name, tt.extra), puts), 1<<20)
				got, _ = r.received()
				if want := strings.Repeat("STORED\r\n", puts); string(got) != want {
					t.Fatalf("%d puts are answered %.100q", puts, got)
				}
				if n, each := r.largest/len("STORED\r\n"), children*tt.work; n*each > maxWork+2*each {
					t.Errorf("a turn has put %d items to %d queues each, want no more than %d in all", n, children, maxWork/tt.work)
				}
			})
		})
	}
}

// TestGatheredRights sends puts to queues that a user may and may not put to, in one read. Each is answered for itself,
// in order, and a put that is not allowed joins no gathering.
func TestGatheredRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checker := access.NewChecker(usersOf(t, grants(t, "alice", "put open*", "put work")), access.Options{})
		qs := &quotaServer{newTestServer(t, Options{Access: checker}, defaults()), checker}
		defer qs.stop()
		c := qs.as(memcacheProtocol{}, "alice")
		set := func(queue string, size int) string {
			return fmt.Sprintf("set %s 0 0 %d\r\n%0*d\r\n", queue, size, size, 0)
		}
		const stored, denied = "STORED\r\n", "CLIENT_ERROR not allowed: put on closed\r\n"
		for _, tt := range []struct{ in, want string }{
			{set("open", 1) + set("closed", 1), stored + denied},
			{set("closed", 1) + set("open", 1), denied + stored},
			{set("closed", 1) + set("closed", 1), denied + denied},
			{set("open", 1) + set("open", 1) + set("closed", 1) + set("open", 1) + set("work", 1), stored + stored + denied + stored + stored},
			{set("open", 1) + set("Open", 1), stored + strings.ReplaceAll(denied, "closed", "Open")},
			{set("open", 1) + set("closed", largePut+1) + set("open", largePut+1) + set("closed", 1), stored + denied + stored + denied},
			{strings.Repeat(set("open", 1), maxGathered) + set("closed", 1) + set("open", 1), strings.Repeat(stored, maxGathered) + denied + stored},
			{set("open", 1) + "set closed 0 0 1 noreply\r\nx\r\n" + set("open", 1), stored + stored},
			{set("open", 1) + "set closed 0 0 1\r\nxyz", stored + denied + "CLIENT_ERROR\r\n"}, // it ends the connection
		} {
			if got := c.said(tt.in); got != tt.want {
				t.Errorf("%.100q: %.200q, want %.200q", tt.in, got, tt.want)
			}
		}
		for name, want := range map[string]int64{"open": 12 + maxGathered, "work": 1, "closed": 0, "Open": 0} {
			if q, _ := qs.opts.Engine.QueueStats(engine.Now(), []byte(name)); q.Puts != want {
				t.Errorf("%s took %d puts, want %d", name, q.Puts, want)
			}
		}
		c.hangUp()
	})
}
