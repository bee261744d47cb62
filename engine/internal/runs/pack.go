package runs

import (
	"errors"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/segment"
)

// packBatch is how many bytes of frames a Packer writes in one call, unless a single frame is larger.
const packBatch = 256 << 10

// Packer writes items one by one to a run, in frames as large as the chunks of a window may be. Ids rise. It owns
// no file: the caller syncs and closes W.
type Packer struct {
	W     *segment.RunWriter
	Coder *segment.Coder
	Keys  keyindex.Gatherer // with the seed of the queue's keys, if the run is to have them

	state State
	buf   []byte // images of a frame
	tag   Tag
}

// LastID is the id of the item added last; 0 if there is none.
func (p *Packer) LastID() uint64 { return p.tag.LastID }

// Add adds an item, and may write to the file.
func (p *Packer) Add(it item.Item) error {
	if len(p.buf) > 0 && len(p.buf)+item.ImageSize(&it) > item.MaxChunkSize {
		if err := p.frame(); err != nil {
			return err
		}
	}
	switch {
	case len(p.buf) == 0:
		p.tag = Tag{FirstID: it.ID}
	case it.ID > p.tag.LastID+1:
		p.buf = item.AppendGap(p.buf, it.ID-p.tag.LastID-1)
	}
	p.buf = item.AppendImage(p.buf, &it)
	p.tag.LastID = it.ID
	p.tag.Count++
	p.tag.Bytes += int64(len(it.Data))
	if it.HasKey() {
		p.Keys.Note(it.Key(), it.ID)
	}
	return nil
}

// frame makes a frame of what has gathered.
func (p *Packer) frame() error {
	p.W.Add(p.Coder, p.tag.Encode(), p.buf)
	p.state.Add(p.tag)
	if p.buf = p.buf[:0]; p.W.Buffered() < packBatch {
		return nil
	}
	p.Keys.AddTo(p.W, p.Coder)
	return p.W.Write()
}

// End writes what is left, and returns what the run holds then.
func (p *Packer) End() (s State, err error) {
	if len(p.buf) > 0 {
		err = p.frame()
	}
	if err == nil {
		p.Keys.AddTo(p.W, p.Coder)
		err = p.W.Write()
	}
	p.state.End = p.W.End()
	return p.state, err
}

// Thin writes the items of a run up to end to p, except those that are gone. It calls dropped for these, and their
// Data is valid during the call. p gathers keys, unless no item of the queue has one.
func (r *Reader) Thin(p *Packer, f File, end int64, gone *idset.Bitmap, dropped func(item.Item)) (n State, err error) {
	reader, err := r.reader(f)
	if err != nil {
		return n, err
	}
	if reader.IsExtended() {
		p.W.Extend(true)
	}
	var failed error // of the file that is written
	err = r.Each(f, end, func(it item.Item) {
		switch {
		case gone.Has(it.ID):
			dropped(it)
		case failed == nil:
			failed = p.Add(it)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return n, err
	}
	return p.End()
}
