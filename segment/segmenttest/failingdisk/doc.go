// Package failingdisk has a file system of FUSE whose reads fail when a test says so, as those of a dying disk
// do. It shows the files of one directory, read-only.
//
// Another process serves it. A thread that faults on a map of such a file waits for the answer. It may hold what Go's
// runtime would need to give one. The process is the test's own program, started again: its main function passes its
// arguments to [Served] first.
package failingdisk
