package loadtest

import (
	"errors"
	"fmt"
	"strings"
)

// ErrStalled means that a batch was not answered within Options.ReplyWait.
var ErrStalled = errors.New("loadtest: no reply in time")

// maxErrorBytes bounds how much of a wrong reply an error prints, and maxErrorItems how many
// missing items.
const (
	maxErrorBytes = 160
	maxErrorItems = 8
)

// A ReplyError says which reply of a server was wrong, and how.
type ReplyError struct {
	Queue      string
	Operation  Operation
	Connection int    // index of the connection in its group, from 0
	Request    int    // index of the request in its batch, from 0
	Problem    string // what is wrong with it
	Got        []byte // what arrived, from the first byte of the wrong reply, or the wrong item; cut
	Want       []byte // the reply or the value that was due, if that is known; cut
	GotSize    int    // bytes before the cut
	WantSize   int
}

// Error describes the reply in one line, long bytes cut.
func (e *ReplyError) Error() string {
	text := fmt.Sprintf("loadtest: queue %q, %v connection %d, request %d of its batch: %s: got %s",
		e.Queue, e.Operation, e.Connection, e.Request, e.Problem, quoteBytes(e.Got, e.GotSize))
	if e.WantSize > 0 {
		text += ", want " + quoteBytes(e.Want, e.WantSize)
	}
	return text
}

// quoteBytes quotes b, of which there were size bytes, cut after maxErrorBytes.
func quoteBytes(b []byte, size int) string {
	if size <= maxErrorBytes {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("%q… (%d bytes)", b[:maxErrorBytes], size)
}

// A LostError says which items were acknowledged and never delivered.
type LostError struct {
	Lost  int64  // items
	Items []Item // the first of them
}

// Error names the first items.
func (e *LostError) Error() string {
	var names []string
	for _, item := range e.Items {
		names = append(names, item.String())
	}
	more := ""
	if n := e.Lost - int64(len(e.Items)); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("loadtest: %d items were acknowledged and not delivered: %s%s", e.Lost,
		strings.Join(names, ", "), more)
}

// Check returns a *LostError if items are missing.
func (l *Ledger) Check() error {
	items, lost := l.Missing(maxErrorItems)
	if lost == 0 {
		return nil
	}
	return &LostError{Lost: lost, Items: items}
}
