package oldjournal

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrIncomplete says that the bytes are a proper prefix of a record.
	ErrIncomplete = errors.New("oldjournal: incomplete record")
	// ErrDamaged is what every [*DamageError] unwraps to.
	ErrDamaged = errors.New("oldjournal: file is damaged")
)

// A RecordError says why bytes are not a record, whatever follows them.
type RecordError struct {
	Op     Op // as read
	Reason string
}

func (e *RecordError) Error() string { return "oldjournal: " + e.Reason }

// unreadable says which file could not be read, unless the error does so itself.
func unreadable(name string, err error) error {
	if _, named := err.(*fs.PathError); named {
		return err
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// A Break is a place from which on a file cannot be taken apart into records.
type Break struct {
	Path   string // name of the file
	Offset int64  // of the first byte that belongs to no record
	Size   int64  // bytes from there to the end of the file
	Op     Op     // the byte at Offset
	Reason string
}

func (b Break) String() string {
	return fmt.Sprintf("%s: at offset %d, opcode %d: %s", b.Path, b.Offset, b.Op, b.Reason)
}

// A DamageError says that a file is broken where it cannot be torn: data follows. It unwraps to
// ErrDamaged.
type DamageError struct{ Break }

func (e *DamageError) Error() string { return e.String() }

// Unwrap returns ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }
