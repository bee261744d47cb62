package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
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

// goldenItem is the item of the golden records, in full and without flags and expiry.
var goldenItem = item.Item{
	Data: []byte("hello"), Flags: 7, Added: 1700000000000, Expiry: 1700000001000,
}

// Bytes written out by hand, one group per field.
const (
	goldenImage = "0c 05 0068e5cf8b01 07000000 e86be5cf8b01 68656c6c6f"
	goldenPlain = "00 05 0068e5cf8b01 68656c6c6f"

	goldenPut    = "01 01 ac02 " + goldenImage
	goldenNext   = "02 " + goldenPlain
	goldenFanout = "03 02 01 09 8001 84868808 00 00 0068e5cf8b01"
	goldenRemove = "04 03000000 01 05"
	goldenFlush  = "05 01 0a 02 03 07"
	goldenFlush0 = "05 01 ac02 00"
	goldenQueue  = "06 01 0a 80d095ffbc31 06 6a6f62732b61"
	goldenDelete = "07 8182848810"
	goldenKeep   = "08 01 ac02 " + goldenPlain
	goldenSpill  = "09 01 07 0807060504030201 05 ac02 0a e807 808008"
	goldenDelay  = "0b 01 ac02 01 80d095ffbc31"
	goldenLease  = "0b 01 ac02 07 80d095ffbc31 0807060504030201 03"
	goldenReady  = "0b 01 ac02 00"
	goldenHidden = "0d 01 07 0807060504030201 e807 8008 02 05 06 00 02 05 00 01 00"
	goldenMarks  = "0e 01 07 0807060504030201 8008 05"
	goldenNone   = "0e 01 00"
	goldenRun    = "0a 01 ac02 24 " + goldenPlain + goldenImage
)

var goldenRecords = [...]string{
	goldenPut, goldenNext, goldenFanout, goldenRemove, goldenFlush, goldenFlush0, goldenQueue,
	goldenDelete, goldenKeep, goldenSpill, goldenRun, goldenDelay, goldenLease, goldenReady,
	goldenHidden, goldenMarks, goldenNone,
}

func TestRecordGolden(t *testing.T) {
	empty := item.Item{Added: goldenItem.Added}
	plain := item.Item{Added: goldenItem.Added, Data: goldenItem.Data}
	for _, tt := range []struct {
		name   string
		got    []byte
		golden string
	}{
		{"put", AppendPut(nil, Destination{1, 300}, goldenItem), goldenPut},
		{"next", AppendNext(nil, plain), goldenNext},
		{"fanout put of no bytes",
			AppendFanout(nil, []Destination{{1, 9}, {128, 0x01020304}}, empty), goldenFanout},
		{"remove", AppendRemove(nil, 1, 5, 3), goldenRemove},
		{"flush", AppendFlush(nil, 1, 10, []uint64{3, 7}), goldenFlush},
		{"flush of all", AppendFlush(nil, 1, 300, nil), goldenFlush0},
		{"queue", AppendQueue(nil, 1, 10, 1700000000000, "jobs+a"), goldenQueue},
		{"delete", AppendDelete(nil, 0x101010101), goldenDelete},
		{"keep", AppendKeep(nil, 1, item.Item{ID: 300, Added: plain.Added, Data: plain.Data}), goldenKeep},
		{"spill", AppendSpill(nil, 1, segment.RunID{Number: 7, ID: 0x0102030405060708},
			runs.State{FirstID: 5, LastID: 300, Count: 10, Bytes: 1000, End: 0x20000}), goldenSpill},
		{"run", AppendPuts(nil, Destination{1, 300},
			item.AppendImage(item.AppendImage(nil, &plain), &goldenItem)), goldenRun},
		{"hidden", AppendHidden(nil, 1, segment.RunID{Number: 7, ID: 0x0102030405060708},
			Hidden{Index: 1000, End: 1024, From: 2, Bytes: 5, IDs: unhex(t, "00 02 05 00 01 00")}), goldenHidden},
		{"marks", AppendMarks(nil, 1,
			Marks{Run: segment.RunID{Number: 7, ID: 0x0102030405060708}, End: 1024, Count: 5}), goldenMarks},
		{"no marks", AppendMarks(nil, 1, Marks{}), goldenNone},
		{"delay", AppendChange(nil, 1, 300, Change{Due: 1700000000000}), goldenDelay},
		{"lease", AppendChange(nil, 1, 300, Change{1700000000000, 0x0102030405060708, 3}), goldenLease},
		{"ready", AppendChange(nil, 1, 300, Change{}), goldenReady},
	} {
		want := unhex(t, tt.golden)
		if !bytes.Equal(tt.got, want) {
			t.Errorf("%s is %x, want %x", tt.name, tt.got, want)
		}
		rec, n, err := Parse(append(want, "next"...))
		if err != nil || n != len(want) {
			t.Errorf("parseRecord(%s) takes %d bytes, %v, want %d", tt.name, n, err, len(want))
		}
		if again := encode(&rec); !bytes.Equal(again, want) {
			t.Errorf("%s encodes again as %x, want %x", tt.name, again, want)
		}
		for n := range want { // cut anywhere, there is no record
			if _, _, err := Parse(want[:n:n]); err == nil {
				t.Errorf("parseRecord takes %d bytes of a %s of %d", n, tt.name, len(want))
			}
		}
	}
	largest := Change{math.MaxInt64, math.MaxUint64, math.MaxUint16}
	if got := len(AppendChange(nil, math.MaxUint64, math.MaxUint64, largest)); got > MaxChangeSize {
		t.Errorf("the largest change record has %d bytes, want %d at most", got, MaxChangeSize)
	}
	if got := len(AppendQueue(nil, math.MaxUint64, math.MaxUint64, -1, "q")); got != maxQueueSize+1 {
		t.Errorf("the largest queue record has %d bytes, want %d", got, maxQueueSize+1)
	}
}

// encode is the reverse of parseRecord.
func encode(r *Record) []byte {
	switch r.Kind {
	case KindPut:
		return AppendPut(nil, Destination{r.Queue, r.ID}, r.Item)
	case KindNext:
		return AppendNext(nil, r.Item)
	case KindFanout:
		var to []Destination
		for list := r.List; len(list) > 0; {
			to = append(to, Destination{list.Next(), list.Next()})
		}
		return AppendFanout(nil, to, r.Item)
	case KindRemove:
		return AppendRemove(nil, r.Queue, r.ID, r.More)
	case KindFlush:
		var except []uint64
		for list := r.List; len(list) > 0; {
			except = append(except, list.Next())
		}
		return AppendFlush(nil, r.Queue, r.Limit, except)
	case KindPuts:
		return AppendPuts(nil, Destination{r.Queue, r.ID}, r.Images)
	case KindQueue:
		return AppendQueue(nil, r.Queue, r.NextID, r.Created, string(r.Name))
	case KindKeep:
		it := r.Item
		it.ID = r.ID
		return AppendKeep(nil, r.Queue, it)
	case KindChange:
		return AppendChange(nil, r.Queue, r.ID, r.Change)
	case KindHidden:
		return AppendHidden(nil, r.Queue, r.Run, r.Hidden)
	case KindMarks:
		return AppendMarks(nil, r.Queue, r.Marks)
	case KindSpill:
		return AppendSpill(nil, r.Queue, r.Run, r.Spill)
	}
	return AppendDelete(nil, r.Queue)
}

func TestParseRecordErrors(t *testing.T) {
	bad := func(kind int) string {
		return fmt.Sprintf("record of kind %d is cut short or has a bad field", kind)
	}
	for _, tt := range []struct{ in, want string }{
		{"00 00 00 00", "unknown record kind 0"},
		{"0c 01", "unknown record kind 12"},
		{"01", bad(1)},
		{"01 01 09", bad(1)},
		{"01 8100 09 " + goldenPlain, bad(1)}, // a number in more bytes than it needs
		{"01 01 09 01 0500 0068e5cf8b01 68656c6c6f", bad(1)},
		{"01 ffffffffffffffffff02 09 " + goldenPlain, bad(1)}, // past 64 bits
		{"02 80 01", bad(2)},                                  // a gap is no image
		{"03 00 " + goldenPlain, bad(3)},
		{"03 01 01 09 " + goldenPlain, bad(3)},
		{"03 ffffffffffffffff7f 01 09 " + goldenPlain, bad(3)},
		{"03 02 01 09 02", bad(3)},
		{"04 00000000 01", bad(4)},
		{"04 0000", bad(4)},
		{"05 01 0a 02 03", bad(5)},
		{"05 01 0a ffffffffffffffffff01 03", bad(5)},
		{"06 01 0a 01 06 6a6f6273", bad(6)},
		{"07", bad(7)},
		{"0b 01 09", bad(11)},
		{"0b 01 09 08", bad(11)},    // a field that there is not
		{"0b 01 09 01", bad(11)},    // that is missing
		{"0b 01 09 01 00", bad(11)}, // that is there without need
		{"0b 01 09 02 0000000000000000", bad(11)},
		{"0b 01 09 04 00", bad(11)},
		{"0b 01 09 04 808004", bad(11)}, // above 65535
		{"0b 01 09 01 ffffffffffffffffff01", bad(11)},
		{"0e 01 07 0000000000000000 8008 05", bad(14)},
		{"0e 01 07 0807060504030201 40 05", bad(14)}, // no frame is there
		{"0e 01 07 0807060504030201 8008 00", bad(14)},
		{"0a 01 09 00", bad(10)},
		{"0a 01 09 0e " + goldenPlain, bad(10)}, // they have 13 bytes
		{"0a 01 09 0c " + goldenPlain, bad(10)},
		{"0a 01 09 0e " + goldenPlain + "80", bad(10)},
		{"0a 01 09 ffffffffffffffffff01 " + goldenPlain, bad(10)},
	} {
		_, n, err := Parse(unhex(t, tt.in))
		if err == nil || err.Error() != tt.want || n != 0 {
			t.Errorf("parseRecord(%s) = %d, %v, want %q", tt.in, n, err, tt.want)
		}
	}
}

// FuzzParseRecord: what is accepted was encoded by appendX exactly like that, and nothing is
// consumed on an error.
func FuzzParseRecord(f *testing.F) {
	for _, golden := range goldenRecords {
		b := unhex(f, golden)
		f.Add(b)
		f.Add(b[:len(b)-1])
		f.Add(append(b, b...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, n, err := Parse(b)
		if err != nil {
			if n != 0 {
				t.Errorf("consumed %d bytes with %v", n, err)
			}
			return
		}
		if n < 2 || n > len(b) {
			t.Fatalf("consumed %d of %d bytes", n, len(b))
		}
		if again := encode(&rec); !bytes.Equal(again, b[:n]) {
			t.Errorf("%x encodes again as %x", b[:n], again)
		}
	})
}

func TestParseRecordAllocs(t *testing.T) {
	for _, golden := range goldenRecords {
		b := unhex(t, golden)
		if n := testing.AllocsPerRun(100, func() { Parse(b) }); n != 0 {
			t.Errorf("parseRecord of kind %d allocates %v times", b[0], n)
		}
	}
}

func TestUvarintSize(t *testing.T) {
	for shift := range 64 {
		for _, v := range []uint64{0, 1 << shift, 1<<shift - 1, 1<<shift | 1} {
			if got, want := NumberSize(v), len(binary.AppendUvarint(nil, v)); got != want {
				t.Errorf("NumberSize(%d) = %d, want %d", v, got, want)
			}
		}
	}
}
