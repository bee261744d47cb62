package netloop

import "syscall"

// sendNow sends what the socket, which does not block, takes without waiting. Go's runtime passes over
// the SIGPIPE of a closed peer.
func sendNow(fd int, p []byte) (n int, err syscall.Errno) { return call(syscall.Write(fd, p)) }

// receiveNow reads what there is into p without waiting, like sendNow.
func receiveNow(fd int, p []byte) (n int, err syscall.Errno) { return call(syscall.Read(fd, p)) }

func call(n int, err error) (int, syscall.Errno) {
	if errno, ok := err.(syscall.Errno); ok {
		return 0, errno
	}
	return n, 0
}
