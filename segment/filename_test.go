package segment_test

import (
	"math"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

var fileNameTests = []struct {
	name   string
	number uint64
	ext    string // "" if the name means nothing
}{
	{"0000000001.seg", 1, ".seg"},
	{"0000000042.spare", 42, ".spare"},
	{"9999999999.new", 9999999999, ".new"},
	{"12345678901.seg", 12345678901, ".seg"},
	{"18446744073709551615.seg", math.MaxUint64, ".seg"},
	{"18446744073709551616.seg", 0, ""},
	{"0000000000.seg", 0, ""},
	{"00000000001.seg", 0, ""}, // eleven digits where ten do
	{"000000001.seg", 0, ""},
	{"+000000001.seg", 0, ""},
	{"-000000001.seg", 0, ""},
	{"0000000_01.seg", 0, ""},
	{"0x00000001.seg", 0, ""},
	{"0000000001", 0, ""},
	{"0000000001.", 0, ""},
	{"0000000001.seg.", 0, ""},
	{"0000000001.seg.seg", 0, ""},
	{"0000000001.Seg", 0, ""},
	{"0000000001.torn", 0, ""}, // kept for a human, never read
	{"0000000001.torn.2", 0, ""},
	{" 0000000001.seg", 0, ""},
	{".seg", 0, ""},
	{"", 0, ""},
}

func TestParseFileName(t *testing.T) { // the same cases seed FuzzParseFileName
	for _, tt := range fileNameTests {
		number, ext, ok := segment.ParseFileName(tt.name)
		if number != tt.number || ext != tt.ext || ok != (tt.ext != "") {
			t.Errorf("parseFileName(%q) = %d, %q, %v, want %d, %q",
				tt.name, number, ext, ok, tt.number, tt.ext)
		}
		if ok && segment.FileName(number, ext) != tt.name {
			t.Errorf("fileName(%d, %q) = %q, want %q",
				number, ext, segment.FileName(number, ext), tt.name)
		}
	}
}

// FuzzParseFileName checks that a name is taken if and only if it is one that fileName makes.
func FuzzParseFileName(f *testing.F) {
	for _, tt := range fileNameTests {
		f.Add(tt.name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		number, ext, ok := segment.ParseFileName(name)
		if !ok {
			if number != 0 || ext != "" {
				t.Errorf("parseFileName(%q) = %d, %q, false", name, number, ext)
			}
			return
		}
		if made := segment.FileName(number, ext); made != name || number == 0 {
			t.Errorf("parseFileName(%q) = %d, %q, which make %q", name, number, ext, made)
		}
	})
}
