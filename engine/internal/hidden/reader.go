package hidden

import (
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// Reader reads the items of hidden runs, frame by frame. It is not safe for concurrent use, and may wait for the disk.
type Reader struct {
	Runs *runs.Reader
	// What the last frame was read into.
	body    []byte
	entries []Entry
}

// Frame reads the items in a frame of a run, by its number. Data is valid until the next call.
func (d *Reader) Frame(r *Run, i int) ([]Entry, error) {
	offset := r.Frames[i].Offset
	tag, body, err := d.Runs.Read(r.File, offset, r.End, d.body[:0])
	if err != nil {
		return nil, err
	}
	d.body, d.entries = body, d.entries[:0]
	err = EachEntry(tag, body, func(e Entry) bool {
		e.Item = e.Item.Apart()
		d.entries = append(d.entries, e)
		return true
	})
	if err != nil {
		return nil, &segment.CorruptionError{Path: r.Path, Offset: offset, Reason: err.Error()}
	}
	return d.entries, nil
}

// EachFrom calls f for the items of a run, in its frames from one on, until it returns false. Their Data is valid during
// the call.
func (d *Reader) EachFrom(r *Run, from int, f func(Entry) bool) error {
	for i := from; i < len(r.Frames); i++ {
		entries, err := d.Frame(r, i)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !f(e) {
				return nil
			}
		}
	}
	return nil
}

// EachOnDisk calls f for the items that are on disk alone in the runs of a set, until f returns false. It goes run by
// run, and by their ids in each. Data is valid during the call.
func (d *Reader) EachOnDisk(s *Set, f func(Entry) bool) error {
	for _, r := range s.Runs() {
		var all []Entry
		for i := r.Next(); r.Disk().Count > 0 && i < len(r.Frames); i++ {
			entries, err := d.Frame(r, i)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if r.OnDisk(e.ID) {
					e.Item = e.Item.Clone()
					all = append(all, e)
				}
			}
		}
		slices.SortFunc(all, ByID)
		for _, e := range all {
			if !f(e) {
				return nil
			}
		}
	}
	return nil
}

// Open reads the index of a run of which the journal says this, and a few frames. It returns a *segment.CorruptionError
// if the run is not what the journal says.
func (d *Reader) Open(file runs.File, state record.Hidden, live idset.Bitmap) (*Run, error) {
	if err := d.Runs.Covers(file, state.End); err != nil {
		return nil, err
	}
	tag, body, err := d.Runs.Read(file, state.Index, state.End, nil)
	if err != nil {
		return nil, err
	}
	w := Written{Index: state.Index, End: state.End}
	if w.Frames, err = ParseIndex(tag, body, state.Index); err == nil && state.From >= int64(len(w.Frames)) {
		err = fmt.Errorf("the journal needs its items from frame %d on, and it has %d frames", state.From, len(w.Frames))
	}
	if err != nil {
		return nil, &segment.CorruptionError{Path: file.Path, Offset: state.Index, Reason: err.Error()}
	}
	r := Restored(file, w, int(state.From), live, 0)
	d.measure(r)
	return r, nil
}

// maxMeasured is how many frames of a hidden run a start reads at most to know what the bodies take that live in
// it. What is gone since the record was written is in the first ones, mostly.
const maxMeasured = 64

// measure notes how many bytes the bodies of what lives in a run take: exactly, unless that takes long.
func (d *Reader) measure(r *Run) {
	from, bytes, gone := r.Next(), int64(0), -r.Disk().Count
	for _, f := range r.Frames[from:] {
		bytes += f.Bytes
		gone += f.Count
	}
	each := bytes / max(r.Disk().Count+gone, 1)
	for i := from; gone > 0 && i < min(from+maxMeasured, len(r.Frames)); i++ {
		entries, err := d.Frame(r, i)
		if err != nil {
			break // a read of the items will fail too, and say so
		}
		before := gone
		for _, e := range entries {
			if !r.OnDisk(e.ID) {
				gone--
				bytes -= int64(len(e.Data))
			}
		}
		if before-gone == int64(len(entries)) && i == from {
			from++
		}
	}
	r.measured(from, max(bytes-gone*each, 0))
}
