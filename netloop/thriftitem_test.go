package netloop

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
)

// A large item is sent from where it lies, with what is known of it behind it, and at once also in pieces.
func TestThriftLargeItems(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		large := bytes.Repeat([]byte("0123456789"), 100<<10)
		put := thrift.PutOptions{Keys: [][]byte{[]byte("K")}}
		if r := c.call(c.codec.AppendPutWith(nil, c.next(), []byte("q"), put, large)); r.Count != 1 {
			t.Fatalf("put = %+v", r)
		}
		var got thrift.Listed
		for _, which := range []thrift.Which{{ID: 1}, {Key: []byte("K")}, {}} {
			r := c.call(c.codec.AppendBrowse(nil, c.next(), []byte("q"), which, 0, 0, false))
			for got = range r.Listed.All() {
			}
			if r.Listed.Len() != 1 || !bytes.Equal(got.Data, large) || got.ID != 1 || string(got.Key) != "K" || got.Added == 0 {
				t.Fatalf("browse %+v: %d items, the last of %d bytes, with id %d and key %q", which, r.Listed.Len(),
					len(got.Data), got.ID, got.Key)
			}
		}
		queues := [][]byte{[]byte("empty"), []byte("q")}
		for _, autoAbort := range []int32{60000, 0} {
			r := c.call(c.codec.AppendGetAny(nil, c.next(), queues, nil, 0, autoAbort))
			var it thrift.Item
			for it = range r.Items.All() {
			}
			if !bytes.Equal(it.Data, large) || string(it.Queue) != "q" || string(it.Key) != "K" || (it.ID != 0) != (autoAbort != 0) {
				t.Fatalf("get_any: %d bytes of %q, key %q, id %d", len(it.Data), it.Queue, it.Key, it.ID)
			}
			if it.ID != 0 {
				c.call(c.codec.AppendAbort(nil, c.next(), []byte("q"), it.ID))
			}
		}
	})
}

// Keys and rules hold for a put that runs beside the loop as well, and a bad key there puts nothing.
func TestThriftLargePutOfKeys(t *testing.T) {
	testThrift(t, Options{MaxOpenReads: 10}, defaults(), func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		for _, size := range []int{1, 300} { // the frame is decoded on the loop, and beside it
			queue := fmt.Appendf(nil, "q%d", size)
			items, keys := make([][]byte, 2*maxPutItems), make([][]byte, 2*maxPutItems)
			for i := range items {
				items[i], keys[i] = bytes.Repeat([]byte{'x'}, size), fmt.Appendf(nil, "key %d", i/2)
			}
			put := func(onDuplicate int32) thrift.Reply {
				c.feed(c.codec.AppendPutWith(nil, c.next(), queue, thrift.PutOptions{Keys: keys, OnDuplicate: onDuplicate}, items...), 1<<20)
				pass(time.Second)
				return c.reply()
			}
			if r := put(0); !r.Failed {
				t.Errorf("%d items with blanks in their keys: %+v", len(items), r)
			}
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "key%d", i/2)
			}
			if r := put(thrift.OnDuplicateOnlyReplace); r.Count != 0 || r.Failed {
				t.Errorf("only to replace: %+v", r)
			}
			if r := put(thrift.OnDuplicateOnlyNew); r.Count != 1 || r.Failed { // the second has the key of the first
				t.Errorf("only new: %+v", r)
			}
			if r := put(thrift.OnDuplicateOverwrite); r.Count != int32(len(items)) {
				t.Errorf("overwriting: %+v", r)
			}
			if r := c.call(c.codec.AppendCall(nil, thrift.MethodPeek, c.next(), queue)); r.Info.Items != maxPutItems {
				t.Errorf("%d items, want %d", r.Info.Items, maxPutItems)
			}
		}
	})
}

// A list is cut where its reply would be too long for the common client libraries, and goes on behind its last
// item.
func TestThriftBrowseIsBounded(t *testing.T) {
	set := defaults()
	set.Default.MaxItemSize = 16 << 20
	testThrift(t, Options{MaxOpenReads: 10}, set, func(t *testing.T, ts *testServer) {
		c := ts.dialThrift()
		defer c.hangUp()
		for i := range 7 {
			c.put("q", string(bytes.Repeat([]byte{byte('a' + i)}, 5<<20)))
		}
		from, lists := int64(0), 0
		for met := 1; met > 0; lists++ {
			r := c.call(c.codec.AppendBrowse(nil, c.next(), []byte("q"), thrift.Which{}, from, 10, false))
			if met = r.Listed.Len(); met > 3 || r.Failed {
				t.Fatalf("%d items of 5 MiB in one reply: %+v", met, r.Failed)
			}
			for it := range r.Listed.All() {
				if it.ID < from || it.Data[0] != byte('a'+it.ID-1) {
					t.Errorf("item %d, from %d on, begins with %c", it.ID, from, it.Data[0])
				}
				from = it.ID + 1
			}
		}
		if from != 8 || lists != 4 {
			t.Errorf("the lists end in front of %d, after %d of them; want 8 and 4", from, lists)
		}
	})
}
