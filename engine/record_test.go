package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
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
var goldenItem = Item{
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
	goldenRun    = "0a 01 ac02 24 " + goldenPlain + goldenImage
)

var goldenRecords = [...]string{
	goldenPut, goldenNext, goldenFanout, goldenRemove, goldenFlush, goldenFlush0, goldenQueue,
	goldenDelete, goldenKeep, goldenSpill, goldenRun,
}

func TestRecordGolden(t *testing.T) {
	empty := Item{Added: goldenItem.Added}
	plain := Item{Added: goldenItem.Added, Data: goldenItem.Data}
	for _, tt := range []struct {
		name   string
		got    []byte
		golden string
	}{
		{"put", appendPut(nil, destination{1, 300}, goldenItem), goldenPut},
		{"next", appendNext(nil, plain), goldenNext},
		{"fanout put of no bytes",
			appendFanout(nil, []destination{{1, 9}, {128, 0x01020304}}, empty), goldenFanout},
		{"remove", appendRemove(nil, 1, 5, 3), goldenRemove},
		{"flush", appendFlush(nil, 1, 10, []uint64{3, 7}), goldenFlush},
		{"flush of all", appendFlush(nil, 1, 300, nil), goldenFlush0},
		{"queue", appendQueue(nil, 1, 10, 1700000000000, "jobs+a"), goldenQueue},
		{"delete", appendDelete(nil, 0x101010101), goldenDelete},
		{"keep", appendKeep(nil, 1, Item{ID: 300, Added: plain.Added, Data: plain.Data}), goldenKeep},
		{"spill", appendSpill(nil, 1, segment.RunID{Number: 7, ID: 0x0102030405060708},
			runState{5, 300, 10, 1000, 0x20000}), goldenSpill},
		{"run", appendRun(nil, destination{1, 300},
			item.AppendImage(item.AppendImage(nil, plain), goldenItem)), goldenRun},
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
	if got := len(appendQueue(nil, math.MaxUint64, math.MaxUint64, -1, "q")); got != maxQueueSize+1 {
		t.Errorf("the largest queue record has %d bytes, want %d", got, maxQueueSize+1)
	}
}

// encode is the reverse of parseRecord.
func encode(r *record) []byte {
	switch r.kind {
	case recordPut:
		return appendPut(nil, destination{r.queue, r.id}, r.item)
	case recordNext:
		return appendNext(nil, r.item)
	case recordFanout:
		var to []destination
		for list := r.list; len(list) > 0; {
			to = append(to, destination{list.next(), list.next()})
		}
		return appendFanout(nil, to, r.item)
	case recordRemove:
		return appendRemove(nil, r.queue, r.id, r.more)
	case recordFlush:
		var except []uint64
		for list := r.list; len(list) > 0; {
			except = append(except, list.next())
		}
		return appendFlush(nil, r.queue, r.limit, except)
	case recordRun:
		return appendRun(nil, destination{r.queue, r.id}, r.images)
	case recordQueue:
		return appendQueue(nil, r.queue, r.nextID, r.created, string(r.name))
	case recordKeep:
		it := r.item
		it.ID = r.id
		return appendKeep(nil, r.queue, it)
	case recordSpill:
		return appendSpill(nil, r.queue, r.run, r.spill)
	}
	return appendDelete(nil, r.queue)
}

func TestParseRecordErrors(t *testing.T) {
	bad := func(kind int) string {
		return fmt.Sprintf("record of kind %d is cut short or has a bad field", kind)
	}
	for _, tt := range []struct{ in, want string }{
		{"00 00 00 00", "unknown record kind 0"},
		{"0b 01", "unknown record kind 11"},
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
		{"0a 01 09 00", bad(10)},
		{"0a 01 09 0e " + goldenPlain, bad(10)}, // they have 13 bytes
		{"0a 01 09 0c " + goldenPlain, bad(10)},
		{"0a 01 09 0e " + goldenPlain + "80", bad(10)},
		{"0a 01 09 ffffffffffffffffff01 " + goldenPlain, bad(10)},
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
	for _, golden := range goldenRecords {
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
		if n := testing.AllocsPerRun(100, func() { parseRecord(b) }); n != 0 {
			t.Errorf("parseRecord of kind %d allocates %v times", b[0], n)
		}
	}
}

func TestUvarintSize(t *testing.T) {
	for shift := range 64 {
		for _, v := range []uint64{0, 1 << shift, 1<<shift - 1, 1<<shift | 1} {
			if got, want := uvarintSize(v), len(binary.AppendUvarint(nil, v)); got != want {
				t.Errorf("uvarintSize(%d) = %d, want %d", v, got, want)
			}
		}
	}
}

// putShapes says which kinds of put records are in the journal's buffer.
func putShapes(t *testing.T, j *journal) (kinds []byte) {
	t.Helper()
	for b := j.active[segment.FrameHeaderSize:]; len(b) > 0; {
		rec, n, err := parseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if rec.kind <= recordFanout || rec.kind == recordRun {
			kinds = append(kinds, rec.kind)
		}
		b = b[n:]
	}
	return kinds
}

// TestPutRecordShapes: the puts of one frame to one queue name it once, whatever removes lie
// between, and a frame does not rely on the one before.
func TestPutRecordShapes(t *testing.T) {
	for _, tt := range []struct {
		puts string
		want []byte
	}{
		{"a", []byte{recordPut}},
		{"a a a", []byte{recordPut, recordNext, recordNext}},
		{"a -a a", []byte{recordPut, recordNext}},
		{"a b a", []byte{recordPut, recordPut, recordPut}},
		{"a a p a", []byte{recordPut, recordNext, recordFanout, recordPut}},
		{"a | a", []byte{recordPut}},
		{"a | a a", []byte{recordPut, recordNext}},
		{"3a a b 1a", []byte{recordRun, recordNext, recordPut, recordPut}},
		{"a 3a 2a", []byte{recordPut, recordRun, recordRun}},
	} {
		e, fsys := newQuiet(t)
		for _, name := range []string{"a", "b", "p", "p+c"} {
			mustPut(t, e, name, "first")
		}
		for _, op := range strings.Fields(tt.puts) {
			if op == "|" {
				mustCommit(t, e, Ticket{Written: e.journal.appendedEnd()})
			} else if name, take := strings.CutPrefix(op, "-"); take {
				e.Fetch(Now(), []byte(name), FetchRequest{}, &copied{})
			} else if n, of := op[0], op[1:]; of != "" && n <= '9' {
				puts := make([]PutRequest, n-'0')
				if _, _, err := e.PutAll(Now(), []byte(of), puts); err != nil {
					t.Fatal(err)
				}
			} else if _, err := e.Put(Now(), []byte(op), PutRequest{Data: []byte(op)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := putShapes(t, e.journal); !bytes.Equal(got, tt.want) {
			t.Errorf("puts %q are recorded by kinds %v, want %v", tt.puts, got, tt.want)
		}
		mustCommit(t, e, Ticket{Written: e.journal.appendedEnd()})
		again := openQuiet(t, testOptions(fsys.Kill()))
		for _, name := range []string{"a", "b", "p", "p+c"} {
			got, want := contents(again, name, false), contents(e, name, false)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after puts %q queue %q comes back as %v, want %v", tt.puts, name, got, want)
			}
		}
	}
}

// TestJournalBytesPerItem holds a put to what it may cost on disk.
func TestJournalBytesPerItem(t *testing.T) {
	const items, size, most = 32, 64, 75 // bytes, the last of an item with its record
	e, _ := newQuiet(t)
	mustPut(t, e, "q", "first")
	for range items {
		e.Put(Now(), []byte("q"), PutRequest{Data: make([]byte, size)})
	}
	if got := len(e.journal.active) - segment.FrameHeaderSize; got > items*most {
		t.Errorf("%d items of %d bytes take %d in the journal, want %d at most",
			items, size, got, items*most)
	}
}

// TestPutToManyQueues has one record name more queues than 16 bits count.
func TestPutToManyQueues(t *testing.T) {
	e, _ := newQuiet(t)
	var to []destination
	for i := range uint64(1 << 17) {
		to = append(to, destination{i + 1, 1})
	}
	e.journal.put(to, goldenItem, destination{7, 8})
	b := e.journal.active[segment.FrameHeaderSize:]
	rec, n, err := parseRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	var got []destination
	for list := rec.list; len(list) > 0; {
		got = append(got, destination{list.next(), list.next()})
	}
	if !slices.Equal(got, to) {
		t.Errorf("%d destinations are recorded, want %d", len(got), len(to))
	}
	rec, size, err := parseRecord(b[n:])
	if err != nil || n+size != len(b) || !bytes.Equal(encode(&rec), appendRemove(nil, 7, 8, 0)) {
		t.Errorf("record behind the put is %+v, %v, want that item 8 of queue 7 is gone", rec, err)
	}
	e.journal.active = e.journal.active[:segment.FrameHeaderSize] // there are no such queues
}
