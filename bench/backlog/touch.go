package main

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// touchFactor is how much memory is touched, in sizes of the backlog: the items and what the page
// cache holds of them, in a journal and in a backlog.
const touchFactor = 3

// touch uses so much memory as a measurement will and gives it back, right before a server starts. The
// host of a virtual machine provides memory when it is first used, which costs many times what the use
// does, and may take back within seconds what is free.
func (o *options) touch() error {
	available, err := memoryAvailable()
	if err != nil {
		return err
	}
	return touchPages(min(touchFactor*int64(o.size), available/2))
}

// touchPages has the kernel provide size bytes of memory of its own, page by page, and gives them
// back.
func touchPages(size int64) error {
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	for page := range slices.Chunk(memory, os.Getpagesize()) {
		page[0] = 1
	}
	return os.NewSyscallError("munmap", unix.Munmap(memory))
}
