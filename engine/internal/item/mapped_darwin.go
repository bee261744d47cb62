//go:build !race

package item

import "golang.org/x/sys/unix"

// releaseMemory lets the kernel take the memory of b, whole pages of mapMemory, when it needs some. What
// b holds is undefined from then on.
func releaseMemory(b []byte) { unix.Madvise(b, unix.MADV_FREE) }
