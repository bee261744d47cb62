package marks

import (
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// File is a file with ids that are gone, synced. It does not change.
type File struct {
	runs.File
	End int64
	IDs idset.Bitmap
}

// Open reads the file that the journal names as said. It returns nil if it names none, and a *segment.CorruptionError if
// the file is not what was written.
func Open(r *runs.Reader, dir *runs.Dir, said record.Marks) (m *File, err error) {
	if said == (record.Marks{}) {
		return nil, nil
	}
	m = &File{File: dir.File(said.Run), End: said.End}
	if m.IDs, err = Read(r, m.File, m.End, said.Count); err != nil {
		return nil, err
	}
	r.Forget(m.File)
	return m, nil
}

// Record is what the journal says of the file, which may be nil.
func (m *File) Record() (r record.Marks) {
	if m != nil {
		r = record.Marks{Run: m.ID, End: m.End, Count: m.IDs.Len()}
	}
	return r
}

// RangeCost is how many bytes a record takes that says of a range of ids that they are gone, about.
const RangeCost = 12

// Cost is how many bytes records take that say of ids that they are gone, about.
func Cost(ids *idset.Bitmap) int64 { return ids.RangeCount() * RangeCost }

// Beside returns what a checkpoint records beside the file, which may be nil. That is what of gone is not in part, and
// what of part the file has not. cost is what the latter takes, in bytes.
func (m *File) Beside(gone, part *idset.Bitmap) (others idset.Bitmap, cost int64) {
	others, left := gone.Clone(), part.Clone()
	others.RemoveAll(part)
	if m != nil {
		left.RemoveAll(&m.IDs)
	}
	others.AddAll(&left)
	return others, Cost(&left)
}
