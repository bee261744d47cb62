package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"path"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/segment"
)

// A queue's backlog lies in runs (see package segment), in frames of one chunk each. The tag of a
// frame says what is in it. Integers are little-endian.
//
//	offset  size  field
//	0       8     id of the first item
//	8       8     id of the last item
//	16      4     number of items
//	20      4     bytes of their bodies
//
// The body of the frame is the items' images, oldest first, with gaps as in a window.
type frameTag struct {
	firstID, lastID uint64
	count, bytes    int64
}

func (t frameTag) encode() (tag segment.Tag) {
	binary.LittleEndian.PutUint64(tag[0:], t.firstID)
	binary.LittleEndian.PutUint64(tag[8:], t.lastID)
	binary.LittleEndian.PutUint32(tag[16:], uint32(t.count))
	binary.LittleEndian.PutUint32(tag[20:], uint32(t.bytes))
	return tag
}

func parseFrameTag(tag segment.Tag) frameTag {
	return frameTag{
		firstID: binary.LittleEndian.Uint64(tag[0:]),
		lastID:  binary.LittleEndian.Uint64(tag[8:]),
		count:   int64(binary.LittleEndian.Uint32(tag[16:])),
		bytes:   int64(binary.LittleEndian.Uint32(tag[20:])),
	}
}

// ids is the range of its items' ids.
func (t frameTag) ids() idset.Range { return idset.Between(t.firstID, t.lastID) }

// check tells whether body is what t says, whole and valid images of that many items, and counts
// them.
func (t frameTag) check(body []byte) (n item.Tally, err error) {
	last := t.firstID - 1
	id := t.firstID
	for b := body; len(b) > 0; {
		if b[0] == item.GapFormat {
			gap, size := binary.Uvarint(b[1:])
			if size <= 0 || gap == 0 {
				return n, fmt.Errorf("bad gap behind item %d", id-1)
			}
			id += gap
			b = b[1+size:]
		}
		it, size, ok := item.ParseImage(b)
		if !ok {
			return n, fmt.Errorf("no image of item %d", id)
		}
		n.Account(it, 1)
		last = id
		id++
		b = b[size:]
	}
	if last != t.lastID || n.Count != t.count || n.Bytes != t.bytes {
		return n, fmt.Errorf("frame holds %d items of %d bytes up to item %d, but its tag says %+v",
			n.Count, n.Bytes, last, t)
	}
	return n, nil
}

// runState is how much of a queue is in a run, up to end.
type runState struct {
	firstID, lastID uint64 // of its items, which are all those of the queue between them that live
	count           int64  // items
	bytes           int64  // of their bodies
	end             int64  // offset behind the last frame
}

// ids is the range of its items' ids.
func (s runState) ids() idset.Range { return idset.Between(s.firstID, s.lastID) }

// plausible reports whether there can be such a run.
func (s runState) plausible() bool {
	return s.firstID > 0 && s.firstID <= s.lastID && s.lastID < math.MaxUint64 && s.count > 0 &&
		uint64(s.count-1) <= s.lastID-s.firstID && s.end > segment.RunStart
}

// add counts a frame; the caller sets end when it is written.
func (s *runState) add(t frameTag) {
	if s.count == 0 {
		s.firstID = t.firstID
	}
	s.lastID = t.lastID
	s.count += t.count
	s.bytes += t.bytes
}

// holds reports whether id, which lives, is that of an item in the run.
func (s *runState) holds(id uint64) bool { return s.firstID <= id && id <= s.lastID }

// run is one file of a queue's backlog. The mutex of the queue's shard guards it; path and id never
// change.
type run struct {
	path string
	id   segment.RunID

	written runState
	// recorded is the part that is synced and, as the journal says, part of the queue; its end is
	// zero if there is none.
	recorded runState
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

// runExt is how the names of runs end, behind the number in ten digits.
const runExt = ".run"

func runPath(dir string, number uint64) string {
	return path.Join(dir, fmt.Sprintf("%010d%s", number, runExt))
}

// parseRunName returns the number in the name of a run.
func parseRunName(name string) (number uint64, ok bool) {
	n, err := fmt.Sscanf(name, "%d"+runExt, &number)
	return number, err == nil && n == 1 && name == path.Base(runPath("", number))
}
