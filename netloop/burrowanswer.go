package netloop

import (
	"slices"
	"strconv"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// burrowAnswer gathers the messages of a reply. The engine hands items over with a shard locked. The session then
// copies them, or uses the memory that a large item has, and words them when the lock is free. While a job of the
// session runs it belongs to that.
type burrowAnswer struct {
	session *session
	number  uint64          // of the queue
	body    []byte          // of the request
	extra   engine.PutExtra // of a put

	delivery engine.Delivery // of the item being received
	look     engine.LookRequest
	walk     *engine.Scan // that the items come from; nil: there is one item
	more     bool         // the walk is not over
	limit    int          // bytes that are gathered in one step, about
	messages []shown      // that were gathered
	raw      []byte       // what was copied of them
	text     []byte       // messages that were worded
	reserved int64        // bytes of large bodies in text, or still to be worded, as counted in the server's owed
	count    int          // of them
	last     []byte       // id of the last of them, in version 1.1
}

// shown is a message of an answer. Offsets are in raw.
type shown struct {
	place    uint64 // in the queue
	id, body int    // where these begin; the id ends where the body begins
	end      int
	large    []byte // the body, if it has memory of its own; held
	expiry   engine.Time
	ttl      int64 // milliseconds left; 0: for ever
	hide     int64 // milliseconds; 0: visible
	receipt  uint64
	count    int // deliveries
}

// begin empties a for the next request, whose body is body.
func (a *burrowAnswer) begin(s *session, body []byte) {
	a.session, a.body, s.noRoom = s, body, false
	a.drop()
	a.release()
	if a.text, a.count = a.text[:0], 0; cap(a.text) > maxPooledBuffer {
		a.text = nil
	}
	if cap(a.raw) > maxPooledBuffer {
		a.raw = nil
	}
}

// ownAnswer has the session take the request and its answer along, because it starts a job. Until that has ended, other
// sessions make their answers in the one that the loop has.
func (s *session) ownAnswer() *burrowAnswer {
	s.copyRequest()
	b, l := s.burrow, s.loop
	if b.answer == l.burrowAnswer {
		l.burrowAnswer = new(burrowAnswer)
	}
	return b.answer
}

// drop forgets what was gathered.
func (a *burrowAnswer) drop() {
	for i := range a.messages {
		if m := &a.messages[i]; m.large != nil {
			a.session.loop.server.bodies.drop(m.large)
			m.large = nil
		}
	}
	a.messages, a.raw = a.messages[:0], a.raw[:0]
}

// gather prepares a for the items of a walk, or if that is nil for one item.
func (a *burrowAnswer) gather(s *session, walk *engine.Scan) {
	a.drop()
	a.walk, a.more, a.delivery = walk, false, engine.Delivery{}
	a.text, a.count = a.text[:0], 0
	if a.number = 0; walk != nil || len(s.burrow.req.ID) == 0 || s.burrow.req.ID[0] == reservedPrefix {
		a.number, _ = s.loop.engine.QueueNumber(s.burrow.name) // for the ids of items without a key
	}
}

// step takes the walk on by about that many bytes of items.
func (a *burrowAnswer) step(now engine.Time, bytes int) (more bool) {
	a.limit = bytes
	var to engine.Receiver = a
	if a.session.burrow.req.Detail == burrow.DetailNone {
		to = unseen{}
	}
	a.more = a.walk.Do(now, to, bytes)
	return a.more
}

// refused reports whether the last step has gathered nothing because there is no room for the next message.
func (a *burrowAnswer) refused() bool { return a.more && len(a.messages) == 0 && a.session.noRoom }

// unseen takes items that no reply shows.
type unseen struct{}

// Receive implements engine.Receiver.
func (unseen) Receive(engine.Item) bool { return true }

// Receive implements engine.Receiver. It takes no more than the limit, but always one.
func (a *burrowAnswer) Receive(it engine.Item) bool {
	s := a.session
	detail := s.burrow.req.Detail
	if a.walk != nil && len(a.messages) > 0 && len(a.raw) >= a.limit {
		return false
	}
	d := &a.delivery
	if a.walk != nil {
		d = a.walk.Delivery()
	}
	m := shown{place: it.ID, id: len(a.raw), expiry: it.Expiry}
	a.raw = a.appendID(a.raw, it)
	m.body = len(a.raw)
	switch {
	case detail < burrow.DetailBody:
	case it.HasOwnMemory():
		if !a.reserve(len(it.Data)) || !s.loop.server.bodies.use(it.Data, s.loop.engine.MemoryLimit()/replyShare) {
			a.raw = a.raw[:m.id]
			s.noRoom = true
			return false
		}
		m.large = it.Data
	default:
		a.raw = append(a.raw, it.Data...)
	}
	m.end = len(a.raw)
	now := engine.Now()
	if it.Expiry != 0 {
		m.ttl = max(int64(it.Expiry-now), 1)
	}
	if d.Due != 0 {
		m.hide = max(int64(d.Due-now), 0)
	}
	m.receipt, m.count = d.Receipt, d.Deliveries
	a.messages = append(a.messages, m)
	return true
}

// appendID appends the id of an item: its key, or if it has none its place.
func (a *burrowAnswer) appendID(dst []byte, it engine.Item) []byte {
	if key := it.Key(); key != nil {
		return append(dst, key...)
	}
	dst = append(dst, reservedPrefix)
	dst = strconv.AppendUint(dst, a.number, 10)
	dst = append(dst, '.')
	return strconv.AppendUint(dst, it.ID, 10)
}

// message returns the i-th message that was gathered.
func (a *burrowAnswer) message(i int) burrow.Message {
	m := &a.messages[i]
	body := a.raw[m.body:m.end]
	if m.large != nil {
		body = m.large
	}
	return burrow.Message{ID: a.raw[m.id:m.body], TTL: seconds(m.ttl), Hide: seconds(m.hide), Body: body}
}

// wordedRoom is about how many bytes of a message's words are not its body.
const wordedRoom = 1 << 10

// word words what was gathered behind the messages that were worded before, and forgets it.
func (a *burrowAnswer) word(detail burrow.Detail) {
	for i := range a.messages {
		if large := a.messages[i].large; large != nil { // at once: a buffer that doubles leaves as much garbage
			a.text = slices.Grow(a.text, len(large)+wordedRoom)
		}
		if a.count > 0 {
			a.text = append(a.text, ',')
		}
		if m := a.message(i); a.session.burrow.modern {
			a.wordModern(&a.messages[i], m)
		} else {
			a.text = burrow.AppendMessage(a.text, m, detail)
		}
		a.count++
	}
	a.drop()
}

// wordModern words a message for version 1.1.
func (a *burrowAnswer) wordModern(m *shown, as burrow.Message) {
	a.text = burrow.AppendDelivered(a.text, burrow.Delivered{
		ID: as.ID, Body: as.Body, TTL: m.ttl, Hidden: m.hide, Deliveries: m.count, Receipt: m.receipt,
	})
	a.last = append(a.last[:0], as.ID...)
}
