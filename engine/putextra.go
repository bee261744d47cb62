package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// PutExtra is what few puts ask for.
type PutExtra struct {
	// Delay hides the item for so long; zero does not. An item that expires meanwhile leaves when it comes into line.
	Delay time.Duration
	// Key, unless it is empty, is the key of the item; see ValidateKey. It is copied before Put returns.
	Key []byte
	// OnDuplicate says what the put does if an item has the key, or none has. Fanout children overwrite
	// their own items of the key, or take another one, as the parent does.
	OnDuplicate Duplicate

	origin string // the queue that gave the item up; "": none has
	why    Why
	stands Standing // of an item that another store had; Delay is not used then
}

// admitExtra returns why q does not take a put with x, or nil. It adds to s what that answer must wait for.
func (e *Engine) admitExtra(q *queue, now Time, x *PutExtra, s *Stored) error {
	if err := q.admitDelay(x.Delay); err != nil {
		return err
	}
	if len(x.Key) == 0 {
		if x.Key != nil || x.OnDuplicate != Overwrite {
			return ValidateKey(x.Key)
		}
		return nil
	}
	if err := ValidateKey(x.Key); err != nil {
		return err
	}
	if x.OnDuplicate == Overwrite {
		return nil
	}
	_, ok := q.ofKey(x.Key, now)
	switch {
	case ok && x.OnDuplicate == OnlyNew:
		s.Ticket = s.Ticket.Merge(q.ticketAt(q.puts.newest)) // who tries again takes the item for stored
		return ErrKeyExists
	case !ok && x.OnDuplicate == OnlyReplace:
		return ErrNoSuchItem
	}
	return nil
}

// addExtra is add for an item with a key or an origin, or one that is hidden at first. Nobody else uses a large one.
func (e *Engine) addExtra(sh *shard, now Time, p *PutRequest, added Time, from record.Destination, s *Stored) {
	x := p.Extra
	it := Item{Data: p.Data, Flags: p.Flags, Added: added, Expiry: p.Expiry}
	if sh.large.of(p) {
		it = sh.large.frame.Item()
	} else if len(x.Key)+len(x.origin) > 0 {
		it = it.With(sh.scratch[:0], x.Key, x.origin, x.why)
		sh.scratch = smallScratch(it.Stored())
	}
	stands := x.stands
	if x.Delay > 0 {
		stands.Due = e.precise.In(x.Delay)
	}
	sh.to, sh.over = sh.to[:0], sh.over[:0]
	sh.ids = append(sh.ids[:0], make([]uint64, len(sh.targets))...) // of the items of the key; zero: there is none
	for i, q := range sh.targets {
		to := record.Destination{Queue: q.number, Item: q.nextID}
		if at, ok := q.ofKey(x.Key, now); ok {
			to.Item, sh.ids[i] = at.it.ID, at.it.ID
		}
		switch {
		case !q.opts.KeepJournal:
		case sh.ids[i] != 0:
			sh.over = append(sh.over, to)
		default:
			sh.to = append(sh.to, to)
		}
	}
	lsn, segment := e.recordPut(sh, p, it, stands, from)
	for i, q := range sh.targets {
		if sh.ids[i] != 0 {
			it.ID = sh.ids[i]
			if i == len(sh.ids)-1 { // children come first
				s.Replaced++
			}
			e.overwrite(q, &it, segment, stands)
		} else {
			it.ID = q.nextID
			e.append(q, &it, segment, stands, sh.large.of(p))
		}
		if it.HasKey() {
			q.noteKey(&it)
		}
		q.counters.puts++
		q.counters.putBytes += int64(len(it.Data))
		if q.opts.KeepJournal {
			s.Ticket = s.Ticket.Merge(q.ticket(e.journal, lsn))
			if sh.ids[i] != 0 {
				q.noteOverwrite(lsn)
			} else {
				q.notePut(e.journal, it.ID, lsn)
			}
		}
		if stands.Due != 0 {
			e.hideMany(q)
		}
		e.overflow(q)
		if stands.Due != 0 {
			e.hideMany(q)
		}
		s.Ahead = s.Ahead || e.ahead(q)
		e.serveWaiters(q, now)
	}
}

// append adds it, the next item of q: in line if stands is zero, and aside otherwise. The item lies in that segment
// of the journal or in a later one. It is in the shard's large put if prepared is set.
func (e *Engine) append(q *queue, it *Item, segment uint64, stands Standing, prepared bool) {
	if q.items() == 0 {
		q.ageBegins()
	}
	if stands.IsZero() {
		if w := e.newest(q, len(it.Data)); prepared {
			w.PushLarge(q.shard.large.chunk(), *it)
		} else {
			w.Push(&q.shard.pool, it, q.opts.MaxMemorySize)
		}
		if q.opts.KeepJournal {
			q.noteSegment(segment, it.ID)
		}
	} else {
		e.setAside(q, it, segment, entryOf(stands))
	}
	q.nextID++
}

// overwrite puts it in the place of the item with its id. It lies in a segment of the journal or in a later one,
// and is hidden until it is due, if it is to be. The caller serves those who wait.
func (e *Engine) overwrite(q *queue, it *Item, segment uint64, stands Standing) {
	at := q.locate(it.ID)
	size := len(at.it.Data)
	if at.isUnknown() {
		size = -1
	}
	e.cut(q, &at)
	q.leaveRun(it.ID, size)
	q.removal.Rewritten(it.ID)
	e.setAside(q, it, segment, entryOf(stands))
}

// largePut is a put of a large item, or of one to many queues. Its image is made before the shard is locked.
// Otherwise the put would hold the locks of the shard and of the journal while it copies so much. The image lies in a
// frame of the journal, and the chunks of all queues that take the item share it.
type largePut struct {
	data  *byte // the first of the item as it was given
	key   int   // bytes of its key
	frame *journal.Large
}

// image makes the image for a put of p, whatever memory there is.
func (e *Engine) image(p *PutRequest, of journal.LargeOf) *largePut {
	e.memory.Add(of.Size())
	return &largePut{&p.Data[0], len(of.With.Key), journal.NewLarge(of, e.opts.yield)}
}

// large is what the image is made of for a put of p to that many queues.
func (p *PutRequest) large(now Time, queues int) journal.LargeOf {
	of := journal.LargeOf{Item: p.item(now), Queues: queues}
	if x := p.Extra; x != nil && len(x.Key) <= MaxKeySize { // put refuses longer ones
		of.Changes, of.With = queues, item.Behind{Key: x.Key, Origin: x.origin, Why: x.why}
	}
	return of
}

// item is what p puts at a time.
func (p *PutRequest) item(now Time) Item {
	return Item{Data: p.Data, Flags: p.Flags, Added: now, Expiry: p.Expiry}
}

// dropLarge ends the use of l by the put that it was made for.
func (e *Engine) dropLarge(l *largePut) {
	if l != nil && l.frame.Shared.Drop() {
		e.memory.Add(-l.frame.Shared.Size)
	}
}

// of reports whether l is for the put of p, whose key may have been dropped since.
func (l *largePut) of(p *PutRequest) bool {
	return l != nil && len(p.Data) > 0 && l.data == &p.Data[0] && (p.Extra == nil || len(p.Extra.Key) == l.key)
}

// chunk returns a chunk with the item.
func (l *largePut) chunk() *item.Chunk { return item.NewLarge(l.frame.Image(), &l.frame.Shared) }

// recordPut records it, which p puts to the queues in sh.to and sh.over: see journal.PutExtra.
func (e *Engine) recordPut(sh *shard, p *PutRequest, it Item, c Standing, from record.Destination) (LSN, uint64) {
	if len(sh.to)+len(sh.over) == 0 {
		return 0, 0 // an item that moves stays recorded until carry removes it
	}
	if l := sh.large; l.of(p) && l.frame.IsFor(len(sh.to), len(sh.over)) {
		return e.journal.PutLarge(sh.to, sh.over, l.frame, c, from)
	}
	return e.journal.PutExtra(sh.to, sh.over, it, c, from)
}
