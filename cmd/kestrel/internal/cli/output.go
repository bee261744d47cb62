package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
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

// CheckOutput returns an error if out, the standard output of a command, takes nothing. A command that takes items must
// not begin then. CheckOutput writes nothing to it, which fails on a full device, and looks whether the output was closed
// when the program began. Go's runtime has opened /dev/null in its place, to read and write, so every write succeeds.
// "> /dev/null" opens it to write only, and discards items on purpose. So does who opened it once for several of the
// standard streams: the runtime opens it for each.
func CheckOutput(out io.Writer) error {
	for o, ok := out.(*output); ok; o, ok = out.(*output) { // a shell's commands have two
		out = o.w
	}
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.Write(int(f.Fd()), nil); err != nil {
		return Failed("write to standard output: %v; nothing was taken", err)
	}
	null, err1 := os.Stat(os.DevNull)
	opened, err2 := f.Stat()
	mode, err3 := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if errors.Join(err1, err2, err3) != nil || !os.SameFile(null, opened) || mode&unix.O_ACCMODE != unix.O_RDWR || openedOnce(f.Fd(), mode) {
		return nil
	}
	return Failed("standard output is closed, or is /dev/null opened to read as well, so nothing was taken: '> /dev/null' would discard it")
}

// openedOnce reports whether another standard stream is the same open file as fd, which has that mode. What is set of one
// is then set of the other. To /dev/null O_APPEND means nothing.
func openedOnce(fd uintptr, mode int) bool {
	flag := func(stream uintptr) int {
		flags, err := unix.FcntlInt(stream, unix.F_GETFL, 0)
		if err != nil {
			return 0
		}
		return flags & unix.O_APPEND
	}
	for stream := range uintptr(3) {
		before := flag(stream)
		unix.FcntlInt(fd, unix.F_SETFL, mode|unix.O_APPEND)
		after := flag(stream)
		unix.FcntlInt(fd, unix.F_SETFL, mode)
		if stream != fd && before != after {
			return true
		}
	}
	return false
}
