package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// leasing is a call that leases up to n items of a queue.
func leasing(queue string, n, waitMillis int32) string {
	return string(thrift.Client{}.AppendGet(nil, 1, []byte(queue), thrift.GetOptions{
		MaxItems: n, WaitMillis: waitMillis, AutoAbortMillis: 60_000,
	}))
}

// openOf returns how many items of a queue are open or leased.
func (qs *quotaServer) openOf(queue string) (n int64) {
	qs.do(func() {
		q, _ := qs.server.opts.Engine.QueueStats(engine.Now(), []byte(queue))
		n = q.OpenReads
	})
	return n
}

// TestQuotaOfManyReads: requests for several items, over many connections, get no more open reads than the quota allows.
func TestQuotaOfManyReads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		proto   protocol
		request string
	}{
		{"thrift", thriftProtocol{}, leasing("work", 10, 5000)},
		{"memcache", memcacheProtocol{}, "monitor work 5 10\r\n"},
		{"text", textProtocol{}, "monitor work 5 10\n"},
	} {
		t.Run(tt.name+" that waits", func(t *testing.T) {
			withQuota(t, access.Quota{OpenReads: 3}, func(t *testing.T, qs *quotaServer) {
				for i := range 4 { // the last is refused
					c := qs.as(tt.proto, "alice")
					if got := c.say(tt.request); strings.Contains(got, "over quota") != (i == 3) {
						t.Errorf("request %d is answered by %q", i, got)
					}
				}
				qs.as(memcacheProtocol{}, "bob").say(strings.Repeat("set work 0 0 1\r\nx\r\n", 20))
				<-time.After(10 * time.Second)
				synctest.Wait()
				if got := qs.openOf("work"); got != 3 {
					t.Errorf("%d items are open, want 3", got)
				}
				qs.hangUpAll()
				<-time.After(2 * time.Minute)
			})
		})
	}
	t.Run("alone", func(t *testing.T) { // one that waits gets all that its user may have
		withQuota(t, access.Quota{OpenReads: 3}, func(t *testing.T, qs *quotaServer) {
			c := qs.as(textProtocol{}, "alice")
			c.say("monitor work 5 10\n")
			for range 3 {
				qs.as(memcacheProtocol{}, "bob").say("set work 0 0 1\r\nx\r\n")
			}
			if got, _ := c.received(); string(got) != ":x\n:x\n:x\n*\n" {
				t.Errorf("a monitor that waits gets %q", got)
			}
			qs.hangUpAll()
		})
	})
}

// TestQuotaWhileLeasing: reads that a job turns into leases count meanwhile.
func TestQuotaWhileLeasing(t *testing.T) {
	const most = 3 * confirmPiece
	synctest.Test(t, func(t *testing.T) {
		checker := access.NewChecker(quotaUsers(t, access.Quota{OpenReads: most}), access.Options{Parallel: 4})
		qs := &quotaServer{newTestServer(t, Options{Access: checker, MaxOpenReads: most}, defaults()), checker}
		defer qs.stop()
		bob := qs.as(thriftProtocol{}, "bob")
		bob.say(many(2 * most))
		a, b := qs.as(thriftProtocol{}, "alice"), qs.as(thriftProtocol{}, "alice")
		request := []byte(leasing("work", most, 0))
		qs.do(func() { // until its items are leased, they count
			qs.loop.begin()
			a.session.receive(request)
			for a.session.wait.kind != waitJob {
				qs.loop.tick()
				qs.loop.begin()
			}
			for range 100 {
				if u := qs.server.usages.byName["alice"]; u.reads.Load()+int64(u.leases.Leases()) < most {
					t.Fatalf("%d reads and %d leases count, want %d", u.reads.Load(), u.leases.Leases(), most)
				}
			}
			qs.loop.tick()
		})
		if got := b.say(string(request)); !strings.Contains(got, "over quota") {
			t.Errorf("a request for more gets %d bytes: %.100q", len(got), got)
		}
		if got := qs.openOf("work"); got != most {
			t.Errorf("%d items are open, want %d", got, most)
		}
		qs.hangUpAll()
		<-time.After(2 * time.Minute)
		if u := qs.server.usages.byName["alice"]; u.reads.Load() != 0 || u.leases.Leases() != 0 {
			t.Errorf("left behind: %d reads, %d leases", u.reads.Load(), u.leases.Leases())
		}
	})
}

// TestQuotaBehindTheDisk: requests that wait for the disk alone, because the next item is there, count as open reads.
func TestQuotaBehindTheDisk(t *testing.T) {
	for _, tt := range []struct {
		name    string
		proto   protocol
		request string
	}{
		{"open", memcacheProtocol{}, "get work/open\r\n"},
		{"lease", memcacheProtocol{}, "gets work/lease=60000\r\n"},
		{"several", memcacheProtocol{}, "get none/or=work/open/t=5000\r\n"},
		{"monitor", textProtocol{}, "monitor work 5 1\n"},
		{"text", textProtocol{}, "get work\n"},
		{"thrift", thriftProtocol{}, leasing("work", 1, 0)},
		{"burrow", burrowProtocol{}, form("receive", `{"lease_ms":60000}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				checker := access.NewChecker(quotaUsers(t, access.Quota{OpenReads: 3}), access.Options{Parallel: 4})
				set := defaults()
				set.Default.MaxMemorySize = 2000
				gate := make(chan struct{})
				ts := &testServer{t: t, fs: segmenttest.New(), opts: Options{Access: checker, MaxOpenReads: 100}, set: set}
				ts.wrap = func(fs *segmenttest.FS) segment.FS { return &gatedFS{fs, gate} }
				ts.start()
				qs := &quotaServer{ts, checker}
				defer qs.stop()
				bob := qs.as(memcacheProtocol{}, "bob")
				bob.say(strings.Repeat(fmt.Sprintf("set work 0 0 500\r\n%0500d\r\n", 1), 40))
				synctest.Wait()
				for range 40 { // what is in memory goes, until one waits for the disk
					if bob.say("get work\r\n") == "" {
						break
					}
				}
				if bob.session.state != waiting {
					t.Fatal("no item is on the disk alone")
				}
				over := 0
				for range 10 {
					if strings.Contains(qs.as(tt.proto, "alice").say(tt.request), "over quota") {
						over++
					}
				}
				close(gate)
				synctest.Wait()
				if got := qs.openOf("work"); got != 3 || over != 7 {
					t.Errorf("%d items are open and %d of 10 requests are refused, want 3 and 7", got, over)
				}
				qs.hangUpAll()
				<-time.After(2 * time.Minute)
				if u := qs.server.usages.byName["alice"]; u.reads.Load() != 0 || u.leases.Leases() != 0 {
					t.Errorf("left behind: %d reads, %d leases", u.reads.Load(), u.leases.Leases())
				}
			})
		})
	}
}
