package segment

import (
	"fmt"
	"hash"
	"path"

	"github.com/cespare/xxhash/v2"
)

// Seal seals the tail, unless it holds nothing but its link, and goes on in the next segment. It returns
// the sealed segments, the oldest first: their bytes up to End never change, and by themselves they are a
// whole log. Like Append it may make a segment, and sync those that wait for it.
func (l *Log) Seal() (sealed []Segment, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.usable(); err != nil {
			return nil, err
		}
		if !l.tail.sealed && l.tail.frames <= 1 {
			return append(sealed, l.sealed...), nil
		}
		if l.preparing {
			l.prepared.Wait()
			continue
		}
		if n := l.opts.MaxUnsynced; n > 0 && len(l.unsynced) >= n {
			if err := l.syncUnsynced(); err != nil {
				return nil, err
			}
			continue
		}
		if err := l.rotate(0, Version1); err != nil {
			return nil, fmt.Errorf("seal segment: %w", err)
		}
	}
}

// Path returns where the segment's file is while it belongs to the log.
func (s Segment) Path() string { return s.path }

// Name returns the name of the segment's file in the directory of its log.
func (s Segment) Name() string { return path.Base(s.path) }

// HeadSize is how many bytes the header of a segment, and that of a run, takes. It has an id that no other
// file has.
const HeadSize = segmentHeaderSize

// NewSum returns an xxHash64 with seed 0, the sum of whole files.
func NewSum() hash.Hash64 { return xxhash.New() }
