package segment

import "golang.org/x/sys/unix"

// AdviseHuge asks the kernel to have b, whole pages of memory, lie in huge pages. If it refuses, small
// pages do.
func AdviseHuge(b []byte) { unix.Madvise(b, unix.MADV_HUGEPAGE) }
