package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// largePut is a put of a large item, or of one to many queues. Its image is made before the shard is locked.
// Otherwise the put would hold the locks of the shard and of the journal while it copies so much. The image lies in a
// frame of the journal, and the chunks of all queues that take the item share it.
type largePut struct {
	data  *byte // the first of the item as it was given
	key   int   // bytes of its key
	frame *journal.Large
}

// image makes the image for a put of p, whatever memory there is.
func (e *Engine) image(p *PutRequest, of journal.LargeOf) *largePut {
	e.memory.Add(of.Size())
	return &largePut{&p.Data[0], len(of.With.Key), journal.NewLarge(of, e.opts.yield)}
}

// large is what the image is made of for a put of p to that many queues.
func (p *PutRequest) large(now Time, queues int) journal.LargeOf {
	of := journal.LargeOf{Item: p.item(now), Queues: queues}
	if x := p.Extra; x != nil && len(x.Key) <= MaxKeySize { // put refuses longer ones
		of.Changes, of.With = queues, item.Behind{Key: x.Key, Origin: x.origin, Why: x.why}
	}
	return of
}

// item is what p puts at a time.
func (p *PutRequest) item(now Time) Item {
	return Item{Data: p.Data, Flags: p.Flags, Added: now, Expiry: p.Expiry}
}

// dropLarge ends the use of l by the put that it was made for.
func (e *Engine) dropLarge(l *largePut) {
	if l != nil && l.frame.Shared.Drop() {
		e.memory.Add(-l.frame.Shared.Size)
	}
}

// of reports whether l is for the put of p, whose key may have been dropped since.
func (l *largePut) of(p *PutRequest) bool {
	return l != nil && len(p.Data) > 0 && l.data == &p.Data[0] && (p.Extra == nil || len(p.Extra.Key) == l.key)
}

// chunk returns a chunk with the item.
func (l *largePut) chunk() *item.Chunk { return item.NewLarge(l.frame.Image(), &l.frame.Shared) }

// recordPut records it, which p puts to the queues in sh.to and sh.over: see journal.PutExtra.
func (e *Engine) recordPut(sh *shard, p *PutRequest, it Item, c Standing, from record.Destination) (LSN, uint64) {
	if len(sh.to)+len(sh.over) == 0 {
		return 0, 0 // an item that moves stays recorded until carry removes it
	}
	if l := sh.large; l.of(p) && l.frame.IsFor(len(sh.to), len(sh.over)) {
		return e.journal.PutLarge(sh.to, sh.over, l.frame, c, from)
	}
	return e.journal.PutExtra(sh.to, sh.over, it, c, from)
}
