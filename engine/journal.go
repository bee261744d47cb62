package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// LSN is a place in the stream of journal records of one process: bytes of records appended before
// it.
type LSN uint64

// Ticket says how far the journal must have come before an operation may be acknowledged. The zero
// Ticket asks for nothing. Tickets of operations of one goroutine may be merged.
type Ticket struct {
	Written LSN // the journal must be written up to here
	Synced  LSN // … and synced up to here
	// Ahead says that the queue that was put to takes items faster than the disk does. The put may be
	// acknowledged; whoever puts more should wait first, until (*Engine).Ahead says no. If nobody
	// does, memory and the journal grow up to the limits at which puts are refused.
	Ahead bool
}

// Merge returns the ticket that asks for what both ask for.
func (t Ticket) Merge(u Ticket) Ticket {
	return Ticket{max(t.Written, u.Written), max(t.Synced, u.Synced), t.Ahead || u.Ahead}
}

const (
	// maxBatch is how many bytes of records one frame of the journal gathers, unless a single
	// record is larger.
	maxBatch = 1 << 20
	// removeReserve is the room, in bytes, that puts leave in the journal when the disk is full, so
	// that removes can still be recorded and space becomes free.
	removeReserve = 1 << 20
)

// journal is the one shared log of all queues. Records are appended to a buffer under the shard's
// mutex and mu, which fixes their order; whoever needs them on disk first writes all that has
// gathered, and whoever needs them durable first syncs for all that wait: group commit without a
// timer.
//
// Lock order: shard, then mu. writeMu and syncMu are taken with neither held; syncMu before
// writeMu, writeMu before mu.
type journal struct {
	// log is replaced under syncMu, writeMu and mu, by the goroutine of maintain, which reads it
	// with none of them; see current.
	log *segment.Log

	written atomic.Uint64 // LSN up to which the log has taken the records; written under writeMu
	synced  atomic.Uint64 // LSN up to which they are durable; written under syncMu
	segment atomic.Uint64 // number of the segment written last: no later record is before it
	noDisk  atomic.Bool   // the disk has no room for another segment
	oldest  atomic.Uint64 // number of the oldest segment
	most    atomic.Int64  // how many others there should be at most; see ahead
	// failure is why the last write or sync failed; nil if it did not. Puts are refused meanwhile.
	failure atomic.Pointer[error]
	// moving says that the log is being replaced: nothing is written or synced, see movejournal.go.
	moving atomic.Bool // written under writeMu

	mu sync.Mutex
	// Guarded by mu.
	first      uint64             // records of queues with lower numbers are left out; at least 1
	end        LSN                // behind the last record appended
	active     []byte             // frame being filled: header room, then records
	generation uint64             // +1 each time active changes
	lastPut    record.Destination // of the last put in active, if that had one only; else zero
	full       [][]byte
	spare      []byte // the buffer to fill next, or nil
	room       int64  // bytes of records that the log takes without more disk, about

	writeMu sync.Mutex
	pending [][]byte // taken from full but not written, oldest first; guarded by writeMu

	syncMu sync.Mutex
	syncs  syncStats

	due chan struct{} // capacity 1: a write waits for a periodic sync
	// dueAt is when the oldest such write must be synced, in ns since epoch; zero if there is none.
	// Clocks of the wall may be set back, and it would not come for as long.
	dueAt   atomic.Int64
	epoch   time.Time     // with a monotonic clock; immutable
	rotated chan struct{} // capacity 1: the log went on to another segment, and needs the next
	sealed  chan struct{} // likewise, and the one before can be synced
}

func newJournal(log *segment.Log) *journal {
	j := &journal{
		log: log, first: 1, due: make(chan struct{}, 1), rotated: make(chan struct{}, 1),
		sealed: make(chan struct{}, 1), epoch: time.Now(),
	}
	j.active = make([]byte, segment.FrameHeaderSize, 64<<10)
	j.generation = 1
	segments := log.Segments()
	j.segment.Store(segments[len(segments)-1].Number)
	j.setOldest()
	j.room = log.Room()
	return j
}

// appended accounts for n bytes of records added to active. The caller holds mu.
func (j *journal) appended(n int) LSN {
	j.end += LSN(max(n, 1)) // what was left out must be waited for too
	j.room -= int64(n)
	if len(j.active) >= maxBatch {
		j.full = append(j.full, j.active)
		j.swap()
	}
	return j.end
}

// swap starts a new active buffer. The caller holds mu.
func (j *journal) swap() {
	if j.active, j.spare = j.spare, nil; j.active == nil {
		j.active = make([]byte, 0, 64<<10)
	}
	j.active = j.active[:segment.FrameHeaderSize]
	j.generation++
	j.lastPut = record.Destination{}
}

// put records an item going to the queues named and, unless from is zero, leaving the one it
// expired from: no crash comes between the two. The segment they go to is segment or a later one.
func (j *journal) put(to []record.Destination, it Item, from record.Destination) (lsn LSN, segment uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.active)
	if j.first > 1 {
		to = slices.DeleteFunc(to, func(d record.Destination) bool { return d.Queue < j.first })
	}
	if len(to) > 0 {
		j.appendPut(to, it)
	}
	if from.Queue >= j.first {
		j.active = record.AppendRemove(j.active, from.Queue, from.Item, 0)
	}
	return j.appended(len(j.active) - n), j.segment.Load()
}

// appendPut adds the shortest record of a put to active. The caller holds mu.
func (j *journal) appendPut(to []record.Destination, it Item) {
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

// putRun records items going to one queue, of ids from that of to on; images holds theirs. The
// segment they go to is segment or a later one.
func (j *journal) putRun(to record.Destination, images []byte, items int) (lsn LSN, segment uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.active)
	switch {
	case to.Queue < j.first:
		return j.appended(0), j.segment.Load()
	case items > 1:
		j.active = record.AppendRun(j.active, to, images)
	case to == record.Destination{Queue: j.lastPut.Queue, Item: j.lastPut.Item + 1}:
		j.active = append(append(j.active, record.KindNext), images...)
	default:
		j.active = binary.AppendUvarint(append(j.active, record.KindPut), to.Queue)
		j.active = append(binary.AppendUvarint(j.active, to.Item), images...)
	}
	j.lastPut = record.Destination{Queue: to.Queue, Item: to.Item + uint64(items) - 1}
	return j.appended(len(j.active) - n), j.segment.Load()
}

// removal is where the last remove record of a queue stands, so that the next one can extend it.
type removal struct {
	generation uint64
	offset     int    // of the record in the active buffer
	more       uint32 // ids that it names behind the first
	last       uint64 // id that it ends with
	limit      uint64 // ids from here on were put, or told again, behind the record
}

// remove records that an item is gone, extending the queue's last remove record if that is still in
// the buffer and ends with the id before: a drain costs one record per write.
func (j *journal) remove(q *queue, id uint64) LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r := &q.removal; r.generation == j.generation && r.last+1 == id && id < r.limit &&
		r.more < math.MaxUint32 {
		r.more++
		binary.LittleEndian.PutUint32(j.active[r.offset+record.RemoveCountOffset:], r.more)
		r.last = id
		return j.end
	}
	if q.number < j.first {
		return j.appended(0)
	}
	n := len(j.active)
	q.removal = removal{generation: j.generation, offset: n, last: id, limit: q.nextID}
	j.active = record.AppendRemove(j.active, q.number, id, 0)
	return j.appended(len(j.active) - n)
}

// record appends what encode appends to its argument, a record of the queue with that number.
func (j *journal) record(queue uint64, encode func([]byte) []byte) LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	if queue < j.first {
		return j.appended(0)
	}
	n := len(j.active)
	j.active = encode(j.active)
	return j.appended(len(j.active) - n)
}

// queue records that q exists, and its next id.
func (j *journal) queue(q *queue) LSN {
	return j.record(q.number, func(b []byte) []byte {
		return record.AppendQueue(b, q.number, q.nextID, q.created, q.name)
	})
}

// keep records an item of q that was put before once more. Its place in the journal is then the
// segment returned, or a later one.
func (j *journal) keep(q *queue, it Item) (segment uint64) {
	segment = j.segment.Load() // before the record can be written
	j.record(q.number, func(b []byte) []byte { return record.AppendKeep(b, q.number, it) })
	q.removal.limit = min(q.removal.limit, it.ID) // its removal must stand behind this
	return segment
}

// delete records that q is gone.
func (j *journal) delete(q *queue) LSN {
	return j.record(q.number, func(b []byte) []byte { return record.AppendDelete(b, q.number) })
}

// admit reports whether the journal takes a put of n bytes now.
func (j *journal) admit(n int) error {
	if j.failing() {
		return ErrJournal
	}
	if j.noDisk.Load() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.room < int64(n)+removeReserve {
			return ErrOutOfDisk
		}
	}
	return nil
}

// write hands the log every record appended so far, unless those up to upTo are written already.
func (j *journal) write(upTo LSN) error {
	if j.written.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	j.writeMu.Lock()
	defer j.writeMu.Unlock()
	if j.written.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	return j.writePending(j.takeBuffers())
}

// takeBuffers moves what has gathered to pending and returns the LSN behind it. The caller holds
// writeMu.
func (j *journal) takeBuffers() LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending = append(j.pending, j.full...)
	clear(j.full)
	j.full = j.full[:0]
	if len(j.active) > segment.FrameHeaderSize {
		j.pending = append(j.pending, j.active)
		j.swap()
	}
	return j.end
}

// writePending writes the buffers in pending, which hold the records up to end. After an error they
// stay there, to be tried again by the next write. The caller holds writeMu.
func (j *journal) writePending(end LSN) error {
	done := 0
	for _, buf := range j.pending {
		at, grown, err := j.log.Append(buf)
		if err != nil {
			j.pending = append(j.pending[:0], j.pending[done:]...)
			return j.failed(err)
		}
		if at.Segment != j.segment.Load() {
			j.segment.Store(at.Segment)
			signal(j.rotated)
			signal(j.sealed)
		}
		j.recycle(j.log, grown)
		done++
	}
	clear(j.pending)
	j.pending = j.pending[:0]
	j.written.Store(uint64(end))
	if j.failing() {
		j.failure.Store(nil)
	}
	return nil
}

// current returns the log.
func (j *journal) current() *segment.Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log
}

// recycle makes a buffer that log has taken the spare one.
func (j *journal) recycle(log *segment.Log, buf []byte) {
	room := log.Room()
	j.mu.Lock()
	if buf != nil && cap(buf) <= 2*maxBatch {
		j.spare = buf[:0]
	}
	j.room = room - int64(len(j.active))
	j.mu.Unlock()
}

// measureRoom takes note of how much log has room for.
func (j *journal) measureRoom(log *segment.Log) { j.recycle(log, nil) }

// failed words an error of the log, and has puts refused until a write succeeds.
func (j *journal) failed(err error) error {
	if errors.Is(err, segment.ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, syscall.ENOSPC) {
		j.noDisk.Store(true)
		err = fmt.Errorf("%w: %w", ErrOutOfDisk, err)
	}
	err = fmt.Errorf("%w: %w", ErrJournal, err)
	if was := j.failure.Load(); was == nil || errors.Is(*was, ErrOutOfDisk) {
		j.failure.Store(&err) // a full disk that gets in the way of mending it is not the reason
	}
	return err
}

// failing reports whether the last write or sync failed.
func (j *journal) failing() bool { return j.failure.Load() != nil }

// sync makes every record appended so far durable, unless those up to upTo are already.
func (j *journal) sync(upTo LSN) error {
	if j.synced.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	if j.synced.Load() >= uint64(upTo) {
		return nil
	}
	if err := j.refusal(); err != nil {
		return err
	}
	due := j.dueAt.Swap(0)
	err := j.write(j.appendedEnd())
	if err != nil {
		j.dueAt.CompareAndSwap(0, due) // what could not be written is still due
	}
	// What had been written before is synced all the same: it may have been acknowledged.
	if written := j.written.Load(); written > j.synced.Load() {
		if err := j.syncLog(); err != nil {
			return err
		}
		j.synced.Store(written)
		if due != 0 {
			j.syncs.countLate(time.Since(j.epoch) - time.Duration(due))
		}
	}
	if j.synced.Load() >= uint64(upTo) {
		return nil
	}
	return err
}

// writeOut has the disk take what has been appended, a little at a time, before a sync that nobody
// waits for.
func (j *journal) writeOut() error {
	if err := j.write(j.appendedEnd()); err != nil {
		return err
	}
	if err := j.log.WriteOut(); err != nil {
		return j.failed(err)
	}
	return nil
}

// syncDue makes durable what waits for a periodic sync. What is due is forgotten first, also if
// another sync has covered it meanwhile: as long as something is due, and its time is over, nobody
// who writes would ask for the next sync. Who relied on it had appended before.
func (j *journal) syncDue() error {
	due, before := j.dueAt.Swap(0), j.synced.Load()
	if err := j.sync(j.appendedEnd()); err != nil {
		j.dueAt.CompareAndSwap(0, due)
		return err
	}
	if due != 0 && j.synced.Load() > before {
		j.syncs.countLate(time.Since(j.epoch) - time.Duration(due))
	}
	return nil
}

// appendedEnd is the LSN behind the last record appended.
func (j *journal) appendedEnd() LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end
}

// commit makes t good; see [Engine.Commit].
func (j *journal) commit(t Ticket) error {
	if t.Synced > 0 {
		if err := j.sync(t.Synced); err != nil {
			return err
		}
	}
	return j.write(t.Written)
}

// syncWithin asks for a sync of what has been appended within d, which is above 0, from now.
func (j *journal) syncWithin(d time.Duration) {
	at := int64(time.Since(j.epoch) + d)
	for {
		due := j.dueAt.Load()
		if due != 0 && due <= at {
			return
		}
		if j.dueAt.CompareAndSwap(due, at) {
			signal(j.due)
			return
		}
	}
}

// signal wakes the reader of a channel of capacity 1; a wake-up that is still pending is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
