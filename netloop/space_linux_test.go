package netloop

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpaceTables compares what the ledger has for the page tables of spaces with what the system has given for them.
func TestSpaceTables(t *testing.T) {
	tables := func() (n int) {
		b, err := os.ReadFile("/proc/self/status")
		_, line, _ := strings.Cut(string(b), "VmPTE:")
		if _, err2 := fmt.Sscan(line, &n); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		return n << 10
	}
	const spaces = 400
	for _, size := range []int{readSize, 1 << 20, 5 << 20} {
		before := tables()
		for range spaces >> (size >> 20) {
			mem := newSpace(64 << 20)
			defer unix.Munmap(mem)
			for i := 0; i < size; i += os.Getpagesize() {
				mem[i] = 1
			}
		}
		got, most := tables()-before, (spaces>>(size>>20))*(spaceSize(size)-size)
		if got < most/2 || got > most {
			t.Errorf("the tables of %d spaces with %d bytes take %d bytes, and the ledger has %d", spaces>>(size>>20), size, got, most)
		}
	}
}
