package oldjournal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

const at = 1700000000000 // when the items of the tests were added, in ms

// unhex decodes bytes written in groups.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recordTests are records and their bytes, one group for each field.
var recordTests = []struct {
	name  string
	rec   Record
	bytes string
}{
	{"add", Record{Op: OpAdd, Data: []byte("hello")}, "00 09000000 00000000 68656c6c6f"},
	{"add, expires", Record{Op: OpAdd, Expiry: at, Data: []byte("a")}, "00 05000000 00f15365 61"},
	{"remove", Record{Op: OpRemove}, "01"},
	{"addx", Record{Op: OpAddX, Added: at, Data: []byte("hello")},
		"02 15000000 0068e5cf8b010000 0000000000000000 68656c6c6f"},
	{"addx, expires", Record{Op: OpAddX, Added: at, Expiry: at + 5000, Data: []byte("hello")},
		"02 15000000 0068e5cf8b010000 887be5cf8b010000 68656c6c6f"},
	{"addx, empty", Record{Op: OpAddX, Added: at}, "02 10000000 0068e5cf8b010000 0000000000000000"},
	{"remove tentative", Record{Op: OpRemoveTentative}, "03"},
	{"save xid", Record{Op: OpSaveXID, XID: 7}, "04 07000000"},
	{"unremove", Record{Op: OpUnremove, XID: 1}, "05 01000000"},
	{"unremove, negative", Record{Op: OpUnremove, XID: math.MinInt32}, "05 00000080"},
	{"confirm remove", Record{Op: OpConfirmRemove, XID: 2}, "06 02000000"},
	{"add xid", Record{Op: OpAddXID, XID: 7, Added: at, Data: []byte("hello")},
		"07 07000000 15000000 0068e5cf8b010000 0000000000000000 68656c6c6f"},
	{"continue", Record{Op: OpContinue, XID: 1, Added: at, Data: []byte("two")},
		"08 01000000 13000000 0068e5cf8b010000 0000000000000000 74776f"},
	{"remove tentative xid", Record{Op: OpRemoveTentativeXID, XID: 1}, "09 01000000"},
}

func sameRecord(a, b Record) bool {
	return a.Op == b.Op && a.XID == b.XID && a.Added == b.Added && a.Expiry == b.Expiry &&
		bytes.Equal(a.Data, b.Data)
}

func TestRecordGolden(t *testing.T) {
	for _, tt := range recordTests {
		t.Run(tt.name, func(t *testing.T) {
			golden := unhex(t, tt.bytes)
			if got := Append([]byte("x"), &tt.rec); !bytes.Equal(got[1:], golden) || got[0] != 'x' {
				t.Errorf("Append = %x, want %x", got[1:], golden)
			}
			var got Record
			n, err := Decode(append(bytes.Clone(golden), 0xff), &got)
			if n != len(golden) || err != nil || !sameRecord(got, tt.rec) {
				t.Errorf("Decode(%x) = %+v, %d, %v, want %+v", golden, got, n, err, tt.rec)
			}
			for i := range golden { // cut anywhere, a record is incomplete
				if n, err := Decode(golden[:i], &got); n != 0 || err != ErrIncomplete {
					t.Errorf("Decode(%x) = %d, %v, want %v", golden[:i], n, err, ErrIncomplete)
				}
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, tt := range []struct{ bytes, want string }{
		{"0a", "unknown opcode"},
		{"ff", "unknown opcode"},
		{"00 00000000", "size 0 is less than 4"},
		{"00 03000000 0000", "size 3 is less than 4"},
		{"02 0f000000", "size 15 is less than 16"},
		{"02 ffffffff 0068e5cf8b010000 0000000000000000", "size -1 is less than 16"},
		{"07 01000000 00000080", "size -2147483648 is less than 16"},
		{"08 01000000 0f000000", "size 15 is less than 16"},
	} {
		src := unhex(t, tt.bytes)
		var rec Record
		n, err := Decode(src, &rec)
		var bad *RecordError
		if n != 0 || !errors.As(err, &bad) || bad.Reason != tt.want || bad.Op != Op(src[0]) {
			t.Errorf("Decode(%x) = %d, %v, want %s", src, n, err, tt.want)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	src := unhex(t, recordTests[3].bytes)
	var rec Record
	if n := testing.AllocsPerRun(100, func() { Decode(src, &rec) }); n != 0 {
		t.Errorf("Decode allocates %v times", n)
	}
}
