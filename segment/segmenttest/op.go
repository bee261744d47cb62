package segmenttest

import "fmt"

// OpKind is a method of segment.FS or segment.File.
type OpKind uint8

// The methods, those of segment.FS first.
const (
	OpCreate OpKind = iota
	OpOpen
	OpOpenReadOnly
	OpRename
	OpRemove
	OpList
	OpMkdirAll
	OpSyncDir
	OpReadAt
	OpWriteAt
	OpAllocate
	OpTruncate
	OpSize
	OpWriteOut
	OpDatasync
	OpClose
	opKinds // how many there are
)

var opNames = [opKinds]string{
	"create", "open", "open read-only", "rename", "remove", "list", "mkdir", "sync directory",
	"read", "write", "allocate", "truncate", "size", "write out", "datasync", "close",
}

// String returns the name errors have for the method.
func (k OpKind) String() string {
	if k < opKinds {
		return opNames[k]
	}
	return fmt.Sprintf("OpKind(%d)", uint8(k))
}

// Mutates reports whether calls of the method change what a crash leaves. [FS.MutatingCalls] counts
// them and [FS.StopAt] stops at one.
func (k OpKind) Mutates() bool {
	switch k {
	case OpCreate, OpRename, OpRemove, OpMkdirAll, OpSyncDir,
		OpWriteAt, OpAllocate, OpTruncate, OpDatasync:
		return true
	}
	return false
}

// Op is one call of a method.
type Op struct {
	Kind OpKind
	Path string // as the caller gave it; of a File, the path it was opened under
	To   string // of OpRename, the new name

	N     int // running number among all calls of the FS and its files, from 1
	KindN int // running number among the calls of this kind, from 1

	Offset int64 // of OpReadAt, OpWriteAt and OpWriteOut
	Size   int   // of those, bytes to transfer; of OpAllocate and OpTruncate, the file's size
}

// Calls returns the number of calls of a method since the FS was made. Calls that failed count, but
// for those on a closed file and those with a negative or overflowing offset or size.
func (f *FS) Calls(kind OpKind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[kind]
}

// MutatingCalls returns the number of calls since the FS was made for which [OpKind.Mutates] is
// true. It includes the one that StopAt stopped, and those after it.
func (f *FS) MutatingCalls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mutating
}

// begin counts a call and decides whether it shall fail.
func (f *FS) begin(op Op) Fault {
	f.total++
	f.calls[op.Kind]++
	if op.Kind.Mutates() {
		f.mutating++
		if !f.stopped && f.stopAt > 0 && f.mutating >= f.stopAt {
			f.stopped = true
			return Fault{Err: ErrStopped, Bytes: f.stopBytes, KeepDirty: true}
		}
	}
	if f.stopped {
		return Fault{Err: ErrStopped, KeepDirty: true}
	}
	if f.fault == nil {
		return Fault{}
	}
	op.N, op.KindN = f.total, f.calls[op.Kind]
	return f.fault(op)
}
