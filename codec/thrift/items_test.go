package thrift

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"testing"
)

func TestItems(t *testing.T) {
	in := frame(unhex(t, putHead+queueArg+
		`0f 0002 0b 00000003 00000001 "a" 00000000 00000002 "bc" 00`))
	var req Request
	if _, err := (Decoder{}).Decode(in, &req); err != nil {
		t.Fatal(err)
	}
	items := req.Items
	for i, want := range []string{"a", "", "bc"} {
		if items.Len() != 3-i {
			t.Errorf("Len() = %d, want %d", items.Len(), 3-i)
		}
		if got, ok := items.Next(); !ok || string(got) != want {
			t.Errorf("Next() = %q, %v, want %q", got, ok, want)
		}
	}
	for range 2 {
		if got, ok := items.Next(); ok || got != nil || items.Len() != 0 {
			t.Errorf("Next() at the end = %q, %v", got, ok)
		}
	}
	for range 2 { // All leaves the items as they are, and so did reading the copy
		if got, want := itemsString(req.Items), `["a" "" "bc"]`; got != want {
			t.Errorf("All() yields %s, want %s", got, want)
		}
	}
	for item := range req.Items.All() {
		if string(item) == "a" {
			break
		}
	}
	var zero Items
	if _, ok := zero.Next(); ok || zero.Len() != 0 {
		t.Errorf("the zero Items has an item")
	}
}

func TestIDs(t *testing.T) {
	in := Client{}.AppendConfirm(nil, 1, []byte("q"), 5, -6, 7)
	var req Request
	if _, err := (Decoder{}).Decode(in, &req); err != nil {
		t.Fatal(err)
	}
	var got []int64
	for i := range req.IDs.Len() {
		got = append(got, req.IDs.At(i))
	}
	if want := "[5 -6 7]"; fmt.Sprint(got) != want || idsString(req.IDs) != want {
		t.Errorf("At = %v, All yields %s, want %s", got, idsString(req.IDs), want)
	}
	for id := range req.IDs.All() {
		if id == -6 {
			break
		}
	}
	if n := (IDs{}).Len(); n != 0 {
		t.Errorf("the zero IDs has %d ids", n)
	}
}

func TestItemList(t *testing.T) {
	dst := BeginItems(nil, Call{Method: MethodGet})
	dst = AppendItem(dst, &Item{Data: []byte("a"), ID: 1, Deliveries: 1})
	dst = AppendItem(dst, &Item{Data: nil, ID: 2, Deliveries: 7})
	var r Reply
	if _, err := (Client{}).DecodeReply(EndItems(dst, 0, 2), &r); err != nil {
		t.Fatal(err)
	}
	list := r.Items
	for i, want := range []string{`1:"a" 1`, `2:"" 7`} {
		if list.Len() != 2-i {
			t.Errorf("Len() = %d, want %d", list.Len(), 2-i)
		}
		it, ok := list.Next()
		if got := fmt.Sprintf("%d:%q %d", it.ID, it.Data, it.Deliveries); !ok || got != want {
			t.Errorf("Next() = %s, %v, want %s", got, ok, want)
		}
	}
	if it, ok := list.Next(); ok {
		t.Errorf("Next() at the end = %v", it)
	}
	for it := range r.Items.All() {
		if it.ID == 1 {
			break
		}
	}
	if got, want := itemListString(r.Items), `[1:"a" 2:"" x7]`; got != want {
		t.Errorf("All() yields %s, want %s", got, want)
	}
}

// TestSetItemIDs checks that a reply whose items get their ids at the end is the one that had them
// from the start.
func TestSetItemIDs(t *testing.T) {
	for _, upgraded := range []bool{false, true} {
		call := Call{Method: MethodGet, Seq: 7, Upgraded: upgraded}
		items, ids := []string{"a", "", "four"}, []uint64{1, math.MaxInt64, 0x0102030405060708}
		want, got := BeginItems([]byte("before"), call), BeginItems([]byte("before"), call)
		for i, item := range items {
			it := Item{Data: []byte(item), Deliveries: int32(i), Key: []byte(item)}
			got = AppendItem(got, &it)
			it.ID = int64(ids[i])
			want = AppendItem(want, &it)
		}
		want = EndItems(want, len("before"), len(items))
		got = EndItems(got, len("before"), len(items))
		SetItemIDs(got, len("before"), ids)
		if !bytes.Equal(got, want) {
			t.Errorf("upgraded %t:\n got %x\nwant %x", upgraded, got, want)
		}
	}
}

// TestPlainItem reads items with data and an id only, and the same items with a field more, which the decoder skips.
func TestPlainItem(t *testing.T) {
	for _, data := range []string{"", "x", "an item of some more bytes"} {
		plain := AppendItem(nil, &Item{Data: []byte(data), ID: -5, Deliveries: 1})
		if plainItem(plain) != len(plain) {
			t.Errorf("plainItem(%x) = %d, want all %d bytes", plain, plainItem(plain), len(plain))
		}
		more := append(appendI32Field(plain[:len(plain)-1:len(plain)-1], 99, 7), typeStop)
		if n := plainItem(more); n != 0 {
			t.Errorf("plainItem(%x) = %d although there is a field more", more, n)
		}
		a, b := cursor{rest: plain}, cursor{rest: more}
		got, want := a.item(), b.item()
		if !reflect.DeepEqual(got, want) || string(got.Data) != data || got.ID != -5 || got.Deliveries != 1 {
			t.Errorf("item %q: read as %+v, with a field more as %+v", data, got, want)
		}
		for n := range plain {
			cut := cursor{rest: plain[:n]}
			if cut.item(); plainItem(plain[:n]) != 0 || cut.failed == nil {
				t.Errorf("item %q cut to %d bytes passes for whole", data, n)
			}
		}
	}
}
