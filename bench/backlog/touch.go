package main

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// touchFactor is how much memory is touched, in sizes of the backlog: the items and what the page
// cache holds of them, in a journal and in a backlog.
const touchFactor = 3

// touch uses so much memory as a measurement will and gives it back. The host of a virtual machine
// provides memory when it is first used, which costs several times what the use does, and is paid
// by whichever server comes first.
func (o *options) touch() error {
	available, err := memoryAvailable()
	if err != nil {
		return err
	}
	const block = 16 << 20 // bytes
	var blocks [][]byte
	defer func() {
		for _, b := range blocks {
			unix.Munmap(b) // fails only for what was not mapped
		}
	}()
	for left := min(touchFactor*int64(o.size), available/2); left > 0; left -= block {
		b, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return os.NewSyscallError("mmap", err)
		}
		blocks = append(blocks, b)
		for page := range slices.Chunk(b, os.Getpagesize()) {
			page[0] = 1
		}
	}
	return nil
}
