package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

var (
	// ErrCorrupt is what every [*CorruptionError] unwraps to.
	ErrCorrupt = errors.New("segment: log is damaged")
	// ErrPoisoned is returned by every method that writes, from the first failed Datasync on. Nobody knows any longer
	// what the log holds on disk, and only reopening the log shows it.
	ErrPoisoned = errors.New("segment: an earlier sync failed, so nothing more is written to this file")
	// ErrNames is wrapped by the error of a RunWriter's Sync that could not sync the directory. The names of all files
	// made there since the last sync that succeeded are in doubt. No later sync of the directory proves that they are
	// durable.
	ErrNames = errors.New("segment: the directory could not be synced, so a power cut may lose the names of new files")
	// ErrClosed is returned by methods of a closed log.
	ErrClosed = errors.New("segment: log is closed")
	// ErrTooLarge is returned by Append for a payload of more than MaxPayloadSize bytes.
	ErrTooLarge = errors.New("segment: frame is too large")
)

// A CorruptionError says where stored bytes failed validation. It unwraps to ErrCorrupt.
type CorruptionError struct {
	Path   string
	Offset int64 // bytes from the start of the file
	Reason string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("%s: damaged at offset %d: %s", e.Path, e.Offset, e.Reason)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptionError) Unwrap() error { return ErrCorrupt }

// Cause returns why an operation on a file failed, for an error that says itself what was done to which file. The error
// of a [File] says that too, and names the file as it was called when it was opened.
func Cause(err error) error {
	if onPath, ok := err.(*fs.PathError); ok {
		return onPath.Err
	}
	return err
}

// OutOfFiles reports whether an error says that the process, or the machine, has no descriptor left.
// What was asked for has not begun then: nothing is lost, and the call may be repeated.
func OutOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
