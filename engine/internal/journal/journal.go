package journal

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

const (
	// MaxBatch is how many bytes of records one frame of the journal gathers, unless a single
	// record is larger.
	MaxBatch = 1 << 20
	// removeReserve is the room, in bytes, that puts leave in the journal when the disk is full.
	// With it removes can still be recorded, and space becomes free.
	removeReserve = 1 << 20
)

// The engine returns these errors to its callers, so their words name the engine.
var (
	// ErrClosed is returned when the log has been closed.
	ErrClosed = errors.New("engine: closed")
	// ErrFailed is wrapped by errors of a journal that could not be written or synced: whether
	// what waited for it is durable is not known.
	ErrFailed = errors.New("engine: journal failed")
	// ErrFull refuses a put while the journal finds no room on the disk.
	ErrFull = errors.New("engine: out of disk space")
)

// A Committer takes the batches of a journal, in order, and makes them last. Append and Sync are not
// called by two goroutines at a time each, but one may be called while the other runs.
type Committer interface {
	// AppendAs takes one batch, which needs a segment of that version or of a later one. It returns the number of the
	// segment in which the batch lies. When it returns, the batch survives the death of the process. buf has
	// segment.FrameHeaderSize bytes of room in front; AppendAs returns it, perhaps grown, to be used again. After an
	// error the same batch comes again.
	AppendAs(v segment.Version, buf []byte) (segment.Appended, []byte, error)
	// Sync returns when every batch that was appended before is committed: nothing that the journal
	// promises to survive takes it away again. An error that wraps segment.ErrPoisoned is final.
	Sync() (segment.Position, error)
}

// Options are what a Journal needs beside its log.
type Options struct {
	Log *slog.Logger
	// Report takes errors of background work.
	Report func(what string, err error)
	// Committer returns what commits the batches of a log; nil: the log does.
	Committer func(*segment.Log) Committer
	// Account takes how many bytes of records wait to be written more, or fewer if it is negative; nil:
	// nobody counts them. It may be called with any lock of the journal held.
	Account func(int64)
}

// Journal is the one shared log of all queues. Records are appended to a buffer under the lock of
// their queue and mu, which fixes their order. The first caller that needs them on disk writes all that has gathered.
// The first that needs them durable syncs for all that wait: group commit without a timer. Its methods may be called
// from any goroutine, except where they say otherwise.
//
// Lock order: the lock of a queue, then mu. writeMu and syncMu are taken with neither held; syncMu
// before writeMu, writeMu before mu.
type Journal struct {
	opts Options
	// log and to are replaced under syncMu, writeMu and mu, by the goroutine that calls Move, which
	// reads them with none of them; see current.
	log *segment.Log
	to  Committer // what takes the batches of log

	written atomic.Uint64 // LSN up to which the log has taken the records; changed under writeMu
	writing atomic.Uint64 // LSN up to which the holder of writeMu is to write, or the last one was to; see Unwritten
	synced  atomic.Uint64 // LSN up to which they are durable; changed under syncMu
	segment atomic.Uint64 // number of the segment written last: no later record is before it
	full    atomic.Bool   // the disk has no room for another segment
	oldest  atomic.Uint64 // number of the oldest segment
	most    atomic.Int64  // how many others there should be at most; see Outgrown
	// failure is why the last write or sync failed; nil if it did not. Puts are refused meanwhile.
	failure atomic.Pointer[error]
	// replacing says that another log takes the place of log: nothing is written or synced; see move.go.
	replacing atomic.Bool // changed under writeMu

	mu sync.Mutex
	// Guarded by mu.
	first      uint64             // records of queues with lower numbers are left out; at least 1
	end        LSN                // behind the last record appended
	active     []byte             // frame that takes records: header room, then records
	generation uint64             // +1 each time active changes
	lastPut    record.Destination // of the last put in active, if that had one only; else zero
	ended      []frame            // that take no more, oldest first
	spare      []byte             // the buffer for the next frame, or nil
	room       int64              // bytes of records that the log takes without more disk, about
	version    segment.Version    // that the frames need from now on; 2 once a record has needed it

	writeMu sync.Mutex
	pending []frame // taken from ended but not written, oldest first; guarded by writeMu
	taken   LSN     // behind pending; guarded by writeMu

	syncMu sync.Mutex
	syncs  syncStats

	prepareMu    sync.Mutex    // one Prepare at a time; taken with no other lock held
	prepareDelay time.Duration // of the last try that failed, 0 if it did not; guarded by prepareMu
	nextPrepare  atomic.Int64  // when a try that failed may be repeated, in ns since epoch

	due chan struct{} // capacity 1: a write waits for a periodic sync
	// dueAt is when the oldest such write must be synced, in ns since epoch; zero if there is none. It is no time of
	// the wall clock: if somebody set that back, the sync would be late.
	dueAt   atomic.Int64
	epoch   time.Time     // with a monotonic clock; immutable
	rotated chan struct{} // capacity 1: the log went on to another segment, and needs the next
	sealed  chan struct{} // likewise, and the one before can be synced
}

// frame is a batch that waits to be written.
type frame struct {
	buf    []byte  // header room, then records
	pieces []piece // of which buf is made when it is written; nil: it is whole
	size   int64   // bytes of memory, as counted with Options.Account
	end    LSN     // behind its records
	// version is that of the segment which it needs.
	version segment.Version
	// shared says who else uses that memory, and has counted it; nil: nobody.
	shared *item.Shared
}

// done gives the memory of f back.
func (f *frame) done(account func(int64)) {
	if f.shared == nil || f.shared.Drop() {
		account(-f.size)
	}
}

// New returns a journal that goes on in log, which it owns from then on.
func New(log *segment.Log, o Options) *Journal {
	j := &Journal{
		opts: o, log: log, to: o.committer(log), first: 1, version: segment.Version1, due: make(chan struct{}, 1),
		rotated: make(chan struct{}, 1), sealed: make(chan struct{}, 1), epoch: time.Now(),
	}
	j.active = make([]byte, segment.FrameHeaderSize, 64<<10)
	j.generation = 1
	segments := log.Segments()
	j.segment.Store(segments[len(segments)-1].Number)
	j.setOldest()
	j.room = log.Room()
	return j
}

func (o *Options) account(n int64) {
	if o.Account != nil {
		o.Account(n)
	}
}

func (o *Options) committer(log *segment.Log) Committer {
	if o.Committer == nil {
		return log
	}
	return o.Committer(log)
}

// appended accounts for n bytes of records added to active. The caller holds mu.
func (j *Journal) appended(n int) LSN {
	j.end += LSN(max(n, 1)) // what was left out must be waited for too
	j.room -= int64(n)
	if len(j.active) >= MaxBatch {
		j.endFrame()
	}
	return j.end
}

// endFrame ends the active frame, if there is anything in it. The caller holds mu.
func (j *Journal) endFrame() {
	if len(j.active) > segment.FrameHeaderSize {
		size := int64(cap(j.active))
		j.opts.account(size)
		j.ended = append(j.ended, frame{buf: j.active, size: size, end: j.end, version: j.version})
		j.swap()
	}
}

// recorded cuts to down to the queues that are recorded. The caller holds mu.
func (j *Journal) recorded(to []record.Destination) []record.Destination {
	if j.first > 1 {
		to = slices.DeleteFunc(to, func(d record.Destination) bool { return d.Queue < j.first })
	}
	return to
}

// swap starts a new active buffer. The caller holds mu.
func (j *Journal) swap() {
	if j.active, j.spare = j.spare, nil; j.active == nil {
		j.active = make([]byte, 0, 64<<10)
	}
	j.active = j.active[:segment.FrameHeaderSize]
	j.generation++
	j.lastPut = record.Destination{}
}

// Put records an item that goes to the queues in to. Unless from is zero, it also leaves the queue it expired from,
// and no crash comes between the two. The item lies in the segment returned or in a later one. Put may change to.
func (j *Journal) Put(to []record.Destination, it item.Item, from record.Destination) (lsn LSN, seg uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.active)
	if to = j.recorded(to); len(to) > 0 {
		j.appendPut(to, it)
	}
	j.appendLeave(from)
	return j.appended(len(j.active) - n), j.segment.Load()
}

// appendLeave adds the record of an item that leaves a queue, unless from is zero. The caller holds mu.
func (j *Journal) appendLeave(from record.Destination) {
	if from.Queue >= j.first {
		j.active = record.AppendRemove(j.active, from.Queue, from.Item, 0)
	}
}

// appendPut adds the shortest record of a put to active. The caller holds mu.
func (j *Journal) appendPut(to []record.Destination, it item.Item) {
	if !it.IsPlain() {
		j.version = segment.Version2
	}
	switch {
	case len(to) > 1:
		j.active = record.AppendFanout(j.active, to, it)
		j.lastPut = record.Destination{}
		return
	case to[0] == record.Destination{Queue: j.lastPut.Queue, Item: j.lastPut.Item + 1}:
		j.active = record.AppendNext(j.active, it)
	default:
		j.active = record.AppendPut(j.active, to[0], it)
	}
	j.lastPut = to[0]
}

// PutImages records items that go to one queue, with ids from that of to on; images holds their images.
// They lie in the segment returned or in a later one.
func (j *Journal) PutImages(to record.Destination, images []byte, items int) (lsn LSN, seg uint64) {
	j.mu.Lock()
	n := len(j.active)
	switch {
	case to.Queue < j.first:
	case items > 1:
		j.active = record.AppendPuts(j.active, to, images)
	case to == record.Destination{Queue: j.lastPut.Queue, Item: j.lastPut.Item + 1}:
		j.active = append(append(j.active, record.KindNext), images...)
	default:
		j.active = binary.AppendUvarint(append(j.active, record.KindPut), to.Queue)
		j.active = append(binary.AppendUvarint(j.active, to.Item), images...)
	}
	if len(j.active) > n {
		j.lastPut = record.Destination{Queue: to.Queue, Item: to.Item + uint64(items) - 1}
	}
	lsn, seg = j.appended(len(j.active)-n), j.segment.Load()
	j.mu.Unlock()
	return lsn, seg
}

// Removal is where the last remove record of a queue stands, so that the next one can extend it. The
// zero Removal is that of a queue without one. The lock of the queue guards it.
type Removal struct {
	generation uint64
	offset     int    // of the record in the active buffer
	more       uint32 // ids that it names behind the first
	last       uint64 // id that it ends with
	limit      uint64 // ids from here on were put, or rewritten, behind the record
}

// Remove records that an item of a queue is gone. It extends the last remove record of the queue, in r, if that is
// still in the buffer and ends with the id before. So a drain costs one record per write. nextID is the id of the
// queue's next put.
func (j *Journal) Remove(r *Removal, queue, id, nextID uint64) LSN {
	j.mu.Lock()
	var lsn LSN
	switch {
	case r.generation == j.generation && r.last+1 == id && id < r.limit && r.more < math.MaxUint32:
		r.more++
		binary.LittleEndian.PutUint32(j.active[r.offset+record.RemoveCountOffset:], r.more)
		r.last, lsn = id, j.end
	case queue < j.first:
		lsn = j.appended(0)
	default:
		n := len(j.active)
		*r = Removal{generation: j.generation, offset: n, last: id, limit: nextID}
		j.active = record.AppendRemove(j.active, queue, id, 0)
		lsn = j.appended(len(j.active) - n)
	}
	j.mu.Unlock()
	return lsn
}

// Keep rewrites an item that was put before. Its place in the journal is then the segment returned, or a later one. So
// its remove record must not be one that stands before it, which Keep notes in r.
func (j *Journal) Keep(r *Removal, queue uint64, it item.Item) (at uint64) {
	at = j.segment.Load() // before the record can be written
	if it.HasOwnMemory() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if r.limit = min(r.limit, it.ID); queue >= j.first {
			if !it.IsPlain() {
				j.version = segment.Version2
			}
			j.appendLate(keptLate(queue, it, nil))
		}
		return at
	}
	j.Record(queue, func(b []byte) []byte {
		if !it.IsPlain() {
			j.version = segment.Version2
		}
		return record.AppendKeep(b, queue, it)
	})
	r.limit = min(r.limit, it.ID)
	return at
}

// Record appends what encode appends to its argument: records of one queue, in one frame. It calls
// encode with the buffer locked.
func (j *Journal) Record(queue uint64, encode func([]byte) []byte) LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	if queue < j.first {
		return j.appended(0)
	}
	n := len(j.active)
	j.active = encode(j.active)
	return j.appended(len(j.active) - n)
}

// RecordFrame records what is in b, behind room for the head of a frame: records of one queue, in a frame of their own. It
// copies nothing: b is the journal's from then on.
func (j *Journal) RecordFrame(queue uint64, b []byte) LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	if queue < j.first {
		return j.appended(0)
	}
	j.endFrame()
	size := int64(cap(b))
	j.opts.account(size)
	return j.addFrame(frame{buf: b, size: size}, len(b)-segment.FrameHeaderSize)
}

// addFrame adds a frame with n bytes of records, behind those in the active one, which has ended. The caller holds mu.
func (j *Journal) addFrame(f frame, n int) LSN {
	f.end, f.version = j.appended(n), j.version
	j.ended = append(j.ended, f)
	return f.end
}

// appendLate adds frames of pieces, at least one. The caller holds mu.
func (j *Journal) appendLate(frames ...late) (lsn LSN) {
	j.endFrame()
	for _, l := range frames {
		size := int64(segment.FrameHeaderSize + l.size + padding)
		j.opts.account(size)
		lsn = j.addFrame(frame{pieces: l.pieces, size: size}, l.size)
	}
	return lsn
}

// RecordNew is Record of records that need version 2.
func (j *Journal) RecordNew(queue uint64, encode func([]byte) []byte) LSN {
	return j.Record(queue, func(b []byte) []byte {
		j.version = segment.Version2
		return encode(b)
	})
}

// PutExtra records an item that goes to the queues in to, and in the queues in over takes the place of another.
// It is in line, unless c says something else. It lies in the segment returned or in a later one. PutExtra
// may change to and over. A large item that takes the place of another has memory that nobody changes. Unless from is
// zero, it leaves the queue that from names, as with Put.
func (j *Journal) PutExtra(
	to, over []record.Destination, it item.Item, c record.Change, from record.Destination,
) (lsn LSN, seg uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.active)
	to, over = j.recorded(to), j.recorded(over)
	if len(over) > 0 && it.HasOwnMemory() {
		if from.Queue < j.first {
			from = record.Destination{}
		}
		j.version = segment.Version2
		return j.appendLate(putLate(to, over, it, c, from)...), j.segment.Load()
	}
	if len(to) > 0 {
		j.appendPut(to, it)
	}
	if !c.IsZero() {
		for _, d := range to {
			j.appendChange(d.Queue, d.Item, c)
		}
	}
	for _, d := range over {
		it.ID = d.Item
		j.active = record.AppendKeep(j.active, d.Queue, it)
		j.appendChange(d.Queue, d.Item, c)
	}
	j.appendLeave(from)
	return j.appended(len(j.active) - n), j.segment.Load()
}

// Change records what an item is now whose image the journal has.
func (j *Journal) Change(queue, id uint64, c record.Change) LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.active)
	if queue >= j.first {
		j.appendChange(queue, id, c)
	}
	return j.appended(len(j.active) - n)
}

// KeepChanged is Keep of an item, and Change, in one frame.
func (j *Journal) KeepChanged(
	r *Removal, queue uint64, it item.Item, c record.Change,
) (lsn LSN, seg uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.limit = min(r.limit, it.ID)
	n := len(j.active)
	switch {
	case queue < j.first:
	case it.HasOwnMemory():
		j.version = segment.Version2
		return j.appendLate(keptLate(queue, it, &c)), j.segment.Load()
	default:
		j.active = record.AppendKeep(j.active, queue, it)
		j.appendChange(queue, it.ID, c)
	}
	return j.appended(len(j.active) - n), j.segment.Load()
}

// appendChange adds a change record to active. The caller holds mu.
func (j *Journal) appendChange(queue, id uint64, c record.Change) {
	j.active = record.AppendChange(j.active, queue, id, c)
	j.version = segment.Version2
}

// Rewritten notes in r that an item was recorded again: its remove record must not be one that stands before.
func (r *Removal) Rewritten(id uint64) { r.limit = min(r.limit, id) }

// Delete records that a queue is gone.
func (j *Journal) Delete(queue uint64) LSN {
	return j.Record(queue, func(b []byte) []byte { return record.AppendDelete(b, queue) })
}

// End is the LSN behind the last record appended.
func (j *Journal) End() LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end
}

// Inspect calls read while nothing is written, and then visit with the records of each batch that is not
// written yet, oldest first.
func (j *Journal) Inspect(read func() error, visit func(records []byte) error) error {
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	if err := read(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range slices.Concat(j.pending, j.ended, []frame{{buf: j.active}}) {
		if err := visit(f.whole()[segment.FrameHeaderSize:]); err != nil {
			return err
		}
	}
	return nil
}
