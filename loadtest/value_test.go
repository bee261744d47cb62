package loadtest

import (
	"testing"
	"time"
)

func TestAppendValue(t *testing.T) {
	const golden = "00ff002a" + "." + "0000000103" + "." + "000000000012c" + "." + "yzABCDEFGHIJKLMN"
	s := stamp{run: 255, producer: 42, seq: 0x103, at: 300}
	l := newLetters(len(golden))
	if got := string(appendValue(nil, len(golden), s, l)); got != golden {
		t.Errorf("appendValue = %q, want %q", got, golden)
	}
	if got, want := string(appendValue([]byte("x"), 3, s, l)), "x00f"; got != want {
		t.Errorf("appendValue to a short size = %q, want %q", got, want)
	}
	for size := range 300 {
		if got := len(appendValue(nil, size, stamp{seq: 63}, newLetters(size))); got != size {
			t.Fatalf("appendValue of %d bytes has %d", size, got)
		}
	}
}

func TestParseStamp(t *testing.T) {
	want := stamp{run: 65535, producer: 65535, seq: maxSeq, at: maxTime}
	value := appendValue(nil, 90, want, newLetters(90))
	if got, ok := parseStamp(value); !ok || got != want {
		t.Errorf("parseStamp(%q) = %v, %v, want %v", value, got, ok, want)
	}
	for i := range stampSize {
		bad := append([]byte(nil), value...)
		bad[i] = 'G'
		if _, ok := parseStamp(bad); ok {
			t.Errorf("parseStamp(%q): no error", bad)
		}
	}
	if _, ok := parseStamp(value[:stampSize-1]); ok {
		t.Error("parseStamp of a value that is too short: no error")
	}
	if maxTime/time.Hour < 24*30 {
		t.Error("the time in a stamp lasts less than a month")
	}
}

// Neighbouring values share no letter at any offset.
func TestLettersDiffer(t *testing.T) {
	l := newLetters(200)
	a := appendValue(nil, 200, stamp{seq: 5, at: 77}, l)
	b := appendValue(nil, 200, stamp{seq: 6, at: 77}, l)
	for i := stampSize; i < 200; i++ {
		if a[i] == b[i] {
			t.Fatalf("values 5 and 6 share %q at %d", a[i], i)
		}
	}
}
