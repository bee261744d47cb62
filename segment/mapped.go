package segment

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Mapper is implemented by a [File] of which pieces can be read as memory.
type Mapper interface {
	// Map returns the bytes [off, off+n) of the file as memory that must not be written. Offset and
	// length are multiples of 64 KiB, and the file has that many bytes. The call waits until they have
	// come from the disk, and returns the error that the disk made. If it returns
	// errors.ErrUnsupported, wrapped, the file has to be read with ReadAt.
	//
	// Touching the memory may still fault, if the kernel has dropped a page of it meanwhile and cannot
	// read it again: see the runtime's debug.SetPanicOnFault.
	Map(off int64, n int) ([]byte, error)
	// Unmap gives the memory up that Map returned for that offset, and the pages of the file behind it:
	// they are not read again.
	Unmap(mem []byte, off int64) error
}

// copyMapped copies memory that Map has returned, and returns an error if it faults.
func copyMapped(dst, mem []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			f, ok := fault.(interface {
				error
				Addr() uintptr // of a fault, and of nothing else
			})
			if !ok {
				panic(fault)
			}
			n, err = 0, fmt.Errorf("mapped file: %w", f)
		}
	}()
	return copy(dst, mem), nil
}

// errNoMap is the error of a piece that a file cannot map.
var errNoMap = fmt.Errorf("map a piece of a file: %w", errors.ErrUnsupported)
