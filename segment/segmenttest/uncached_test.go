package segmenttest

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"unsafe"
)

// TestUncached reads and writes what is in whole blocks, and what is not.
func TestUncached(t *testing.T) {
	f := New()
	view := f.Uncached()
	h, err := view.Create("file")
	check(t, err)
	memory := make([]byte, 3*blockSize)
	skip := int(-uintptr(unsafe.Pointer(&memory[0])) % blockSize)
	block := memory[skip : skip+blockSize]
	copy(block, "hello")
	for n := range 2 {
		if _, err := h.WriteAt(block, int64(n)*blockSize); err != nil {
			t.Errorf("write of block %d: %v", n, err)
		}
	}
	check(t, f.TruncateFile("file", blockSize+9))
	read, err := view.OpenReadOnly("file")
	check(t, err)
	if n, err := read.ReadAt(block, blockSize); n != 9 || !errors.Is(err, io.EOF) {
		t.Errorf("read across the end of the file = %d, %v", n, err)
	}
	if n, err := read.ReadAt(block, 2*blockSize); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read behind the end of the file = %d, %v", n, err)
	}
	again, err := view.Open("file")
	check(t, err)
	for _, tt := range []struct {
		what string
		p    []byte
		off  int64
	}{
		{"offset", block, 512},
		{"length", block[:512], 0},
		{"address", memory[skip+8:][:blockSize], 0},
	} {
		if n, err := again.WriteAt(tt.p, tt.off); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("write, %s not in blocks = %d, %v, want EINVAL", tt.what, n, err)
		}
		if n, err := read.ReadAt(tt.p, tt.off); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("read, %s not in blocks = %d, %v, want EINVAL", tt.what, n, err)
		}
	}
	if got, err := f.Bytes("file"); err != nil || len(got) != blockSize+9 || string(got[:5]) != "hello" {
		t.Errorf("file of %d bytes, %v", len(got), err)
	}
}
