// Package worklist is a FIFO of what goroutines of the background have to do. Any goroutine may add to it.
package worklist
