package marks

import (
	"math"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
)

// Gone says which ids of a range are gone: those in front of the head of a queue, and those behind it that were
// removed. Ids that live elsewhere are not gone.
type Gone struct {
	Front  idset.Range
	Behind idset.Bitmap
	Live   idset.Bitmap   // in reads and aside
	Hidden []idset.Bitmap // on disk alone
}

// IsEmpty reports whether nothing is gone.
func (g *Gone) IsEmpty() bool { return g.Front.Last == 0 && g.Behind.IsEmpty() }

// Set returns the ids that are gone. It uses g up.
func (g *Gone) Set() (gone idset.Bitmap) {
	gone, g.Behind = g.Behind, idset.Bitmap{}
	if g.Front.Last > 0 {
		gone.AddRange(g.Front)
	}
	gone.RemoveAll(&g.Live)
	for i := range g.Hidden {
		gone.RemoveAll(&g.Hidden[i])
	}
	return gone
}

// Ragged returns what of a set is not in ranges of long ids or more.
func Ragged(gone *idset.Bitmap, long uint64) idset.Bitmap {
	part := gone.Clone()
	for ids := range gone.Within(idset.Between(1, math.MaxUint64)) {
		if ids.Last-ids.First >= long-1 {
			part.RemoveRange(ids)
		}
	}
	return part
}
