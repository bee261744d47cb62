package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"

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
type Tag struct {
	FirstID, LastID uint64
	Count, Bytes    int64
}

// Encode is t as it lies beside a frame.
func (t Tag) Encode() (tag segment.Tag) {
	binary.LittleEndian.PutUint64(tag[0:], t.FirstID)
	binary.LittleEndian.PutUint64(tag[8:], t.LastID)
	binary.LittleEndian.PutUint32(tag[16:], uint32(t.Count))
	binary.LittleEndian.PutUint32(tag[20:], uint32(t.Bytes))
	return tag
}

// ParseTag decodes the tag of a frame.
func ParseTag(tag segment.Tag) Tag {
	return Tag{
		FirstID: binary.LittleEndian.Uint64(tag[0:]),
		LastID:  binary.LittleEndian.Uint64(tag[8:]),
		Count:   int64(binary.LittleEndian.Uint32(tag[16:])),
		Bytes:   int64(binary.LittleEndian.Uint32(tag[20:])),
	}
}

// IDs is the range of its items' ids.
func (t Tag) IDs() idset.Range { return idset.Between(t.FirstID, t.LastID) }

// Check reports whether body is what t says, whole and valid images of that many items, and counts
// them.
func (t Tag) Check(body []byte) (n item.Tally, err error) {
	last := t.FirstID - 1
	id := t.FirstID
	for b := body; len(b) > 0; {
		if b[0] == item.GapFormat {
			gap, size := binary.Uvarint(b[1:])
			if size <= 0 || gap == 0 {
				return n, fmt.Errorf("the ids behind item %d are damaged", id-1)
			}
			id += gap
			b = b[1+size:]
		}
		it, size := item.ParseImage(b)
		if size == 0 {
			return n, fmt.Errorf("item %d is damaged", id)
		}
		n.Account(&it, 1)
		last = id
		id++
		b = b[size:]
	}
	if last != t.LastID || n.Count != t.Count || n.Bytes != t.Bytes {
		return n, fmt.Errorf("a frame has %d items of %d bytes up to item %d, but its header says %+v",
			n.Count, n.Bytes, last, t)
	}
	return n, nil
}

// State is how much of a queue is in a run, up to end.
type State struct {
	FirstID, LastID uint64 // of its items, which are all those of the queue between them that live
	Count           int64  // items
	Bytes           int64  // of their bodies
	End             int64  // offset behind the last frame
}

// IDs is the range of its items' ids.
func (s State) IDs() idset.Range { return idset.Between(s.FirstID, s.LastID) }

// Gone is how many items of the run are gone, if the ids in a set are. Some ids belong to no item in it.
func (s State) Gone(gone *idset.Bitmap) uint64 {
	left := s.LastID - s.FirstID + 1 - uint64(s.Count)
	return max(gone.Count(s.IDs()), left) - left
}

// Plausible reports whether there can be such a run.
func (s State) Plausible() bool {
	return s.FirstID > 0 && s.FirstID <= s.LastID && s.LastID < math.MaxUint64 && s.Count > 0 &&
		uint64(s.Count-1) <= s.LastID-s.FirstID && s.End > segment.RunStart
}

// Add counts a frame; the caller sets end when it is written.
func (s *State) Add(t Tag) {
	if s.Count == 0 {
		s.FirstID = t.FirstID
	}
	s.LastID = t.LastID
	s.Count += t.Count
	s.Bytes += t.Bytes
}

// Contains reports whether id, which lives, is that of an item in the run.
func (s *State) Contains(id uint64) bool { return s.FirstID <= id && id <= s.LastID }

// Ext is how the names of runs end, behind the number in ten digits.
const Ext = ".run"

// Path is the path of the run of a number, in a directory.
func Path(dir string, number uint64) string {
	return path.Join(dir, fmt.Sprintf("%010d%s", number, Ext))
}

// ParseName returns the number in the name of a run.
func ParseName(name string) (number uint64, ok bool) {
	n, err := fmt.Sscanf(name, "%d"+Ext, &number)
	return number, err == nil && n == 1 && name == path.Base(Path("", number))
}

// CheckJournal returns a *segment.CorruptionError if the log in journal has no segment, though it has had one. Then dir
// has runs, or the log has files that come later. A start would take the runs for nobody's, and remove them.
func CheckJournal(fsys segment.FS, dir, journal string) error {
	segments, err := segment.List(fsys, journal)
	if len(segments) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // who reads it reports what is wrong with it
	}
	isRun := func(name string) bool { _, ok := ParseName(name); return ok }
	comesLater := func(name string) bool {
		return name == "complete" || strings.HasSuffix(name, ".spare") || strings.Contains(name, ".torn")
	}
	if err := isMissing(fsys, journal, dir, isRun); err != nil {
		return err
	}
	return isMissing(fsys, journal, journal, comesLater)
}

// isMissing returns a *segment.CorruptionError if in has a file that shows that the journal is missing.
func isMissing(fsys segment.FS, journal, in string, shows func(name string) bool) error {
	names, err := fsys.List(in)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if shows(name) {
			return &segment.CorruptionError{Path: journal, Reason: fmt.Sprintf("the journal is missing, though %s is there:"+
				" is a disk not mounted? To do without the items, remove %s", path.Join(in, name), in)}
		}
	}
	return nil
}
