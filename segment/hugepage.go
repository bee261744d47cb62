package segment

// HugePage is the size of the pages that large buffers lie in, in bytes, where the kernel has them. 1 MiB of such
// memory is one piece to the disk, and not 256.
const HugePage = 2 << 20
