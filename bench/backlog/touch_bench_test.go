package main

import (
	"os"
	"testing"
)

// BenchmarkFirstTouch measures what a new page of memory costs: the kernel's part. On a virtual machine it is also the
// time that the host takes to provide the page, if it has taken it back.
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
