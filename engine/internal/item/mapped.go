//go:build !race

package item

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

// mapMemory returns n bytes, which are zero, and the mapping that they are in, for unmapMemory; nil
// if they are of Go's heap. They begin at a huge page, and take memory when they are first used.
func mapMemory(n int) (b, mapping []byte) {
	m, err := unix.Mmap(-1, 0, n+segment.HugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil { // of a limit on addresses; if there is no memory either, Go's runtime says so
		return make([]byte, n), nil
	}
	skip := int(-uintptr(unsafe.Pointer(&m[0])) & (segment.HugePage - 1))
	b = m[skip : skip+n : skip+n]
	segment.AdviseHuge(b)
	return b, m
}

func unmapMemory(mapping []byte) { unix.Munmap(mapping) }
