package main

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkFirstTouch is what new memory costs, a page: the kernel's part, and on a virtual machine
// what its host takes to provide it, if it has taken it back.
func BenchmarkFirstTouch(b *testing.B) {
	const size = 256 << 20
	for b.Loop() {
		memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			b.Fatal(err)
		}
		for page := range slices.Chunk(memory, os.Getpagesize()) {
			page[0] = 1
		}
		if err := unix.Munmap(memory); err != nil {
			b.Fatal(err)
		}
	}
	pages := float64(b.N) * float64(size/os.Getpagesize())
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/pages, "ns/page")
}
