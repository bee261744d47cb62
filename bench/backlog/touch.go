package main

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

// used is how much memory a server uses that keeps so many bytes of items in memory. It counts these, with what the
// server adds to each, and what the page cache has of its log.
func used(items byteSize) int64 { return int64(items) * 5 / 2 }

// touch uses size bytes of memory, at most half of what there is, and gives them back, right before a
// server starts. The host of a virtual machine provides memory when it is first used, which costs many
// times what the use does. It may take back what is free, a few seconds later, and processors stand still for
// milliseconds meanwhile. So nobody measures latencies where much was touched.
func touch(size int64) error {
	if size == 0 {
		return nil
	}
	available, err := memoryAvailable()
	if err != nil {
		return err
	}
	return touchPages(min(size, available/2))
}

// touchPages has the kernel provide size bytes of memory of its own, page by page, and gives them
// back.
func touchPages(size int64) error {
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	// Hosts take back what is free in large pieces, which are what huge pages are made from.
	segment.AdviseHuge(memory)
	for page := range slices.Chunk(memory, os.Getpagesize()) {
		page[0] = 1
	}
	return os.NewSyscallError("munmap", unix.Munmap(memory))
}
