package loadtest

import (
	"errors"
	"fmt"
)

// ErrStalled means that a batch was not answered within Options.ReplyWait.
var ErrStalled = errors.New("loadtest: no reply in time")

// maxErrorBytes bounds how much of a wrong reply an error prints.
const maxErrorBytes = 160

// A ReplyError says which reply of a server was wrong, and how.
type ReplyError struct {
	Connection int    // index of the connection, from 0
	Request    int    // index of the request in its batch, from 0
	Problem    string // what is wrong with it
	Got        []byte // what arrived, from the first byte of the wrong reply
	Want       []byte // the reply or the value that was due
}

// Error describes the reply in one line, long bytes cut.
func (e *ReplyError) Error() string {
	return fmt.Sprintf("loadtest: connection %d, request %d of its batch: %s: got %s, want %s",
		e.Connection, e.Request, e.Problem, quoteBytes(e.Got), quoteBytes(e.Want))
}

// quoteBytes quotes b, cut after maxErrorBytes.
func quoteBytes(b []byte) string {
	if len(b) <= maxErrorBytes {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q… (%d bytes)", b[:maxErrorBytes], len(b))
}
