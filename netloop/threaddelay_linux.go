package netloop

import (
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readThreadDelay returns the figure of a thread of this process. It reads memory of the kernel only, so its system
// calls are raw: they cannot block. It does not allocate.
func readThreadDelay(thread int) threadDelay {
	var room [48]byte
	path := append(room[:0], "/proc/thread-self/schedstat\x00"...)
	if thread != ownThread {
		path = strconv.AppendInt(append(room[:0], "/proc/self/task/"...), int64(thread), 10)
		path = append(path, "/schedstat\x00"...)
	}
	at := unix.AT_FDCWD
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(at),
		uintptr(unsafe.Pointer(&path[0])), syscall.O_RDONLY|syscall.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return threadDelay{}
	}
	var text [96]byte // three numbers: ns with a processor, ns without, times that it had one
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
	syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	if thread == ownThread {
		self, _, _ := syscall.RawSyscall(syscall.SYS_GETTID, 0, 0, 0)
		thread = int(self)
	}
	if errno != 0 {
		return threadDelay{}
	}
	waited, ok := secondNumber(text[:n])
	return threadDelay{thread: thread, waited: time.Duration(waited), known: ok}
}

// secondNumber returns the second of the decimal numbers in text.
func secondNumber(text []byte) (n int64, ok bool) {
	word := 0
	for _, b := range text {
		switch {
		case b < '0' || b > '9':
			word++
		case word == 1:
			n, ok = n*10+int64(b-'0'), true
		}
	}
	return n, ok
}
