package segmenttest

import (
	"maps"
	"slices"
)

// Mode says what a power cut does to what was not synced.
type Mode uint8

// The modes.
const (
	// Tear keeps a random part. Of each file's writes it is any subset, in any order, each whole or torn between
	// sectors, with or without the length. Of the metadata operations it is a prefix.
	Tear Mode = iota
	// Lose keeps nothing.
	Lose
	// Keep keeps everything.
	Keep
)

// CutOptions says what a power cut leaves. The zero value is Tear with seed 0.
type CutOptions struct {
	// Mode is what becomes of what was not synced.
	Mode Mode
	// Seed decides, in mode Tear, which part is kept: of one state, always the same.
	Seed uint64
	// ReorderMetadata has Tear keep any subset of the metadata operations, instead of a prefix. The
	// subset leaves every file under one name that it had, and no other.
	ReorderMetadata bool
}

// Kill returns what the next process finds after this one died and the kernel did not. That is everything written, with
// what was not synced still at risk in a later power cut.
func (f *FS) Kill() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := newImage(f)
	root := b.copyDir(f.root)
	b.dst.root = root
	for _, op := range f.ops {
		changes := slices.Clone(op.changes)
		for i := range changes {
			ch := &changes[i]
			ch.dir, ch.old, ch.new = b.copyNode(ch.dir), b.copyNode(ch.old), b.copyNode(ch.new)
		}
		b.dst.ops = append(b.dst.ops, &nameOp{changes: changes, dropped: op.dropped})
	}
	return b.dst
}

// PowerCut returns what the next boot finds after the machine lost power. All of it is durable.
func (f *FS) PowerCut(opts CutOptions) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := newImage(f)
	b.opts = opts
	if opts.Mode == Tear {
		b.names = tearNames(f.ops, opts)
	}
	root := b.cutDir(f.root)
	root.links, root.durableLinks = 1, 1
	b.dst.root = root
	return b.dst
}

// image builds a new FS from the inodes of another, whose mutex is held.
type image struct {
	dst   *FS
	nodes map[*inode]*inode // from those of the source to those of dst

	// For PowerCut.
	opts  CutOptions
	names survivingNames
}

func newImage(src *FS) *image {
	return &image{dst: newFS(nil, src.nextID), nodes: make(map[*inode]*inode)}
}

// copyNode returns the copy of an inode with all its states; nil of nil.
func (b *image) copyNode(n *inode) *inode {
	if n == nil {
		return nil
	}
	if c := b.nodes[n]; c != nil {
		return c
	}
	if n.isDir() {
		return b.copyDir(n)
	}
	c := &inode{id: n.id, links: n.links, durableLinks: n.durableLinks}
	c.current, c.durable, c.log = n.current.share(), n.durable.share(), slices.Clone(n.log)
	b.nodes[n] = c
	if c.links > 0 {
		b.dst.used += c.current.size
	}
	return c
}

func (b *image) copyDir(n *inode) *inode {
	c := newDir(n.id)
	c.links, c.durableLinks = n.links, n.durableLinks
	b.nodes[n] = c
	for name, entry := range n.entries {
		c.entries[name] = b.copyNode(entry)
	}
	for name, entry := range n.durableEntries {
		c.durableEntries[name] = b.copyNode(entry)
	}
	return c
}

// cutDir returns what a power cut leaves of a directory and all below it.
func (b *image) cutDir(n *inode) *inode {
	c := newDir(n.id)
	b.nodes[n] = c
	add := func(name string, entry *inode) {
		child := b.cutNode(entry)
		child.links++
		child.durableLinks++
		c.entries[name] = child
	}
	if b.opts.Mode == Keep {
		for name, entry := range n.entries {
			add(name, entry)
		}
	} else {
		changed := b.names[n]
		for name, entry := range n.durableEntries {
			if _, ok := changed[name]; !ok {
				add(name, entry)
			}
		}
		for name, entry := range changed {
			if entry != nil {
				add(name, entry)
			}
		}
	}
	c.durableEntries = maps.Clone(c.entries)
	return c
}

func (b *image) cutNode(n *inode) *inode {
	if c := b.nodes[n]; c != nil {
		return c
	}
	if n.isDir() {
		return b.cutDir(n)
	}
	c := &inode{id: n.id, durable: n.survivor(b.opts)}
	c.current = c.durable.share()
	b.nodes[n] = c
	b.dst.used += c.current.size
	return c
}
