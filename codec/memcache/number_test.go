package memcache

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestParseInt32(t *testing.T) {
	tests := []struct {
		in   string
		want int32
		ok   bool
	}{
		{"0", 0, true},
		{"-0", 0, true},
		{"7", 7, true},
		{"+7", 7, true},
		{"-7", -7, true},
		{"007", 7, true},
		{"2147483647", math.MaxInt32, true},
		{"-2147483648", math.MinInt32, true},
		{"2147483648", 0, false},
		{"-2147483649", 0, false},
		{"4294967297", 0, false},
		{"18446744073709551617", 0, false},
		{"99999999999999999999999999999999999999999", 0, false},
		{"-99999999999999999999999999999999999999999", 0, false},
		{"", 0, false},
		{"-", 0, false},
		{"+", 0, false},
		{"--1", 0, false},
		{"+-1", 0, false},
		{"1-", 0, false},
		{"1 ", 0, false},
		{" 1", 0, false},
		{"1_0", 0, false},
		{"0x1", 0, false},
		{"1.", 0, false},
		{"1e3", 0, false},
		{"\x00", 0, false},
		{"\u0661", 0, false}, // a digit, but not an ASCII one
	}
	for _, tt := range tests {
		got, ok := parseInt32([]byte(tt.in))
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("parseInt32(%q) = %d, %t, want %d, %t", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

// TestScanNumber compares with arbitrary-precision arithmetic.
func TestScanNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[-+]?[0-9]{1,25}`).Draw(t, "word")
		rest := rapid.SampledFrom([]string{"", " ", " 5", " x"}).Draw(t, "rest")
		before := rapid.SampledFrom([]string{"", "-", "7 ", "x "}).Draw(t, "before")
		got, end, ok := scanNumber([]byte(before+word+rest), len(before))
		if !ok || end != len(before+word) {
			t.Fatalf("scanNumber(%q) = end %d, %t, want %d", before+word+rest, end, ok, len(before+word))
		}
		want, parsed := new(big.Int).SetString(word, 10)
		if !parsed {
			t.Fatalf("big.Int cannot parse %q", word)
		}
		fits := want.IsInt64() && isFlags(want.Int64())
		if isFlags(got) != fits || fits && got != want.Int64() {
			t.Fatalf("scanNumber(%q) = %d, want %v", word, got, want)
		}
	})
}
