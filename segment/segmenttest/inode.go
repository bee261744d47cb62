package segmenttest

import "bytes"

// inode is a file or a directory. Its FS's mutex guards it.
type inode struct {
	// Immutable.
	id uint64 // unique in the FS, kept by its images; seeds what becomes of the file in a power cut

	// Of either.
	links        int // current names
	durableLinks int // durable names
	opens        int // handles not closed

	// Of a file.
	current content
	durable content
	log     []change // what lies between durable and current, oldest first

	// Of a directory; nil in a file.
	entries        map[string]*inode
	durableEntries map[string]*inode
}

type changeKind uint8

const (
	changeWrite changeKind = iota
	changeAllocate
	changeTruncate
)

// changeState is how a change stands with the disk.
//
//	dirty -> synced    Datasync returned nil
//	dirty -> dropped   Datasync failed
//
// synced and dropped are terminal.
type changeState uint8

const (
	dirty   changeState = iota // the next Datasync covers it
	dropped                    // no Datasync will ever cover it
	synced                     // durable, but stuck in the log behind an older one that is not
)

// change is one change of a file's bytes or length.
type change struct {
	kind  changeKind
	state changeState
	off   int64  // of a write
	size  int64  // of a write, its length; else the size asked for
	data  []byte // of a write, never modified; nil if all zero
}

// writeChange returns a write of a copy of p.
func writeChange(p []byte, off int64) change {
	ch := change{kind: changeWrite, off: off, size: int64(len(p))}
	if !isZero(p) {
		ch.data = bytes.Clone(p)
	}
	return ch
}

// apply makes the change to c.
func (ch change) apply(c *content) {
	switch ch.kind {
	case changeWrite:
		ch.applyPart(c, 0, ch.size)
	case changeAllocate:
		c.size = max(c.size, ch.size)
	case changeTruncate:
		c.resize(ch.size)
	}
}

// applyPart writes the bytes [from, to) of a write, counted from its beginning.
func (ch change) applyPart(c *content, from, to int64) {
	if ch.data != nil {
		c.write(ch.data[from:to], ch.off+from)
		return
	}
	c.zero(ch.off+from, to-from)
	c.size = max(c.size, ch.off+to)
}

func newDir(id uint64) *inode {
	return &inode{
		id:             id,
		entries:        make(map[string]*inode),
		durableEntries: make(map[string]*inode),
	}
}

func (n *inode) isDir() bool {
	return n.entries != nil
}

// change makes a change to the current state and logs it.
func (n *inode) change(ch change) {
	ch.apply(&n.current)
	n.log = append(n.log, ch)
}

// damage makes a change to the current and the durable state.
func (n *inode) damage(ch change) {
	ch.state = synced
	n.change(ch)
	n.fold()
}

// finish gives the dirty changes their final state.
func (n *inode) finish(state changeState) {
	for i := range n.log {
		if n.log[i].state == dirty {
			n.log[i].state = state
		}
	}
	n.fold()
}

// fold moves synced changes that have no other change before them from the log to the durable
// state.
func (n *inode) fold() {
	done := 0
	for done < len(n.log) && n.log[done].state == synced {
		n.log[done].apply(&n.durable)
		done++
	}
	if done == len(n.log) {
		clear(n.log) // free the written bytes, keep the array
		n.log = n.log[:0]
		return
	}
	n.log = n.log[done:]
}
