package segment

import "golang.org/x/sys/unix"

// setDirect has the file be used past the page cache, or through it again. The latter is for a disk that needs more
// than whole blocks, and for the rest of a half-done block.
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
