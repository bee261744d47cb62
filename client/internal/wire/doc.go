// Package wire is one connection to a server of the memcache family: it dials, writes requests,
// and reads replies one by one. What to ask, and what an answer means, is up to its caller.
//
// A Conn has one reader and one writer at a time, which may be two goroutines. Deadlines and Close
// may come from any goroutine.
package wire
