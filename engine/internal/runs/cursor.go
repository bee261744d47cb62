package runs

import (
	"slices"

	"github.com/kestrelmq/kestrel/segment"
)

// Cursor is where reading of a chain of runs goes on. That is the first item from ID on, in the frame at Offset of
// Run or behind it. R is what the owner of the chain knows of a run. The zero Cursor is nowhere.
type Cursor[R any] struct {
	Run    *R
	Offset int64 // of a frame, in bytes from the start of the file
	ID     uint64
}

// At is a Cursor at the first item from id on in a run.
func At[R any](run *R, id uint64) Cursor[R] { return Cursor[R]{run, segment.RunStart, id} }

// Next is where reading goes on when Run has ended: at the start of the run behind it in chain, which must have one. If
// another run has taken the place of Run, that is the first of the chain.
func (c Cursor[R]) Next(chain []*R) Cursor[R] {
	return At(chain[slices.Index(chain, c.Run)+1], c.ID)
}

// Pass moves c behind a frame whose tag is t, and behind whose end the next one lies.
func (c *Cursor[R]) Pass(t Tag, next int64) { c.Offset, c.ID = next, t.LastID+1 }
