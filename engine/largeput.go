package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
)

// largePut is a put of a large item whose image is made before the shard is locked: the locks of the shard
// and of the journal would otherwise be held while so much is copied. The image lies in a frame of the
// journal, and the chunks of all queues that take the item share it.
type largePut struct {
	data  *byte // the first of the item as it was given
	frame *journal.Large
}

// prepare makes the image for a put of p, a large item, to the queue called name. The memory is counted
// before it is taken.
func (e *Engine) prepare(sh *shard, now Time, name []byte, p *PutRequest) (*largePut, error) {
	it := Item{Data: p.Data, Flags: p.Flags, Added: now, Expiry: p.Expiry}
	queues := sh.takers(name)
	if size := journal.LargeSize(it, queues); e.memory.Add(size) > e.opts.MemoryLimit {
		e.memory.Add(-size)
		return nil, ErrOutOfMemory
	}
	return &largePut{&p.Data[0], journal.NewLarge(it, queues)}, nil
}

// takers is how many queues take what is put to the queue called name: itself and its children.
func (sh *shard) takers(name []byte) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f := sh.families[string(name)]; f != nil {
		return len(f.children) + 1
	}
	return 1
}

// dropLarge ends the use of l by the put that it was made for.
func (e *Engine) dropLarge(l *largePut) {
	if l != nil && l.frame.Shared.Drop() {
		e.memory.Add(-l.frame.Shared.Size)
	}
}

// of reports whether l is for the put of p.
func (l *largePut) of(p *PutRequest) bool {
	return l != nil && len(p.Data) > 0 && l.data == &p.Data[0]
}

// chunk returns a chunk with the item.
func (l *largePut) chunk() *item.Chunk { return item.NewLarge(l.frame.Image(), &l.frame.Shared) }
