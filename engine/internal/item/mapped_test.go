//go:build !race

package item

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestArenaIsUnmapped tests that the memory of an arena goes when it and its chunks are garbage, and
// not as long as there is a chunk.
func TestArenaIsUnmapped(t *testing.T) {
	mapped := func(at uintptr) bool {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, at, MaxChunkSize, unix.MADV_NORMAL)
		return errno == 0
	}
	c := NewArena(1 << 30).take()
	c.Buf = append(c.Buf, 1)
	at := uintptr(unsafe.Pointer(&c.Buf[0]))
	if at%MaxChunkSize != 0 {
		t.Errorf("a chunk begins at %#x, not at a multiple of its size", at)
	}
	for range 3 {
		runtime.GC()
	}
	if !mapped(at) {
		t.Fatal("the memory of a chunk in use is gone")
	}
	runtime.KeepAlive(c)
	for range 1000 {
		if runtime.GC(); !mapped(at) {
			return
		}
		runtime.Gosched()
	}
	t.Error("the memory of an arena that nothing refers to is still there")
}
