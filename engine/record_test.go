package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenItem is the item of the golden records. 1700000000000 is 0x18bcfe56800.
var goldenItem = Item{
	ID: 9, Data: []byte("hello"), Flags: 7, Added: 1700000000000, Expiry: 1700000001000,
}

// Bytes written out by hand, one group per field.
const (
	goldenImage  = "05000000 07000000 0068e5cf8b010000 e86be5cf8b010000 68656c6c6f"
	goldenStored = "0900000000000000 " + goldenImage
	goldenPut    = "01 00 0100 0100000000000000 0900000000000000 " + goldenImage
	goldenFanout = "01 00 0200 0100000000000000 0900000000000000 " +
		"0200000000000000 0403020100000000 00000000 00000000 0068e5cf8b010000 0000000000000000"
	goldenRemove = "02 00 0000 0100000000000000 0500000000000000 0800000000000000"
	goldenFlush  = "03 00 0000 0100000000000000 0a00000000000000 02000000 " +
		"0300000000000000 0700000000000000"
	goldenFlush0 = "03 00 0000 0100000000000000 0a00000000000000 00000000"
	goldenQueue  = "04 00 0600 0100000000000000 0a00000000000000 0068e5cf8b010000 6a6f62732b61"
	goldenDelete = "05 00 0000 0807060504030201"
)

func TestItemGolden(t *testing.T) {
	if got, want := appendImage(nil, goldenItem), unhex(t, goldenImage); !bytes.Equal(got, want) {
		t.Errorf("appendImage = %x, want %x", got, want)
	}
	want := unhex(t, goldenStored)
	if got := appendStored(nil, goldenItem); !bytes.Equal(got, want) || len(got) != storedSize(5) {
		t.Errorf("appendStored = %x, want %x", got, want)
	}
	if got := loadStored(append(want, "next"...)); fmt.Sprint(got) != fmt.Sprint(goldenItem) {
		t.Errorf("loadStored = %+v, want %+v", got, goldenItem)
	}
}

func TestParseImage(t *testing.T) {
	image := unhex(t, goldenImage)
	it, n, ok := parseImage(append(image, "next"...))
	it.ID = goldenItem.ID
	if !ok || n != len(image) || fmt.Sprint(it) != fmt.Sprint(goldenItem) {
		t.Errorf("parseImage = %+v, %d, %v", it, n, ok)
	}
	for n := range image { // cut anywhere, there is no image
		if _, _, ok := parseImage(image[:n]); ok {
			t.Errorf("parseImage takes %d bytes of an image of %d", n, len(image))
		}
	}
	if _, _, ok := parseImage(bytes.Repeat([]byte{0xff}, 100)); ok {
		t.Error("parseImage takes an item of 4 GiB out of 100 bytes")
	}
}

func TestRecordGolden(t *testing.T) {
	empty := Item{Added: goldenItem.Added}
	for _, tt := range []struct {
		name   string
		got    []byte
		golden string
	}{
		{"put", appendPut(nil, []destination{{1, 9}}, goldenItem), goldenPut},
		{"fanout put of no bytes",
			appendPut(nil, []destination{{1, 9}, {2, 0x01020304}}, empty), goldenFanout},
		{"remove", appendRemove(nil, 1, 5, 8), goldenRemove},
		{"flush", appendFlush(nil, 1, 10, []uint64{3, 7}), goldenFlush},
		{"flush of all", appendFlush(nil, 1, 10, nil), goldenFlush0},
		{"queue", appendQueue(nil, 1, 10, 1700000000000, "jobs+a"), goldenQueue},
		{"delete", appendDelete(nil, 0x0102030405060708), goldenDelete},
	} {
		want := unhex(t, tt.golden)
		if !bytes.Equal(tt.got, want) {
			t.Errorf("%s is %x, want %x", tt.name, tt.got, want)
		}
		rec, n, err := parseRecord(append(want, "next"...))
		if err != nil || n != len(want) {
			t.Errorf("parseRecord(%s) takes %d bytes, %v, want %d", tt.name, n, err, len(want))
		}
		if again := encode(&rec); !bytes.Equal(again, want) {
			t.Errorf("%s encodes again as %x, want %x", tt.name, again, want)
		}
		for n := range want { // cut anywhere, there is no record
			if _, _, err := parseRecord(want[:n:n]); err == nil {
				t.Errorf("parseRecord takes %d bytes of a %s of %d", n, tt.name, len(want))
			}
		}
	}
	if got := len(appendRemove(nil, 1, 2, 3)); got != removeSize {
		t.Errorf("a remove has %d bytes, removeSize is %d", got, removeSize)
	}
}

// encode is the reverse of parseRecord.
func encode(r *record) []byte {
	switch r.kind {
	case recordPut:
		var to []destination
		r.destinations(func(d destination) error { to = append(to, d); return nil })
		return appendPut(nil, to, r.item)
	case recordRemove:
		return appendRemove(nil, r.queue, r.first, r.last)
	case recordFlush:
		var except []uint64
		for b := r.except; len(b) > 0; b = b[8:] {
			except = append(except, binary.LittleEndian.Uint64(b))
		}
		return appendFlush(nil, r.queue, r.limit, except)
	case recordQueue:
		return appendQueue(nil, r.queue, r.nextID, r.created, string(r.name))
	}
	return appendDelete(nil, r.queue)
}

func TestParseRecordErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "not a record header: "},
		{"01 00 01", "not a record header: 01 00 01"},
		{"01 01 0100", "not a record header: 01 01 01 00"},
		{"00 00 0000", "unknown record kind 0"},
		{"06 00 0000 0000000000000000", "unknown record kind 6"},
		{"01 00 0000", "record of kind 1 has count 0"},
		{"02 00 0100", "record of kind 2 has count 1"},
		{"04 00 0000", "record of kind 4 has count 0"},
		{"05 00 0100 0100000000000000", "record of kind 5 has count 1"},
		{"02 00 0000 01000000", "record of kind 2 is cut short"},
		{"01 00 ffff 0100000000000000 0900000000000000", "record of kind 1 is cut short"},
		{"03 00 0000 0100000000000000 0a00000000000000 ffffffff 0300000000000000",
			"record of kind 3 is cut short"},
		{"01 00 0100 0100000000000000 0900000000000000 " +
			"ffffffff 00000000 0068e5cf8b010000 0000000000000000", "record of kind 1 is cut short"},
	} {
		_, n, err := parseRecord(unhex(t, tt.in))
		if err == nil || err.Error() != tt.want || n != 0 {
			t.Errorf("parseRecord(%s) = %d, %v, want %q", tt.in, n, err, tt.want)
		}
	}
}

// FuzzParseRecord: what is accepted was encoded by appendX exactly like that, and nothing is
// consumed on an error.
func FuzzParseRecord(f *testing.F) {
	for _, golden := range []string{
		goldenPut, goldenFanout, goldenRemove, goldenFlush, goldenFlush0, goldenQueue, goldenDelete,
	} {
		b := unhex(f, golden)
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(append(b, b...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, n, err := parseRecord(b)
		if err != nil {
			if n != 0 {
				t.Errorf("consumed %d bytes with %v", n, err)
			}
			return
		}
		if n < recordHeaderSize || n > len(b) {
			t.Fatalf("consumed %d of %d bytes", n, len(b))
		}
		if again := encode(&rec); !bytes.Equal(again, b[:n]) {
			t.Errorf("%x encodes again as %x", b[:n], again)
		}
	})
}

func TestParseRecordAllocs(t *testing.T) {
	for _, golden := range []string{
		goldenPut, goldenFanout, goldenRemove, goldenFlush, goldenQueue, goldenDelete,
	} {
		b := unhex(t, golden)
		if n := testing.AllocsPerRun(100, func() { parseRecord(b) }); n != 0 {
			t.Errorf("parseRecord of kind %d allocates %v times", b[0], n)
		}
	}
}

// TestPutRecordIsSplit has a put go to more queues than one record can name.
func TestPutRecordIsSplit(t *testing.T) {
	e, _ := newQuiet(t)
	var to []destination
	for i := range uint64(2*maxDestinations + 1) {
		to = append(to, destination{i + 1, 1})
	}
	e.journal.put(to, goldenItem, destination{7, 8})
	b := e.journal.full[0][segment.FrameHeaderSize:]
	var got []destination
	for rec := (record{kind: recordPut}); rec.kind == recordPut; {
		var n int
		var err error
		if rec, n, err = parseRecord(b); err != nil {
			t.Fatal(err)
		}
		rec.destinations(func(d destination) error { got = append(got, d); return nil })
		if b = b[n:]; rec.kind == recordRemove && (rec.queue != 7 || rec.first != 8 || len(b) > 0) {
			t.Errorf("record behind the puts is %+v", rec)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(to) {
		t.Errorf("%d destinations are recorded, want %d", len(got), len(to))
	}
	e.journal.full = nil
}
