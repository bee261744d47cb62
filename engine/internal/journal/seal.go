package journal

import (
	"errors"

	"github.com/kestrelmq/kestrel/segment"
)

// Sealed is a journal up to some moment: what was appended before, and nothing of what came later.
type Sealed struct {
	Segments []segment.Segment // the oldest first
	j        *Journal
	log      *segment.Log
}

// Seal writes every record appended so far, and has the log go on in another segment. It waits for the
// disk. An error wraps ErrFailed or is ErrClosed.
func (j *Journal) Seal() (*Sealed, error) {
	if err := j.Write(j.End()); err != nil {
		return nil, err
	}
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	if err := j.Failure(); err != nil {
		return nil, err
	}
	sealed, err := j.log.Seal()
	if err != nil {
		return nil, j.failed(err)
	}
	if n := len(sealed); n > 0 && sealed[n-1].Number >= j.segment.Load() {
		j.segment.Store(sealed[n-1].Number + 1)
		signal(j.rotated)
		signal(j.sealed)
	}
	return &Sealed{sealed, j, j.log}, nil
}

// Check returns an error if the bytes of the segments may have been lost since. Then a sync failed, or another log
// has taken the place of theirs.
func (s *Sealed) Check() error {
	switch {
	case s.j.Poisoned():
		return s.j.Failure()
	case s.j.current() != s.log:
		return ErrReplaced
	}
	return nil
}

// ErrReplaced means that after a failed sync another log has taken the place of the one that was sealed.
var ErrReplaced = errors.New("the journal was replaced after a sync that failed")
