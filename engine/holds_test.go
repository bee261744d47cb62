package engine

import (
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// These tests count what is done with a shard locked: pieces, bytes or allocations. What a client can make as large as it
// likes must not be in it.

// TestGoneIsNotCopied tests that a checkpoint, and the rewriting of a run, take the ids that are gone of a backlog
// without going through them. A set of many ids takes one piece of memory for each of its blocks.
func TestGoneIsNotCopied(t *testing.T) {
	const blocks, blockIDs = 64, 1 << 16
	q := &queue{nextID: blocks*blockIDs + 1, backlog: &backlog{count: 1, nextID: 3}}
	r := &run{written: runs.State{Count: blocks * blockIDs, FirstID: 5, LastID: blocks*blockIDs - 9}}
	for id := uint64(1); id < q.nextID; id += 2 {
		q.backlog.gone.Add(id)
	}
	q.backlog.unsized = q.backlog.gone.Clone()
	if n := testing.AllocsPerRun(5, func() { q.goneInLine() }); n > 8 {
		t.Errorf("what is gone takes %v pieces of memory", n)
	}
	job := thinJob{q: q, b: q.backlog, run: r}
	if n := testing.AllocsPerRun(5, func() { q.backlog.beginThin(&job) }); n > 8 {
		t.Errorf("what is gone of a run takes %v pieces of memory", n)
	}
	if got, want := job.gone.Len(), q.backlog.gone.Count(r.written.IDs()); got != want || job.gone.Count(idset.Between(0, 4)) > 0 {
		t.Errorf("of a run %d items are gone, want %d", got, want)
	}
}
