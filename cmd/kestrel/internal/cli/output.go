package cli

import (
	"errors"
	"io"
	"io/fs"
)

// output is the standard output of a command. It remembers why it could not be written, so that [Run] need not rely on
// each command to look. A pipe that nobody reads any more ends the process by SIGPIPE, as Go's runtime does, and so
// with 141 in a shell.
type output struct {
	w    io.Writer
	lost error // why something is missing; nil if nothing is
}

// Write implements [io.Writer]. Its errors leave out the name of the file, which nobody has typed.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if onPath, ok := err.(*fs.PathError); ok {
		err = onPath.Err
	}
	if err != nil && o.lost == nil {
		o.lost = err
	}
	return n, err
}

// judge returns the error of a command that has ended with err: its output may be incomplete.
func (o *output) judge(err error) error {
	var failed *Failure
	if o.lost == nil || errors.As(err, &failed) || err != nil && !errors.Is(err, o.lost) {
		return err
	}
	return Failed("write to standard output: %v", o.lost)
}
