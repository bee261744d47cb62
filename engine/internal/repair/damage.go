package repair

import (
	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// A Place is a data directory, and how its files are written.
type Place struct {
	FS   segment.FS
	Dir  string
	Runs string // directory of the runs
	// Locks says that processes lock the directory: FS is that of the operating system.
	Locks bool
	// Log is how journals are written, and Compression how runs are compressed.
	Log         segment.Options
	Compression segment.Codec
	// Report logs what could not be done, and need not be.
	Report func(what string, err error)
	// Expect hears about how many more bytes there are to read, and Read how many more have been read.
	Expect, Read func(bytes int64)
}

// Damage is what Examine found wrong with a data directory, and what Repair would make of it. Its
// methods may not be called at the same time. Close it.
type Damage struct {
	// Gaps are the places in the journal and in backlogs whose bytes are not what was written.
	Gaps []segment.Gap
	// Tear is where the journal ends in a torn write, which Open or Repair cuts. It is nil without a torn write, or
	// if the journal is damaged besides.
	Tear *segment.Tear
	// Losses are the items that cannot be had any more, by queue and id.
	Losses []Loss
	// Stray are runs whose queue no record names. The record may have been in a gap.
	Stray []StrayRun
	// Renamed are queues whose name is lost; Dropped those of which a younger one has the name.
	Renamed, Dropped []string
	// Queues are the queues that Repair leaves, sorted by name.
	Queues []SalvagedQueue
	// Saved is the directory in which Repair has put copies of what it took away.
	Saved string
	saved []string // what is in it, directories first, and itself

	place    Place
	journals *journal.Dirs
	lock     *dirlock.Lock
	decoder  segment.Coder
	pass     pass
	lastRun  uint64 // the highest number that a run has had
	// queues are those that Repair leaves, and dropped those of Dropped, as they were made.
	queues, dropped []*salvagedQueue
}

// pass counts how much of the journal has been read in one pass.
type pass struct{ size, read int64 }

// Loss is a range of ids of one queue of whose items some or all are lost.
type Loss struct {
	Queue           string
	FirstID, LastID uint64
	// Items is how many are lost. With AtMost, records of the range are lost too that may have
	// said that some of them were gone already. It is negative if even whether any is lost is not
	// known: the journal's front, in which most of them were, was dropped long ago.
	Items  int64
	AtMost bool
	// Bytes is what their bodies take, or negative if that is not known.
	Bytes int64
	// Path and Offset are where they were in a backlog; Path is "" for the journal.
	Path   string
	Offset int64
}

// StrayRun is a run of a queue that is not known.
type StrayRun struct {
	Path            string
	FirstID, LastID uint64 // zero if nothing in it can be read
	Items, Bytes    int64
	// Removed is how many ids of removed items are in it: then it is a list of these.
	Removed int64
}

// SalvagedQueue is a queue as Repair leaves it.
type SalvagedQueue struct {
	Name         string
	Items, Bytes int64
	NextID       uint64
}

// Sound reports whether there is nothing to repair.
func (d *Damage) Sound() bool {
	return d.Tear == nil && len(d.Gaps)+len(d.Renamed)+len(d.Dropped) == 0
}

// eachFrame calls f for every frame of items of a run that is whole, with its body, which is valid during
// the call.
func (d *Damage) eachFrame(
	r *run, f func(segment.RunFrame, runs.Tag, []byte) error,
) ([]segment.RunGap, error) {
	return segment.SalvageRun(d.place.FS, r.path, r.id, r.recorded.End, &d.decoder,
		func(frame segment.RunFrame, body []byte) error {
			d.place.Read(int64(len(body)))
			if keyindex.IsFrame(frame.Tag) {
				return checkKeys(r.path, frame, body)
			}
			tag := runs.ParseTag(frame.Tag)
			if _, err := tag.Check(body); err != nil {
				return &segment.CorruptionError{Path: r.path, Offset: frame.Offset, Reason: err.Error()}
			}
			return f(frame, tag, body)
		})
}

// Close lets other processes use the directory.
func (d *Damage) Close() error {
	d.decoder.Close()
	return d.lock.Release()
}

// sizeOf returns how many bytes a file has, or zero if it cannot be had: a figure for people.
func (d *Damage) sizeOf(name string) int64 {
	f, err := d.place.FS.OpenReadOnly(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	size, _ := f.Size()
	return size
}

// counted returns a visitor that counts the bytes of frames before it calls visit, if that is not nil.
func (d *Damage) counted(visit segment.Visitor) segment.Visitor {
	return func(f segment.Frame) error {
		n := segment.FrameHeaderSize + int64(len(f.Payload))
		d.pass.read += n
		d.place.Read(n)
		if visit == nil {
			return nil
		}
		return visit(f)
	}
}

// passed counts what frames left in a pass: the room behind the last one, mostly.
func (d *Damage) passed() {
	d.place.Read(d.pass.size - d.pass.read)
	d.pass.read = 0
}
