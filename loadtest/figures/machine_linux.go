package figures

import "golang.org/x/sys/unix"

// memorySize returns the bytes of memory that the machine has; 0: the system does not say.
func memorySize() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
