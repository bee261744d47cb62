package segmenttest

import "errors"

// ErrStopped is the error of every call since the machine stopped; see [FS.StopAt].
var ErrStopped = errors.New("segmenttest: machine stopped")

// Fault says how a call fails. The zero value lets it do its work.
type Fault struct {
	// Err is what the call returns, wrapped with its name and path. Before that it does nothing,
	// except as Bytes and KeepDirty say. Close closes the file all the same.
	Err error

	// Bytes is how many bytes a failing WriteAt writes first, at most all it was given. They are
	// part of the file like any other unsynced write.
	Bytes int

	// KeepDirty makes a failing Datasync, WriteOut or SyncDir leave everything as it was, so that the next one covers
	// it. Without it they lose track of what they should have synced, as the kernel does on a write error. That stays
	// readable, and no later call makes it durable.
	KeepDirty bool
}

// SetFault has every following call ask hook whether to fail; nil lets them all do their work. The
// hook is called under the FS's mutex, one call at a time, and must not use the FS. Calls that
// [FS.Calls] does not count and those after the machine stopped do not ask.
func (f *FS) SetFault(hook func(Op) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = hook
}

// FailNth returns a hook that fails the n-th call of a kind since the FS was made, counted from
// 1, with err. To fail the next one, pass the FS's Calls(kind)+1.
func FailNth(kind OpKind, n int, err error) func(Op) Fault {
	return func(op Op) Fault {
		if op.Kind == kind && op.KindN == n {
			return Fault{Err: err}
		}
		return Fault{}
	}
}

// FailAllFrom is FailNth for the n-th call and all later ones.
func FailAllFrom(kind OpKind, n int, err error) func(Op) Fault {
	return func(op Op) Fault {
		if op.Kind == kind && op.KindN >= n {
			return Fault{Err: err}
		}
		return Fault{}
	}
}

// DiskFull limits the disk to limitBytes, counting what is already there; negative means no limit,
// as at first. A WriteAt that would need more writes what fits and returns ENOSPC; Allocate and
// Truncate then do nothing and return ENOSPC. A file needs its length, whether written or not, so
// writing inside it never runs out. Truncate gives space back at once, Remove and Rename when they
// take a file's last name and its last handle is closed.
func (f *FS) DiskFull(limitBytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = limitBytes
}

// Used is how many bytes of the disk are in use, as DiskFull counts them.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// room returns the size up to which a file of that size may grow.
func (f *FS) room(size int64) int64 {
	if f.limit < 0 {
		return 1<<63 - 1
	}
	return size + max(0, f.limit-f.used)
}

// StopAt has the machine stop at the n-th mutating call since the FS was made, counted from 1. That call and every
// later call of any kind returns [ErrStopped] and changes nothing, but that Close still closes. A crash test runs with
// n = 1, 2, 3, …, and takes an image with Kill or PowerCut after each run. It ends after a run with Stopped false. n =
// 0 means never.
func (f *FS) StopAt(n int) {
	f.StopInWrite(n, 0)
}

// StopInWrite is StopAt, except that the n-th call, if it is a WriteAt, first writes its leading
// bytes, at most all it was given.
func (f *FS) StopInWrite(n, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt, f.stopBytes = n, bytes
}

// Stopped reports whether the machine has stopped.
func (f *FS) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}
