package segmenttest

import (
	"errors"
	iofs "io/fs"
	"syscall"
	"testing"
)

func TestDamageIsDurable(t *testing.T) {
	f := New()
	check(t, f.WriteFile("a/b/f", []byte("abc")))
	check(t, f.FlipBit("a/b/f", 1, 5))
	check(t, f.WriteFile("g", []byte("long content")))
	check(t, f.WriteFile("g", []byte("short")))
	check(t, f.TruncateFile("g", 7))
	want := map[string]string{"a/b/f": "aBc", "g": "short\x00\x00"}
	wantFiles(t, "now", f, want)
	wantFiles(t, "lose", f.PowerCut(lose), want)
	if got := f.MutatingCalls(); got != 0 {
		t.Errorf("MutatingCalls = %d after damage only, want 0", got)
	}
}

func TestDamageAmongUnsynced(t *testing.T) {
	f := New()
	put(t, f, "f", "abcdef")
	h, err := f.Open("f")
	check(t, err)
	write(t, h, "XYZ", 0)
	check(t, f.FlipBit("f", 1, 0)) // Y becomes X on the disk too
	check(t, f.TruncateFile("f", 5))
	wantFiles(t, "now", f, map[string]string{"f": "XXZde"})
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"f": "aXcde"})
	check(t, h.Datasync())
	wantFiles(t, "synced, lose", f.PowerCut(lose), map[string]string{"f": "XXZde"})
}

func TestWriteFileMakesNameDurable(t *testing.T) {
	f := New()
	put(t, f, "a", "A")
	check(t, f.Rename("a", "b"))
	check(t, create(t, f, "c").Close())
	check(t, f.WriteFile("b", []byte("B"))) // and with it the rename, not the create
	wantFiles(t, "lose", f.PowerCut(lose), map[string]string{"b": "B"})
}

func TestDamageErrors(t *testing.T) {
	f := New()
	put(t, f, "d/f", "abc")
	_, errBytes := f.Bytes("none")
	tests := []struct {
		name string
		got  error
		want error
	}{
		{"Bytes of missing", errBytes, iofs.ErrNotExist},
		{"FlipBit in missing", f.FlipBit("none", 0, 0), iofs.ErrNotExist},
		{"FlipBit past the end", f.FlipBit("d/f", 3, 0), syscall.EINVAL},
		{"FlipBit before the start", f.FlipBit("d/f", -1, 0), syscall.EINVAL},
		{"FlipBit of bit 8", f.FlipBit("d/f", 0, 8), syscall.EINVAL},
		{"TruncateFile missing", f.TruncateFile("none", 0), iofs.ErrNotExist},
		{"TruncateFile to -1", f.TruncateFile("d/f", -1), syscall.EINVAL},
		{"WriteFile over directory", f.WriteFile("d", nil), syscall.EISDIR},
		{"WriteFile below file", f.WriteFile("d/f/x", nil), syscall.ENOTDIR},
		{"WriteFile of root", f.WriteFile("/", nil), syscall.EISDIR},
	}
	for _, tt := range tests {
		if !errors.Is(tt.got, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}
