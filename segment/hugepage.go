package segment

import "golang.org/x/sys/unix"

// HugePage is the size of the pages that large buffers lie in, in bytes, where the kernel has them:
// 1 MiB of such memory is one piece to the disk, and not 256.
const HugePage = 2 << 20

// AdviseHuge asks the kernel to have b, whole pages of memory, lie in huge pages. If it refuses, small
// pages do.
func AdviseHuge(b []byte) { unix.Madvise(b, unix.MADV_HUGEPAGE) }
