package engine

import (
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/replay"
	"github.com/kestrelmq/kestrel/segment"
)

// restoreHidden brings back the hidden runs in which something lives. It returns a *segment.CorruptionError if
// one is not what the journal says. Of a run it reads the index, and a few frames.
func (r *revival) restoreHidden(live *queue, q *replay.Queue) error {
	s := r.e.spool
	for _, h := range q.Hidden {
		if h.Live.Len() == 0 {
			continue
		}
		run, err := s.openHidden(h.Run, h.State, h.Live)
		if err != nil {
			return err
		}
		live.itemsAside().hidden.Add(run)
		s.registerHidden(live)
	}
	if live.aside != nil {
		r.e.setAlarm(live)
	}
	return nil
}

// openHidden reads the index of a hidden run.
func (s *spool) openHidden(id segment.RunID, state record.Hidden, live idset.Bitmap) (*hidden.Run, error) {
	file := s.dir.File(id)
	if err := s.reader.Covers(file, state.End); err != nil {
		return nil, err
	}
	tag, body, err := s.reader.Read(file, state.Index, state.End, nil)
	if err != nil {
		return nil, err
	}
	w := hidden.Written{Index: state.Index, End: state.End}
	if w.Frames, err = hidden.ParseIndex(tag, body, state.Index); err == nil && state.From >= int64(len(w.Frames)) {
		err = fmt.Errorf("the journal needs its items from frame %d on, and it has %d frames", state.From, len(w.Frames))
	}
	if err != nil {
		return nil, &segment.CorruptionError{Path: file.Path, Offset: state.Index, Reason: err.Error()}
	}
	r := hidden.Restored(file, w, int(state.From), live, 0)
	s.measureHidden(r)
	return r, nil
}

// maxMeasured is how many frames of a hidden run a start reads at most to know what the bodies take that live in
// it. What is gone since the record was written is in the first ones, mostly.
const maxMeasured = 64

// measureHidden notes how many bytes the bodies of what lives in a run take: exactly, unless that takes long.
func (s *spool) measureHidden(r *hidden.Run) {
	from, bytes, gone := r.Next(), int64(0), -r.Disk().Count
	for _, f := range r.Frames[from:] {
		bytes += f.Bytes
		gone += f.Count
	}
	each := bytes / max(r.Disk().Count+gone, 1)
	for i := from; gone > 0 && i < min(from+maxMeasured, len(r.Frames)); i++ {
		entries, err := s.readHidden(r, r.Frames[i])
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
	r.Measure(from, max(bytes-gone*each, 0))
}
