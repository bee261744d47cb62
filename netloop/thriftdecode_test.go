package netloop

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// largeFrame returns a call whose arguments begin with a list of empty lists that no method knows.
// Fields are what follows it.
func largeFrame(method string, seq int32, fields string) []byte {
	const lists = largeCall / 5
	b := binary.BigEndian.AppendUint32(make([]byte, 4), 0x80010001)
	b = binary.BigEndian.AppendUint32(b, uint32(len(method)))
	b = append(b, method...)
	b = binary.BigEndian.AppendUint32(b, uint32(seq))
	b = append(b, 15, 0, 9, 15) // field 9 is a list of lists
	b = binary.BigEndian.AppendUint32(b, lists)
	b = append(b, strings.Repeat("\x02\x00\x00\x00\x00", lists)...)
	b = append(b, fields...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// TestThriftDecodeLeavesLoop tests that a job decodes a large frame, and no loop. Requests pipelined behind it are
// handled after it, and at the end its input is no longer counted.
//
// Its control is a next that decodes whatever comes.
func TestThriftDecodeLeavesLoop(t *testing.T) {
	const queue = "\x0b\x00\x01\x00\x00\x00\x01q" // field 1 is a string
	var client thrift.Client
	reply := func(append func([]byte, thrift.Call) []byte, m thrift.Method) string {
		return string(append(nil, thrift.Call{Method: m, Seq: 1}))
	}
	count := func(n int32) func([]byte, thrift.Call) []byte {
		return func(b []byte, c thrift.Call) []byte { return thrift.AppendCount(b, c, n) }
	}
	ids := make([]int64, largeCall/8)
	for _, tt := range []struct {
		name, frame, want string
		closes            bool
	}{
		{"flush", string(largeFrame("flush_queue", 1, queue+"\x00")),
			reply(thrift.AppendVoid, thrift.MethodFlushQueue), false},
		{"put", string(largeFrame("put", 1, queue+"\x0f\x00\x02\x0b\x00\x00\x00\x01\x00\x00\x00\x01x\x00")),
			reply(count(1), thrift.MethodPut), false},
		{"confirm", string(client.AppendConfirm(nil, 1, []byte("q"), ids...)),
			reply(count(0), thrift.MethodConfirm), false},
		{"no queue", string(largeFrame("put", 1, "\x00")), reply(func(b []byte, c thrift.Call) []byte {
			return thrift.AppendInternalError(b, c, "queue name missing")
		}, thrift.MethodPut), false},
		{"breaks off", string(largeFrame("put", 1, queue)), "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testThrift(t, Options{}, defaults(), func(t *testing.T, ts *testServer) {
				c := ts.dialThrift()
				before := ts.inUse()
				sent := len(tt.frame) - readSize/2
				c.feed([]byte(tt.frame[:sent]), readSize)
				version := client.AppendCall(nil, thrift.MethodGetVersion, 2, nil)
				ts.do(func() {
					ts.loop.begin()
					c.session.receive(append([]byte(tt.frame[sent:]), version...))
					if s := &c.session; len(s.out) > 0 || s.state != waiting || s.wait.kind != waitJob {
						t.Errorf("the loop has decoded a large frame itself, and has %q to send", s.out)
					}
					ts.loop.tick()
				})
				want := tt.want + string(thrift.AppendVersion(nil, thrift.Call{Method: thrift.MethodGetVersion, Seq: 2}, Version))
				got, closed := c.received()
				switch {
				case closed != tt.closes:
					t.Errorf("closed is %t, want %t", closed, tt.closes)
				case closed && len(got) > 0:
					t.Errorf("a frame that breaks off is answered %q", got)
				case !closed && string(got) != want:
					t.Errorf("got %q, want %q", got, want)
				}
				if n := ts.server.buffered.Load(); n != 0 {
					t.Errorf("%d bytes of input are counted at the end", n)
				}
				if n := ts.server.Counters().NotProtocol; (n == 1) != tt.closes {
					t.Errorf("%d clients did not speak the protocol", n)
				}
				c.hangUp()
				if got := ts.inUse(); tt.name != "put" && got != before-sessionSize {
					t.Errorf("%d bytes are in use at the end, and %d were before", got, before)
				}
			})
		})
	}
}

// TestThriftDecodeHangUp tests that a client may go away while its frame is decoded. What it has put is stored, another
// call is not run, and the input is given back when the job has ended.
func TestThriftDecodeHangUp(t *testing.T) {
	const queue = "\x0b\x00\x01\x00\x00\x00\x01q" // field 1 is a string
	for _, tt := range []struct {
		method, fields string
		items          int64
	}{
		{"put", queue + "\x0f\x00\x02\x0b\x00\x00\x00\x01\x00\x00\x00\x01x\x00", 2},
		{"flush_queue", queue + "\x00", 1},
	} {
		testThrift(t, Options{}, defaults(), func(t *testing.T, ts *testServer) {
			other := ts.dialThrift()
			defer other.hangUp()
			other.put("q", "a")
			c := ts.dialThrift()
			frame := largeFrame(tt.method, 1, tt.fields)
			c.feed(frame[:readSize], readSize)
			ts.do(func() {
				ts.loop.begin()
				c.session.receive(frame[readSize:])
				ts.loop.endSession(&c.session, false)
				if n := ts.server.buffered.Load(); n < int64(len(frame)) {
					t.Errorf("%s: %d bytes of input are counted while the job runs, want %d at least", tt.method, n, len(frame))
				}
				ts.server.connections.Add(-1)
				ts.loop.tick()
			})
			if n := ts.server.buffered.Load(); n != 0 {
				t.Errorf("%s: %d bytes of input are counted at the end", tt.method, n)
			}
			if q, _ := ts.opts.Engine.QueueStats(ts.loop.now, []byte("q")); q.Items != tt.items {
				t.Errorf("%s: the queue has %d items, want %d", tt.method, q.Items, tt.items)
			}
		})
	}
}
