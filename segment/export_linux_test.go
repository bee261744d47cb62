package segment

import "golang.org/x/sys/unix"

// PastCache reports whether a file of OS is used past the page cache.
func PastCache(f File) bool {
	file, ok := f.(uncachedFile)
	if !ok {
		return false
	}
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_DIRECT != 0
}
