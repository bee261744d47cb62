package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// Match says which items of a queue a Scan is about.
type Match struct {
	From   uint64 // ids from here on
	Limit  int    // so many at most; 0: all
	Hidden bool   // also those that are delayed, or that somebody has
}

// Scan lists, changes or removes many items of a queue, in the order of their ids. It is done in pieces, in bounded
// memory: others use the queue in between. An item that is there all the time is met once, and no item twice.
//
// Its methods are for one goroutine at a time:
//
//	for w.Do(Now(), r, n) {
//		w.Wait()
//	}
//	count, ticket, err := w.Result()
type Scan struct {
	e        *Engine
	name     []byte
	clientID string
	kind     scanKind
	to       Changes
	match    Match
	delivery Delivery

	queue  *queue
	next   uint64 // ids below are done
	count  int
	newest uint64 // of the items met
	ticket Ticket
	err    error
	done   bool
	waits  bool // the next piece needs a frame from the disk

	// Of one piece.
	now    Time
	r      Receiver
	room   int
	extras []uint64   // ids of items that are not in line, ascending
	most   uint64     // up to which extras has all
	batch  []diskItem // to be changed or removed; their Data is the Scan's

	page runs.Page // the frame read last
	// reads are items of hidden runs that were read last, and wanted the one that is to be read next; zero: none.
	reads  map[uint64]diskItem
	wanted uint64
}

type scanKind uint8

const (
	scanList scanKind = iota
	scanChange
	scanRemove
)

const (
	// scanBatch is how many items are changed, or removed, with a shard locked.
	scanBatch = 64
	// scanExtras is how many items out of line one piece meets at most.
	scanExtras = 1024
	// scanItem is what an item counts for in a piece beside its body, in bytes.
	scanItem = 64
)

// List returns a Scan that hands the items of the queue called name to a Receiver, and leaves them there.
func (e *Engine) List(name []byte, m Match) *Scan {
	defer contain()
	return e.scan(scanList, name, m)
}

// Changing returns a Scan that does to each what Change does. With m.Hidden a new delay ends leases and open reads.
func (e *Engine) Changing(name []byte, clientID string, m Match, to Changes) *Scan {
	defer contain()
	w := e.scan(scanChange, name, m)
	w.clientID, w.to = clientID, to
	return w
}

// Removing returns a Scan that removes the items for good; with m.Hidden it ends leases and open reads.
func (e *Engine) Removing(name []byte, clientID string, m Match) *Scan {
	defer contain()
	w := e.scan(scanRemove, name, m)
	w.clientID = clientID
	return w
}

func (e *Engine) scan(kind scanKind, name []byte, m Match) *Scan {
	return &Scan{e: e, name: slices.Clone(name), kind: kind, match: m, next: max(m.From, 1)}
}

// Delivery describes the item that the Receiver is being given, as Look does. It describes an item that the Scan
// changes as it is after the change.
func (w *Scan) Delivery() *Delivery { return &w.delivery }

// Result returns how many items were met, and what the reply must wait for. The error is a *NotAdmittedError,
// ErrDelayTooLong, ErrClosed, or one that wraps ErrBacklog or ErrWithheld. Items met before stay changed. It may be
// called between two pieces.
func (w *Scan) Result() (count int, t Ticket, err error) {
	t = w.ticket
	if w.kind == scanList && w.newest > 0 {
		w.queue.shard.mu.Lock()
		t = w.queue.putTicket(w.newest)
		w.queue.shard.mu.Unlock()
	}
	return w.count, t, w.err
}

// Do does the next piece and reports whether there is more to do. A piece hands r items of about n bytes, or the
// first that has more; r may be nil if the Scan changes or removes. A piece ends with an item that r does not
// take, and the next begins with it. Do never waits for the disk.
func (w *Scan) Do(now Time, r Receiver, n int) (more bool) {
	defer contain()
	if w.done {
		return false
	}
	if w.e.closed.Load() {
		w.end(ErrClosed)
		return false
	}
	sh, q := w.e.lockQueue(w.name)
	defer w.e.unlock(sh, now)
	switch {
	case q == nil:
		w.end(w.e.withheld.refusal(string(w.name)))
		return false
	case w.queue == nil:
		w.queue = q
		w.e.wakeUp(q, now) // also if it is refused, as in every operation that a client asks for
		if err := w.admit(); err != nil {
			w.end(err)
			return false
		}
	case w.queue != q: // it was deleted
		w.end(nil)
		return false
	}
	w.now, w.r, w.room, w.waits, w.batch, w.wanted = now, r, n, false, w.batch[:0], 0
	w.e.wakeUp(q, now)
	w.gather()
	w.meet()
	w.change()
	w.r = nil
	if len(w.batch) > 0 {
		w.e.serveWaiters(q, now)
	}
	return !w.done
}

func (w *Scan) end(err error) { w.done, w.err = true, err }

// Wait waits for what the next piece needs of the disk.
func (w *Scan) Wait() {
	defer contain()
	if !w.waits {
		return
	}
	read := w.e.spool.readFrame
	if w.wanted != 0 {
		read = w.e.spool.readExtras
	}
	if err := read(w); err != nil {
		w.end(err)
	}
}

// admit returns why the queue does not let the client do this, or nil.
func (w *Scan) admit() error {
	if w.kind == scanList {
		return nil
	}
	if err := w.queue.admitConsumer(w.clientID); err != nil {
		return err
	}
	if w.to.SetDelay {
		return w.queue.admitDelay(w.to.Delay)
	}
	return nil
}

// gather looks for the first items that are not in line.
func (w *Scan) gather() {
	q := w.queue
	w.extras, w.most = w.extras[:0], math.MaxUint64
	add := func(id uint64) (more bool) {
		if id > w.most {
			return false
		}
		if w.extras = append(w.extras, id); len(w.extras) >= 2*scanExtras {
			w.dropHigher()
		}
		return true
	}
	read := func(r *read) bool { return add(r.item.ID) }
	q.returned.eachFrom(w.next, read)
	if q.aside != nil {
		q.aside.EachFrom(aside.Ready, w.next, add)
	}
	if w.match.Hidden {
		q.open.eachFrom(w.next, read)
	}
	if w.match.Hidden && q.aside != nil {
		q.aside.EachFrom(aside.Leased, w.next, add)
		q.aside.EachFrom(aside.Delayed, w.next, add)
		q.aside.hidden.EachFrom(w.next, add)
	}
	w.dropHigher()
}

// dropHigher sorts the extras, and drops all but the first of them.
func (w *Scan) dropHigher() {
	slices.Sort(w.extras)
	if len(w.extras) > scanExtras {
		w.extras = w.extras[:scanExtras]
		w.most = w.extras[scanExtras-1]
	}
}

// meet goes through the queue from w.next on until the piece ends.
func (w *Scan) meet() {
	q, b := w.queue, w.queue.backlog
	if !w.part(&q.window) {
		return
	}
	if b != nil && b.inReadBehind {
		if !w.onDisk() {
			return
		}
		for _, c := range b.flying {
			met := item.EachImage(c.Buf[c.Off:], c.FirstID, func(it Item) bool {
				return it.ID < w.next || b.gone.Has(it.ID) || w.take(it)
			})
			if !met {
				return
			}
		}
		if !w.part(&b.leaving) || !w.part(&b.recent) {
			return
		}
	}
	if w.takeExtras(math.MaxUint64) {
		w.end(nil)
	}
}

// part meets the items of a window, and reports whether the piece goes on.
func (w *Scan) part(v *item.Window) bool {
	return v.Count == 0 || v.From(&w.queue.shard.pool, w.next, w.take)
}

// onDisk meets the items on disk alone, as far as they have been read.
func (w *Scan) onDisk() bool {
	b := w.queue.backlog
	for b.onDisk > 0 {
		from := max(w.next, b.nextID)
		behind := b.runsFrom(from)
		if len(behind) == 0 {
			return true
		}
		if !w.page.Covers(behind[0].File, from) {
			if w.takeExtras(from) {
				w.waits = true
			}
			return false
		}
		met := item.EachImage(w.page.Body, w.page.FirstID, func(it Item) bool {
			return it.ID < max(w.next, b.nextID) || b.gone.Has(it.ID) || w.take(it)
		})
		if !met {
			return false
		}
		if !w.takeExtras(w.page.LastID + 1) { // the items of the frame behind them may be gone
			return false
		}
		w.next = max(w.next, w.page.LastID+1)
	}
	return true
}

// scanRead is how many bytes of items of hidden runs a Scan reads at a time, about.
const scanRead = 4 << 20

// readExtras reads the items of hidden runs that a Scan meets next, the one wanted in any case. A run is in the
// order of due times, so all of it is read.
func (s *spool) readExtras(w *Scan) error {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	if s.closed {
		return ErrClosed
	}
	q := w.queue
	wanted := make(map[*hidden.Run]map[uint64]bool)
	q.shard.mu.Lock()
	for _, id := range w.extras {
		if q.deleted || q.locate(id).where != isHidden {
			continue
		}
		r := q.aside.hidden.OnDisk(id)
		if wanted[r] == nil {
			wanted[r] = make(map[uint64]bool)
		}
		wanted[r][id] = true
	}
	q.shard.mu.Unlock()
	w.reads = make(map[uint64]diskItem)
	left := scanRead
	for r, ids := range wanted {
		err := s.eachIn(r, 0, func(e hidden.Entry) bool {
			if ids[e.ID] && (left > 0 || e.ID == w.wanted) {
				w.reads[e.ID] = diskItem{e.Item.Clone(), hiddenEntry(e), r}
				left -= len(e.Data)
			}
			return left > 0 || ids[w.wanted]
		})
		if err != nil {
			q.shard.mu.Lock()
			defer q.shard.mu.Unlock()
			if !r.IsDropped() {
				return err
			}
			return nil // what was in it has moved
		}
	}
	return nil
}

// readFrame reads the frame that a Scan goes on with, unless it needs none any more.
func (s *spool) readFrame(w *Scan) error {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	if s.closed {
		return ErrClosed
	}
	q := w.queue
	q.shard.mu.Lock()
	b := q.backlog
	var (
		behind []*run
		from   uint64
	)
	if b != nil && b.onDisk > 0 {
		from = max(w.next, b.nextID)
		behind = b.runsFrom(from)
	}
	if len(behind) == 0 {
		q.shard.mu.Unlock()
		return nil
	}
	r := behind[0]
	part := runs.Part{File: r.File, State: r.written}
	q.shard.mu.Unlock()
	if err := w.page.Read(s.reader, part, &r.places, from); err != nil {
		return fmt.Errorf("%w: %w", ErrBacklog, err)
	}
	return nil
}

// take meets an item in line, and those out of line before it. It reports whether the piece goes on.
func (w *Scan) take(it Item) bool {
	if !w.takeExtras(it.ID) || it.ID > w.most {
		return false
	}
	return w.meetOne(diskItem{Item: it}, Delivery{})
}

// takeExtras meets the items out of line with ids below one, and reports whether the piece goes on.
func (w *Scan) takeExtras(id uint64) bool {
	q := w.queue
	for len(w.extras) > 0 && w.extras[0] < id {
		at := q.locate(w.extras[0])
		if !at.know(w.reads[at.it.ID]) {
			w.waits, w.wanted = true, at.it.ID
			return false
		}
		w.extras = w.extras[1:]
		if !w.meetOne(diskItem{at.it, at.entry, at.run}, q.describe(&at)) {
			return false
		}
	}
	return id <= w.most || w.most == math.MaxUint64
}

// meetOne meets one item, and reports whether the piece goes on.
func (w *Scan) meetOne(it diskItem, d Delivery) bool {
	if w.match.Limit > 0 && w.count+len(w.batch) >= w.match.Limit {
		w.end(nil)
		return false
	}
	if w.queue.expired(&it.Item, w.now) {
		w.next = it.ID + 1
		return true
	}
	if w.kind != scanList {
		it.Item = it.Clone()
		w.batch = append(w.batch, it)
		w.next = it.ID + 1
		return len(w.batch) < scanBatch
	}
	w.delivery = d
	if !w.r.Receive(it.Item) {
		w.next = it.ID
		return false
	}
	w.count++
	w.next, w.newest = it.ID+1, max(w.newest, it.ID)
	w.room -= len(it.Data) + scanItem
	return w.room > 0
}

// change changes, or removes, the items that the piece has met.
func (w *Scan) change() {
	q, e := w.queue, w.e
	for _, it := range w.batch {
		at := q.locate(it.ID)
		if at.where == nowhere || !at.know(it) { // it cannot have gone meanwhile
			continue
		}
		if w.r != nil {
			seen := at.it
			w.delivery = q.describe(&at)
			if w.to.SetExpiry {
				seen.Expiry = w.to.Expiry
			}
			if w.to.SetDelay {
				w.delivery = Delivery{Deliveries: w.delivery.Deliveries}
				if w.to.Delay > 0 {
					w.delivery.Due = e.precise.In(w.to.Delay)
				}
			}
			if !w.r.Receive(seen) {
				w.next, w.done = it.ID, false
				return
			}
		}
		if w.kind == scanRemove {
			w.ticket = w.ticket.Merge(e.removeAt(q, &at))
		} else {
			w.ticket = w.ticket.Merge(e.changeAt(q, &at, w.to))
		}
		w.count++
	}
}
