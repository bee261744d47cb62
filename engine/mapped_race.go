//go:build race

package engine

// The race detector does not look at memory outside of Go's heap.

func mapMemory(n int) (b []byte, mapped bool) { return make([]byte, n), false }

func unmapMemory([]byte) {}

func releaseMemory(b []byte) { clear(b) }
