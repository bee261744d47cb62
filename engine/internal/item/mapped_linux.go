//go:build !race

package item

import "golang.org/x/sys/unix"

// releaseMemory gives the memory of b, whole pages of mapMemory, back to the kernel; b is zero
// then. If the kernel refuses, it stays.
func releaseMemory(b []byte) { unix.Madvise(b, unix.MADV_DONTNEED) }
