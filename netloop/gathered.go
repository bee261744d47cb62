package netloop

import "github.com/kestrelmq/kestrel/engine"

// gathered holds pipelined puts of one session to one queue, which are decoded and not run yet. The engine takes
// them in one call. The session runs them before any other request, so its client sees no difference.
type gathered struct {
	queue   []byte              // as the client spells it; aliases the input, as the items do
	plain   bool                // the engine calls it the same
	puts    []engine.PutRequest // at most maxGathered, for which it has room; those behind are zero
	bytes   int
	takers  int                          // queues that take each of them
	work    int                          // that they are together, see putWork
	noReply [maxGathered]bool            // by index in puts
	extras  [maxGathered]engine.PutExtra // likewise, of those that have any
}

const (
	// maxGathered and maxGatheredBytes bound the work that one lock of a queue's shard covers.
	maxGathered      = 64
	maxGatheredBytes = 64 << 10
)

// maxTaken is about how many items all queues together take from one gathering of puts.
const maxTaken = 1024

// full notes what the newest put takes, and reports whether the loop may gather no other.
func (g *gathered) full() bool {
	p := &g.puts[len(g.puts)-1]
	g.bytes += len(p.Data)
	g.work += putWork(p) * g.takers
	return len(g.puts) == maxGathered || g.bytes >= maxGatheredBytes || g.work+g.takers > maxTaken
}

// extraWork is how many units an item with a delay or a key is for each queue that takes it.
const extraWork = 8

// putWork is how many units of work p is for each queue that takes it.
func putWork(p *engine.PutRequest) int {
	if p.Extra != nil {
		return extraWork
	}
	return 1
}

// drop forgets the puts, and the input that they alias.
func (g *gathered) drop() {
	clear(g.puts)
	g.puts, g.queue, g.bytes, g.work = g.puts[:0], nil, 0, 0
}
