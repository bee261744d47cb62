package loadtest

import (
	"strings"
	"testing"
)

func TestAppendValue(t *testing.T) {
	const golden = "0000002a" + "." + "0000000000000103" + "." + "TUVWXYZ0123456789-_abcde"
	if got := string(appendValue(nil, len(golden), 42, 0x103)); got != golden {
		t.Errorf("appendValue = %q, want %q", got, golden)
	}
	if got, want := string(appendValue([]byte("x"), 3, 42, 1)), "x000"; got != want {
		t.Errorf("appendValue to a short size = %q, want %q", got, want)
	}
	for size := range 300 {
		if got := len(appendValue(nil, size, 1, 63)); got != size {
			t.Fatalf("appendValue of %d bytes has %d", size, got)
		}
	}
}

func TestOrderChecker(t *testing.T) {
	item := func(producer uint32, seq uint64) []byte { return appendValue(nil, 40, producer, seq) }
	damaged := item(7, 5)
	damaged[39] ^= 1
	for _, tt := range []struct {
		name  string
		sole  bool
		items [][]byte
		want  string // what is wrong with the last item
	}{
		{"rising by one", true, [][]byte{item(7, 5), item(7, 6)}, ""},
		{"gap", true, [][]byte{item(7, 5), item(7, 7)}, "item 7 out of order, due is 6"},
		{"repeated", true, [][]byte{item(7, 5), item(7, 5)}, "item 5 out of order, due is 6"},
		{"gap, shared queue", false, [][]byte{item(7, 5), item(7, 9)}, ""},
		{"falling, shared queue", false, [][]byte{item(7, 5), item(7, 4)},
			"item 4 out of order, due is 6"},
		{"other queue", true, [][]byte{item(8, 5)}, "item of another queue"},
		{"damaged", true, [][]byte{damaged}, "damaged value"},
		{"no stamp", true, [][]byte{[]byte(strings.Repeat("x", 40))}, "value without a stamp"},
		{"short", true, [][]byte{[]byte("x")}, "value without a stamp"},
		{"upper case", true, [][]byte{[]byte("AAAAAAAA.AAAAAAAAAAAAAAAA.")}, "value without a stamp"},
	} {
		c := orderChecker{producer: 7, sole: tt.sole}
		var got string
		for i, value := range tt.items {
			if got != "" {
				t.Errorf("%s: item %d is wrong: %s", tt.name, i-1, got)
			}
			got, _ = c.check(value)
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
