// Package backup writes the queues of a running engine to a stream or a directory, and brings them back.
//
// A backup is the data directory as a crash at one moment would have left it: sealed segments and runs, whose
// bytes never change. The stream is a tar archive of these files, with their sums in a last file, MANIFEST.
// In a directory each file also has its sum in its name. So a file never takes the place of another one, and
// MANIFEST, which is replaced last, always names a whole backup, whenever the process dies. What an earlier
// try has brought is not asked for again.
package backup
