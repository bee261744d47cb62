// Package nap sleeps for a part of a millisecond. The runtime's own timers are late by up to a millisecond while a
// process has nothing to do: it then waits in epoll_wait, which counts in milliseconds.
package nap
