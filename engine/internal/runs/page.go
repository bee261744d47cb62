package runs

import "github.com/kestrelmq/kestrel/segment"

// Page is the frame of a chain of runs that was read last, for a reader that goes through the chain in pieces. The zero
// Page covers nothing.
type Page struct {
	Tag         // of the frame, or of the ids that it leaves out at the end of a run
	Body []byte // its images

	file File
	from uint64 // the frame is the first one of the run that has an item from there on
	next int64  // offset of the frame behind it
}

// Covers reports whether the page has the items of a run from an id on.
func (p *Page) Covers(f File, id uint64) bool { return p.file == f && p.from <= id && id <= p.LastID }

// Read reads the first frame of a run that has an item from an id on. places are those of the run.
func (p *Page) Read(r *Reader, of Part, places *Places, id uint64) error {
	offset := p.next
	switch {
	case p.file != of.File && id <= of.FirstID: // a list comes to the next run, and reads all of it
		offset = segment.RunStart
	case p.file != of.File || id <= p.LastID:
		frame, _, err := r.Frame(of.File, places, of.End, id)
		if err != nil {
			return err
		}
		offset = frame.Offset
	}
	frame, tag, err := r.Seek(of.File, offset, id, of.End)
	p.file, p.from, p.Body = of.File, id, p.Body[:0]
	switch {
	case err == nil && frame.Size == 0: // the last item of the run is gone by now
		p.Tag, p.next = Tag{FirstID: id, LastID: of.LastID}, of.End
	case err == nil:
		p.Tag, p.next = tag, frame.Next
		p.Body, _, err = r.Body(of.File, frame, tag, p.Body)
	}
	return err
}
