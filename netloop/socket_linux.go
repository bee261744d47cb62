package netloop

import (
	"syscall"
	"unsafe"
)

// sendNow sends what the socket takes without waiting.
//
// It is a raw system call. It cannot block, so it need not enter the scheduler, and that saves much of the cost of a
// short reply. MSG_NOSIGNAL keeps a closed peer from raising SIGPIPE.
func sendNow(fd int, p []byte) (n int, err syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
		uintptr(len(p)), syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// receiveNow reads what there is into p without waiting, like sendNow.
func receiveNow(fd int, p []byte) (n int, err syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])),
		uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}
