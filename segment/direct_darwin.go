package segment

import "golang.org/x/sys/unix"

// setDirect has the file be used past the page cache, or through it again.
func (f uncachedFile) setDirect(on bool) error {
	past := 0
	if on {
		past = 1
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_NOCACHE, past)
	return err
}
