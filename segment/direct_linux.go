package segment

import "golang.org/x/sys/unix"

// setDirect has the file be used past the page cache, or through it again: its disk asks for more
// than blocks, or a call that ended early has left a part of one to be read or written.
func (f uncachedFile) setDirect(on bool) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags &^= unix.O_DIRECT; on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	return err
}
