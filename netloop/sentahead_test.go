package netloop

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// TestSentAhead tests what a client may send ahead of its replies, over every protocol. It is MaxPending bytes, and
// one more request that has begun by then and says how large it is.
//
// Its control is an isTooFarAhead that is always false.
func TestSentAhead(t *testing.T) {
	const size = 3 << 20
	item := strings.Repeat("x", size)
	set := fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", size, item)
	put := string(thrift.Client{}.AppendPut(nil, 2, []byte("q"), 0, []byte(item)))
	get := string(thrift.Client{}.AppendGet(nil, 1, []byte("nothing"), thrift.GetOptions{MaxItems: 1, WaitMillis: 1000}))
	post := fmt.Sprintf("PUT /v1.0/a/q/m HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", size, item)
	poll := "GET /v1.0/a/nothing?wait=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for i, tt := range []struct {
		name  string
		proto protocol
		wait  string
		sends string
		ends  bool
	}{
		{"memcache, small ones", memcacheProtocol{}, "get nothing/t=1000\r\n", strings.Repeat("version\r\n", size/9), true},
		{"memcache, a large one", memcacheProtocol{}, "get nothing/t=1000\r\n", set + "version\r\n", false},
		{"memcache, a large one behind small ones", memcacheProtocol{}, "get nothing/t=1000\r\n", strings.Repeat("version\r\n", 1000) + set, false},
		{"memcache, two large ones", memcacheProtocol{}, "get nothing/t=1000\r\n", set + set, true},
		{"memcache, one that is too large", memcacheProtocol{}, "get nothing/t=1000\r\n", "set q 0 0 50000000\r\n" + item, true},
		{"text, items", textProtocol{}, "get nothing 1000\n", "put q:\n" + strings.Repeat("x\n", size/2), true},
		{"text, a large item", textProtocol{}, "get nothing 1000\n", "put q:\n" + item + "\n\n", true},
		{"thrift, a large one", thriftProtocol{}, get, put, false},
		{"thrift, two large ones", thriftProtocol{}, get, put + put, true},
		{"thrift, small ones", thriftProtocol{}, get, strings.Repeat(get, size/len(get)), true},
		{"burrow, a large one", burrowProtocol{}, poll, post, false},
		{"burrow, two large ones", burrowProtocol{}, poll, post + post, true},
		{"burrow, small ones", burrowProtocol{}, poll, strings.Repeat(poll, size/len(poll)), true},
	} {
		if isSample() && i%3 != 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := newLedgerServer(t, Options{}, 256<<20)
				defer ts.stop()
				c := ts.dial(tt.proto)
				c.feed([]byte(tt.wait), 1<<10)
				c.feed([]byte(tt.sends), readSize)
				_, ended := c.received()
				if ended != tt.ends {
					t.Errorf("cut off: %t, want %t, with %d bytes buffered", ended, tt.ends, c.kept)
				}
				most := DefaultMaxPending + 2*readSize
				if strings.Contains(tt.sends, item) {
					most += len(set) + 1<<10
				}
				if most = spaceSize(most); c.kept > most {
					t.Errorf("%d bytes were buffered, want %d at most", c.kept, most)
				}
				<-time.After(2 * time.Second) // of the bubble: the wait is over
				synctest.Wait()
				if n := c.session.tally.requests; !ended && n < 2 {
					t.Errorf("%d requests were run, want those behind the wait too", n)
				}
				if got := ts.server.buffered.Load(); got != 0 {
					t.Errorf("%d bytes of input are counted at the end", got)
				}
				if !ended {
					c.hangUp()
				}
			})
		})
	}
}
