// Package worklist has what goroutines of the background have to do. A [List] is a FIFO of what waits for one of them. A
// [Set] has what one looks at now and then. Any goroutine may add to either.
package worklist
