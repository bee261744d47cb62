package oldjournal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// vectors are directories of the original and what is in their queues. Of damaged ones, salvage
// says what is left.
var vectors = []struct {
	name    string
	files   map[string]string
	want    map[string]string // by queue, the items in the order of delivery
	damage  string            // start of the error without Salvage; the queue is then want with it
	torn    string            // the tear
	skipped string            // names of the files that nothing is read from
}{{
	name:  "J01 interleaved transactions",
	files: map[string]string{"things": "A(house) A(cat) V(1) V(2) U(1) C(2)"},
	want:  map[string]string{"things": "house"},
}, {
	name: "J02 open reads at the end go back, oldest first",
	files: map[string]string{
		"q": "A(one) A(two) A(three) A(four) A(five) V(1) V(2) V(3) V(4) C(2) C(4)",
	},
	want: map[string]string{"q": "one three five"},
}, {
	name:  "J03 several files",
	files: map[string]string{"q.50": "A(a)", "q.100": "A(b) R", "q.3000": "A(c)", "q": "A(d)"},
	want:  map[string]string{"q": "b c d"},
}, {
	name: "J04 finished pack not yet cleaned up",
	files: map[string]string{
		"q.50": "A(a)", "q.100": "A(b)", "q.100.pack": "A(z)", "q.3000": "A(c)", "q": "",
	},
	want:    map[string]string{"q": "z c"},
	skipped: "q.100 q.50",
}, {
	name:  "J05 no current file",
	files: map[string]string{"oranges.101": "A(a)", "oranges.133": "A(b)"},
	want:  map[string]string{"oranges": "a b"},
}, {
	name:    "J06 temporary file is ignored",
	files:   map[string]string{"q": "A(a)", "q~~900": "A(b)"},
	want:    map[string]string{"q": "a"},
	skipped: "q~~900",
}, {
	name:  "J07 truncated tail",
	files: map[string]string{"q": "A(a) 0x02130000000068e5"},
	want:  map[string]string{"q": "a"},
	torn:  "q: at offset 22, opcode 2: the file ends inside the record",
}, {
	name:   "J08 unknown opcode",
	files:  map[string]string{"q": "A(a) 0x7f A(b)"},
	want:   map[string]string{"q": "a"},
	damage: "q: at offset 22, opcode 127: unknown opcode, though an item seems to follow at offset 23",
}, {
	name:  "J09 zero block at the end",
	files: map[string]string{"q": "A(a) 0*64"},
	want:  map[string]string{"q": "a"},
	torn:  "q: at offset 22, opcode 0: only zeros up to the end of the file",
}, {
	name:  "J10 removes beyond the end",
	files: map[string]string{"q": "A(a) R R A(b)"},
	want:  map[string]string{"q": "b"},
}, {
	name:  "J11 oldest add format",
	files: map[string]string{"q": "0x00090000000000000068656c6c6f"},
	want:  map[string]string{"q": "hello"},
}, {
	name:  "J12 open reads of a 1.x rewritten journal",
	files: map[string]string{"q": "X(5)a T X(7)b T S(7) A(c) C(5)"},
	want:  map[string]string{"q": "b c"},
}, {
	name:  "J13 continue",
	files: map[string]string{"q": "A(one) V(1) W(1)two"},
	want:  map[string]string{"q": "two"},
}, {
	name:  "J14 fanout child",
	files: map[string]string{"jobs": "", "jobs+client1": "A(x)"},
	want:  map[string]string{"jobs": "", "jobs+client1": "x"},
}, {
	// Replay does not look at the clock; who takes the items in drops the expired one.
	name:  "J15 expired on load",
	files: map[string]string{"q": "E(1000)a A(b)"},
	want:  map[string]string{"q": "a b"},
}, {
	name:  "J16 packed file with placeholders",
	files: map[string]string{"q.100": "A(open) V(7) A() A() A(m)", "q": "R R C(7)"},
	want:  map[string]string{"q": "m"},
}, {
	name: "the numbers of files are not words",
	files: map[string]string{
		"q.9": "A(a)", "q.10": "A(b)", "q.9223372036854775807": "A(c)", "q": "A(d)",
	},
	want: map[string]string{"q": "a b c d"},
}, {
	name: "two packs",
	files: map[string]string{
		"q.5": "A(a)", "q.7.pack": "A(b)", "q.9": "A(c)", "q.9.pack": "A(d)", "q.12": "A(e)",
	},
	want:    map[string]string{"q": "d e"},
	skipped: "q.5 q.7.pack q.9",
}, {
	name: "files of nobody",
	files: map[string]string{
		".status": "", "work.bak": "A(b)", "work": "A(a)", "a~b": "", "work.-1": "", "work.1.2": "",
		"work.9223372036854775808": "", "work.pack": "", ".7": "",
	},
	want: map[string]string{"work": "a"},
	skipped: ".7 .status a~b work.-1 work.1.2 work.9223372036854775808 work.bak" +
		" work.pack",
}, {
	name:   "damage in an archived file",
	files:  map[string]string{"q.1": "A(a) 0x0213", "q": "A(b)"},
	want:   map[string]string{"q": "a b"},
	damage: "q.1: at offset 22, opcode 2: the file ends inside the record, and another file follows",
}, {
	name:  "the last file that has anything is torn",
	files: map[string]string{"q.1": "A(a) 0x0213", "q.2": "", "q": ""},
	want:  map[string]string{"q": "a"},
	torn:  "q.1: at offset 22, opcode 2: the file ends inside the record",
}, {
	name:  "a size that takes in other items",
	files: map[string]string{"q": "A(a) 0x02ff0000000068e5cf8b0100000000000000000000 A(b) R A(c)"},
	want:  map[string]string{"q": "a"},
	damage: "q: at offset 22, opcode 2: the file ends inside the record," +
		" though an item seems to follow at offset 43",
}, {
	name:   "a negative size",
	files:  map[string]string{"q": "A(a) 0x02ffffffff"},
	want:   map[string]string{"q": "a"},
	damage: "q: at offset 22, opcode 2: size -1 is less than 16",
}, {
	name:  "zeros in the middle",
	files: map[string]string{"q": "A(a) 0*64 A(b)"},
	want:  map[string]string{"q": "a"},
	damage: "q: at offset 22, opcode 0: size 0 is less than 4," +
		" though an item seems to follow at offset 86",
}, {
	name:  "an xid in use again",
	files: map[string]string{"q": "A(a) A(b) A(c) V(1) V(1) C(1)"},
	want:  map[string]string{"q": "a c"},
}, {
	name:  "xids that have wrapped around",
	files: map[string]string{"q": "A(a) A(b) A(c) S(2147483647) T T U(-2147483648)"},
	want:  map[string]string{"q": "b a c"},
}, {
	name:  "xids skip 0 and those in use",
	files: map[string]string{"q": "A(a) A(b) A(c) V(1) S(-1) T T C(2) C(1)"},
	want:  map[string]string{"q": "c"},
}, {
	name:  "2.x takes over from 1.x, which confirmed its last read",
	files: map[string]string{"q": "A(a) A(b) T C(1) U(0) R"},
	want:  map[string]string{"q": "b"},
}, {
	name:  "2.x takes over from 1.x, which had two open reads",
	files: map[string]string{"q": "A(a) A(b) A(c) T T U(0) R"},
	want:  map[string]string{"q": "a c"},
}, {
	name:  "2.x takes over from 1.x, which aborted its last read",
	files: map[string]string{"q": "A(a) A(b) T U(1) U(0) R"},
	want:  map[string]string{"q": "b"},
}}

func TestVectors(t *testing.T) {
	for _, tt := range vectors {
		t.Run(tt.name, func(t *testing.T) {
			dir := directory(t, tt.files)
			queues, skipped := planned(dir)
			var names []string
			for _, s := range skipped {
				names = append(names, s.Name)
			}
			if got := strings.Join(names, " "); got != tt.skipped {
				t.Errorf("skipped %s, want %s", got, tt.skipped)
			}
			got := make(map[string]string)
			for _, files := range queues {
				q, err := Load(dir, files, LoadOptions{})
				if tt.damage != "" {
					checkDamage(t, err, tt.damage)
					q, err = Load(dir, files, LoadOptions{Salvage: true})
				}
				if err != nil {
					t.Fatalf("Load(%s): %v", files.Queue, err)
				}
				torn := ""
				if q.Torn != nil {
					torn = q.Torn.String()
				}
				if torn != tt.torn {
					t.Errorf("torn: %s, want %s", torn, tt.torn)
				}
				got[files.Queue] = strings.Join(contents(t, dir, q), " ")
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func checkDamage(t *testing.T, err error, want string) {
	t.Helper()
	var damage *DamageError
	if !errors.As(err, &damage) || !errors.Is(err, ErrDamaged) {
		t.Fatalf("Load: %v, want a DamageError: %s", err, want)
	}
	if damage.Error() != want {
		t.Errorf("damage: %s\nwant    %s", damage, want)
	}
}

// TestVectorBytes compares the first vector with its bytes, so that the notation of the others is
// not taken on trust.
func TestVectorBytes(t *testing.T) {
	want := unhex(t, `02 15 00 00 00 00 68 e5 cf 8b 01 00 00 00 00 00 00 00 00 00 00 68 6f 75 73 65
		02 13 00 00 00 00 68 e5 cf 8b 01 00 00 00 00 00 00 00 00 00 00 63 61 74
		09 01 00 00 00 09 02 00 00 00 05 01 00 00 00 06 02 00 00 00`)
	if got := script(t, vectors[0].files["things"]); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestLoadTimes tests that items keep what is said about them.
func TestLoadTimes(t *testing.T) {
	dir := directory(t, map[string]string{
		"q.1": "A(a) 0x0005000000 0x00f15365 0x62",
		"q":   "E(1700000005000)c X(9)d T A(torn) 0x02",
	})
	queues, _ := planned(dir)
	q, err := Load(dir, queues[0], LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Item{
		{Added: at, Offset: 21, Size: 1, File: 0}, // opened by the T
		{Expiry: at, Offset: 31, Size: 1, File: 0},
		{Added: at, Expiry: at + 5000, Offset: 21, Size: 1, File: 1},
		{Added: at, Offset: 47, Size: 1, File: 1},
		{Added: at, Offset: 70, Size: 4, File: 1},
	}
	if !slices.Equal(q.Items, want) {
		t.Errorf("items %+v, want %+v", q.Items, want)
	}
	if q.Records != 6 || q.Bytes != 8 || q.Returned != 1 {
		t.Errorf("%d records, %d bytes, %d returned, want 6, 8, 1", q.Records, q.Bytes, q.Returned)
	}
	if q.Torn == nil || q.Torn.Offset != 74 || q.Torn.Size != 1 {
		t.Errorf("torn %v, want at 74", q.Torn)
	}
}
