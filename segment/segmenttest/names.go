package segmenttest

import (
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
)

// nameChange gives a name in a directory to another inode; nil stands for none.
type nameChange struct {
	dir      *inode
	name     string
	old, new *inode
}

// nameOp is an operation on names that a power cut keeps or loses as one. It stays in FS.ops, in
// the order of the calls, until its changes are durable.
type nameOp struct {
	changes []nameChange // two if a rename, in one directory or two
	dropped bool         // a SyncDir that covered it failed
}

// place is where a path leads: a directory, the last name of the path and what has the name, if
// anything. The root has no dir and no name.
type place struct {
	dir  *inode
	name string
	node *inode
}

// clean returns p relative to the root, which is "".
func clean(p string) string {
	return path.Clean("/" + p)[1:]
}

// find follows a path. All directories on the way must exist, the last name need not.
func (f *FS) find(p string) (place, error) {
	if p == "" {
		return place{}, syscall.ENOENT
	}
	at := place{node: f.root}
	for rest := clean(p); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if at.node == nil {
			return place{}, syscall.ENOENT
		}
		if !at.node.isDir() {
			return place{}, syscall.ENOTDIR
		}
		at = place{at.node, name, at.node.entries[name]}
	}
	return at, nil
}

// findNode is find for a path that must exist.
func (f *FS) findNode(p string) (*inode, error) {
	at, err := f.find(p)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	return at.node, err
}

// findFile is find for a file that must exist.
func (f *FS) findFile(p string) (*inode, error) {
	n, err := f.findNode(p)
	if err == nil && n.isDir() {
		return nil, syscall.EISDIR
	}
	return n, err
}

// findDir is find for a directory that must exist.
func (f *FS) findDir(p string) (*inode, error) {
	n, err := f.findNode(p)
	if err == nil && !n.isDir() {
		return nil, syscall.ENOTDIR
	}
	return n, err
}

// record makes changes of names to the current state, and logs them as one operation.
func (f *FS) record(changes ...nameChange) {
	for _, ch := range changes {
		f.setName(ch.dir, ch.name, ch.new)
	}
	f.ops = append(f.ops, &nameOp{changes: changes})
}

// setName gives a current name to n, or to none if n is nil.
func (f *FS) setName(dir *inode, name string, n *inode) {
	old := dir.entries[name]
	if n != nil {
		n.links++
		dir.entries[name] = n
	} else {
		delete(dir.entries, name)
	}
	if old != nil {
		old.links--
		f.release(old)
	}
}

// release gives back the space of a file that has neither names nor handles.
func (f *FS) release(n *inode) {
	if n.links == 0 && n.opens == 0 {
		f.used -= n.current.size
	}
}

// setDurableName is setName for the durable state.
func setDurableName(dir *inode, name string, n *inode) {
	if old := dir.durableEntries[name]; old != nil {
		old.durableLinks--
	}
	if n == nil {
		delete(dir.durableEntries, name)
		return
	}
	n.durableLinks++
	dir.durableEntries[name] = n
}

// commitDir makes the names in dir durable, but for those a failed SyncDir covered.
func (f *FS) commitDir(dir *inode) {
	names := make(map[string]bool)
	for _, op := range f.ops {
		if !op.dropped {
			op.addNames(dir, names)
		}
	}
	f.commitNames(dir, names)
}

// commitNames makes some names in dir durable. With them, failed SyncDir or not, go the operations in dir that changed
// them, and what else those changed. An operation must not survive in part.
func (f *FS) commitNames(dir *inode, names map[string]bool) {
	for grown := true; grown; {
		before := len(names)
		for _, op := range f.ops {
			if op.touches(dir, names) {
				op.addNames(dir, names)
			}
		}
		grown = len(names) > before
	}
	var gone []*inode // directories that may have lost their only durable name
	for name := range names {
		if old := dir.durableEntries[name]; old != nil && old.isDir() {
			gone = append(gone, old)
		}
		setDurableName(dir, name, dir.entries[name])
	}
	f.dropChanges(func(ch nameChange) bool { return ch.dir == dir && names[ch.name] })
	for _, n := range gone {
		f.forget(n)
	}
}

// forget empties a directory that no path leads to, now or after a crash.
func (f *FS) forget(dir *inode) {
	if dir.links > 0 || dir.durableLinks > 0 {
		return
	}
	f.dropChanges(func(ch nameChange) bool { return ch.dir == dir })
	for name, n := range maps.Clone(dir.durableEntries) {
		setDurableName(dir, name, nil)
		if n.isDir() {
			f.forget(n)
		}
	}
}

// dropChanges takes changes, and operations that have no others, off the list of what is not
// durable.
func (f *FS) dropChanges(drop func(nameChange) bool) {
	for _, op := range f.ops {
		op.changes = slices.DeleteFunc(op.changes, drop)
	}
	f.ops = slices.DeleteFunc(f.ops, func(op *nameOp) bool { return len(op.changes) == 0 })
}

// loseDir marks what is not durable in dir as never to become so. A rename from or to another
// directory falls apart: its other half is not affected.
func (f *FS) loseDir(dir *inode) {
	ops := make([]*nameOp, 0, len(f.ops))
	for _, op := range f.ops {
		if op.dropped {
			ops = append(ops, op)
			continue
		}
		var mine, others []nameChange
		for _, ch := range op.changes {
			if ch.dir == dir {
				mine = append(mine, ch)
			} else {
				others = append(others, ch)
			}
		}
		if len(mine) > 0 {
			ops = append(ops, &nameOp{changes: mine, dropped: true})
		}
		if len(others) > 0 {
			ops = append(ops, &nameOp{changes: others})
		}
	}
	f.ops = ops
}

// addNames adds the names that op changes in dir.
func (op *nameOp) addNames(dir *inode, names map[string]bool) {
	for _, ch := range op.changes {
		if ch.dir == dir {
			names[ch.name] = true
		}
	}
}

// touches reports whether op changes one of some names in dir.
func (op *nameOp) touches(dir *inode, names map[string]bool) bool {
	return slices.ContainsFunc(op.changes, func(ch nameChange) bool {
		return ch.dir == dir && names[ch.name]
	})
}
