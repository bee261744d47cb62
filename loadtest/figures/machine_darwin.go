package figures

import "golang.org/x/sys/unix"

// memorySize returns the bytes of memory that the machine has; 0: the system does not say.
func memorySize() int64 {
	size, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(size)
}
