// Package processor lets long work make room for what others wait for: goroutines of this process, and threads of any.
//
// Go's scheduler knows of goroutines alone. On a machine whose processors are all busy, an event loop waits in the
// kernel's queue for one. Linux lets a thread that does not sleep run until the next tick, which is up to 4 ms. So work
// that goes on for longer than that, in pieces, gives its processor back between them. A call costs about a microsecond
// where nobody waits.
package processor
