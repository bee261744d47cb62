package text

import (
	"bytes"
	"testing"
)

// Whatever stands around it, a byte makes a line foreign or not, at each place of lines of each length.
func TestForeignBytes(t *testing.T) {
	for _, around := range []string{" ", "~", "0", "/", "\xff", "\t"} {
		for size := 1; size < 26; size++ {
			for at := range size {
				for c := range 256 {
					line := bytes.Repeat([]byte(around), size)
					line[at] = byte(c)
					if got, want := isForeign(line), isControl(byte(c)); got != want {
						t.Fatalf("isForeign(%q) = %t, want %t", line, got, want)
					}
				}
			}
		}
	}
}

// A slash is found wherever it stands, so that the version of a protocol is.
func TestForeignVersions(t *testing.T) {
	for size := range 30 {
		line := append(bytes.Repeat([]byte("x"), size), " HTTP/1.1"...)
		if !isForeign(line) {
			t.Errorf("isForeign(%q) is false", line)
		}
		if line[len(line)-4] = '\\'; isForeign(line) {
			t.Errorf("isForeign(%q) is true", line)
		}
	}
}
