//go:build !race

package engine

import "golang.org/x/sys/unix"

// mapMemory returns n bytes, zero and outside of Go's heap if mapped is true. They take memory when
// they are first written or read.
func mapMemory(n int) (b []byte, mapped bool) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil { // of a limit on addresses; if there is no memory either, Go's runtime says so
		return make([]byte, n), false
	}
	return b, true
}

func unmapMemory(b []byte) { unix.Munmap(b) }

// releaseMemory gives the memory of b, whole pages of mapMemory, back to the kernel; b is zero
// then. If the kernel refuses, it stays.
func releaseMemory(b []byte) { unix.Madvise(b, unix.MADV_DONTNEED) }
