package segment

import "io"

// FS is the file system a [Log] lives on. [OS] is the real one; segmenttest.FS keeps only what was
// synced. Paths are slash-separated and are passed through unchanged. Errors of a missing file
// satisfy errors.Is(err, fs.ErrNotExist), those of an existing one fs.ErrExist.
//
// A change to a directory (Create, Rename, Remove) is durable only after SyncDir of the directory that has the name.
// MkdirAll makes its own result durable.
type FS interface {
	// Create makes a new, empty file open for reading and writing. It fails if the name exists.
	Create(path string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(path string) (File, error)
	// OpenReadOnly opens an existing file for reading; File's writing methods then fail.
	OpenReadOnly(path string) (File, error)
	// Rename gives the file at from the name to, replacing a file that has that name.
	Rename(from, to string) error
	// Remove deletes a file or an empty directory.
	Remove(path string) error
	// List returns the names in a directory, in no particular order, without their path.
	List(dir string) ([]string, error)
	// MkdirAll makes a directory and the parents it lacks, and makes their names durable, also those that it finds. A
	// process before may have died between making one and syncing it.
	MkdirAll(dir string) error
	// SyncDir makes the names in a directory durable. After an error it is not known which of them are, and a later
	// call proves nothing of those changed before. If the error is OutOfFiles, a later call does cover them.
	SyncDir(dir string) error
}

// File is one open file. ReadAt and WriteAt may be called from several goroutines at once.
//
// What WriteAt wrote is durable after Datasync returned nil. After a Datasync that failed, nothing may be assumed of
// bytes written since the last one that succeeded. A second call proves nothing, because the kernel may have dropped
// the dirty pages while it reported the error.
type File interface {
	io.ReaderAt
	// WriteAt writes p at offset off. Like io.WriterAt it returns an error if it wrote fewer bytes
	// than asked; the bytes written, and those alone, are then part of the file.
	io.WriterAt
	// Allocate reserves the byte range [0, size) and makes the file at least size bytes long;
	// bytes never written read as zero.
	Allocate(size int64) error
	// Truncate cuts or extends the file to size bytes.
	Truncate(size int64) error
	// Size returns the file's length in bytes.
	Size() (int64, error)
	// NextData returns the offset, from off on, before which every byte reads as zero without being stored. It may
	// return off if it does not know, and Size if there is nothing else.
	NextData(off int64) (int64, error)
	// WriteOut has the disk begin to write those of the bytes [off, off+n) that it does not have yet. It waits for
	// those in the n bytes before. They are durable only after Datasync, which then has less to do; a file system that
	// cannot write parts leaves it everything. An error means what one of Datasync means.
	WriteOut(off, n int64) error
	// Datasync makes the file's bytes and its length durable, though not its name.
	Datasync() error
	io.Closer
}
