package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// run is one file of a queue's backlog. The mutex of the queue's shard guards it; path and id never
// change.
type run struct {
	path string
	id   segment.RunID

	written runs.State
	// recorded is the part that is synced and, as the journal says, part of the queue; its end is
	// zero if there is none.
	recorded runs.State
	// writer is that of the file while it may have to be written or synced. The spool's writing
	// side writes to it as long as the run grows; the recording side syncs it, and closes it after
	// that.
	writer *segment.RunWriter
	// busy says that the writing side is writing a batch to the file. The run stays the queue's, and
	// the writer open, until publish or putBack has accounted for the batch.
	busy bool
	// made is what the spool's lostNames was before the file was made.
	made uint64
	// broken says that a sync failed: what is written and not recorded can be read for now, and is
	// to be written elsewhere.
	broken bool
}
