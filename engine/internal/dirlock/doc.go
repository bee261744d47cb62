// Package dirlock keeps other processes out of a data directory, by a lock on a file in it.
package dirlock
