package main

import (
	"os"
	"testing"
)

// BenchmarkFirstTouch is what new memory costs, a page: the kernel's part, and on a virtual machine
// what its host takes to provide it, if it has taken it back.
func BenchmarkFirstTouch(b *testing.B) {
	const size = 256 << 20
	for b.Loop() {
		if err := touchPages(size); err != nil {
			b.Fatal(err)
		}
	}
	pages := float64(b.N) * float64(size/os.Getpagesize())
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/pages, "ns/page")
}
