package main

import (
	"errors"
	"time"
)

// errBroken is what a link returns when the connection is over, or the process dead.
var errBroken = errors.New("sim: connection is over")

// errUnsure is an answer that says that nobody knows whether what was asked for has happened.
var errUnsure = errors.New("sim: nobody knows")

// errFull is an answer that says the same, and gives a reason: the disk is full, or only a part was stored.
var errFull = errors.New("sim: nobody knows, the disk is full")

// errRefused is an answer that says that nothing has happened.
var errRefused = errors.New("sim: refused")

// errNone says that there is no item.
var errNone = errors.New("sim: no item")

// handed is an item that a link has brought, and what names its open read, or its lease.
type handed struct {
	data       []byte
	id         any
	deliveries int  // how often it was delivered, this time included, as the server says; 0: it does not say
	late       bool // it was not in line, until the clock was set
}

// link is how a client speaks with the server. Every method sends a request and waits for what comes
// back: nil, or one of the errors above; errBroken is for good.
type link interface {
	put(queue string, life time.Duration, items [][]byte) []error
	// putDelayed puts items that are hidden for so long.
	putDelayed(queue string, delay time.Duration, items [][]byte) []error
	take(queue string, wait time.Duration, n int) ([]handed, error)
	open(queue string, wait time.Duration) (handed, error)
	confirm(queue string, id any) error
	abort(queue string, id any) error
	// closeOpen confirms the oldest open read of the queue, which is id, and opens the next.
	closeOpen(queue string, id any, wait time.Duration) (handed, error)
	peek(queue string) ([]byte, error)
	flush(queue string) error
	expire(queue string) error
	delete(queue string) error
	// stuff asks for a peek so many times and reads nothing.
	stuff(queue string, n int)
	// kept is how many bytes of replies the server keeps for the client.
	kept() int
	// blindPut and blindTake send a request and wait for nothing.
	blindPut(queue string, life time.Duration, items [][]byte)
	blindTake(queue string, n int)
	// reset ends the connection; with half, after the client has closed its sending side, and reads on.
	reset(half bool)
}

// leaser is what a link can do with delays and leases.
type leaser interface {
	// lease fetches an item for so long; its id is the receipt.
	lease(queue string, d, wait time.Duration) (handed, error)
	// endLease ends a lease, or makes it longer, and returns errNone if the receipt holds nothing.
	endLease(queue string, receipt uint64, how ending, d time.Duration) error
}

// monitorer can monitor a queue.
type monitorer interface {
	// monitor opens up to n items, and waits for them.
	monitor(queue string, wait time.Duration, n int) ([]handed, error)
}

// ending is how a lease ends, or what else is asked of it.
type ending string

const (
	endConfirm ending = opConfirmLease
	endAbort   ending = opAbortLease
	endRelease ending = opReleaseLease
	endReject  ending = opRejectLease
	endExtend  ending = opExtendLease
)
