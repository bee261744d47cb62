// Package nap sleeps for a part of a millisecond. While a process has nothing to do, the runtime's own timers are
// late by up to a millisecond. It then waits in epoll_wait, which counts in milliseconds.
package nap
