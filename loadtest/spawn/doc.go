// Package spawn starts servers to be measured, on processors of their own and in directories of their own. It reads
// what they cost: processor time and resident memory.
//
// A server dies with the thread that started it, so a program that is killed leaves none behind. The thread that calls
// Start must therefore be locked to its goroutine and outlive the server.
//
// The package runs on Linux only.
package spawn
